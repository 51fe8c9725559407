"""Agents of the trial pack that work over HTTP, so that a server is busy while something happens to it."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from demo.client import Client
from tests.support import trading_desk


def propose(client: Client) -> str:
    """An accepted proposal that may wait for an hour; its flow."""
    dfid = client.open_flow(trigger="trial")
    verdict = client.propose(
        dfid,
        {
            "policy_kind": trading_desk.KIND,
            "params": {"symbol": "ABC", "quantity": 1},
            "execution_constraints": {"validity_window_sec": 3600},
            "context_ref": client.context(dfid).ref,
            "confidence": 0.9,
        },
    )
    assert verdict.verdict == "ACCEPT", verdict
    return dfid


def connect(*, base_url: str, key: str, count: int) -> list[Client]:
    """Clients with sessions of their own."""
    return [Client(base_url=base_url, agent_id=trading_desk.AGENT, key=key) for _ in range(count)]


def disconnect(clients: Sequence[Client]) -> None:
    """Close their connections; a later call opens another one."""
    for client in clients:
        client.wire.close()


@contextmanager
def working(clients: Sequence[Client]) -> Iterator[list[str]]:
    """Each proposes without a pause until the end; the flows of what was accepted so far."""
    flows: list[str] = []
    stopping = threading.Event()

    def work(client: Client) -> None:
        while not stopping.is_set():
            flows.append(propose(client))

    threads = [threading.Thread(target=work, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield flows
    finally:
        stopping.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "an agent still waits for an answer"
