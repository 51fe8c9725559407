"""What one governed action costs: in three calls (flow, context, proposal), in one, and beside a bare view.

The kind has a dependency, a limit, a rule, a claim and a stored context. CPU is read from the process table
around a row of actions of one client, so other load on the machine changes little. The roads take turns.
"""

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

import yaml

from bench import environment, process_cpu
from bench.environment import Server, Stand
from bench.pages import Browser
from demo.client import Client, GivenVerdict

AGENT: Final = "bench-agent"
BODY: Final = {
    "policy_kind": "BENCH_ORDER",
    "params": {"symbol": "ACME", "quantity": 5, "notional_cents": 50000},
    "execution_constraints": {"validity_window_sec": 3600, "max_slippage_bps": 50},
    "confidence": 0.9,
}
SEEN: Final = {"price.ACME": 1, "market.state": 1}
BARE: Final = "bare view"
Road = Callable[[Client], GivenVerdict]


def three_calls(client: Client) -> GivenVerdict:
    """Open a flow, ask for its context, propose."""
    dfid = client.open_flow(trigger="bench")
    return client.propose(dfid, {**BODY, "context_ref": client.context(dfid).ref})


def one_call(client: Client) -> GivenVerdict:
    """The same at once, on the facts that were seen."""
    return client.propose_at_once(BODY, trigger="bench", seen=SEEN)


ROADS: Final[dict[str, Road]] = {"three calls": three_calls, "one call": one_call}


def run(stand: Stand, actions: int, rounds: int) -> dict[str, float]:
    """Measure on one database, and print CPU milliseconds for each action by road."""
    load(stand)
    key = environment.manage(stand, "issue_key", AGENT)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*ROADS, BARE)}
    with ExitStack() as stack:
        server = stack.enter_context(environment.serving(stand, "dir_console.asgi:application"))
        client = Client(base_url=server.base_url, agent_id=AGENT, key=key)
        stack.callback(client.wire.close)
        works = {name: partial(act, client, road) for name, road in ROADS.items()}
        for work in works.values():
            measure(stand, server, work, 20)  # the first calls compile rules and statements
        bare = stack.enter_context(environment.serving(stand, "bench.bare_asgi:application"))
        works[BARE] = partial(Browser(bare.base_url).post, "/bare", {}, status=HTTPStatus.OK)
        measure(stand, bare, works[BARE], 20)
        for _ in range(rounds):
            for name, work in works.items():
                found[name].append(measure(stand, bare if name == BARE else server, work, actions))
    middles = {
        name: [statistics.median(part) for part in zip(*costs, strict=True)] for name, costs in found.items()
    }
    for name, (server_ms, database_ms) in middles.items():
        print(f"{stand.name:<12}{name:<28}{server_ms:>12.1f}{database_ms:>12.1f}")
    ratios = {
        f"one call / {other}": sum(middles["one call"]) / sum(middles[other])
        for other in ("three calls", BARE)
    }
    for name, ratio in ratios.items():
        print(f"{stand.name:<12}{name:<28}{ratio:>12.2f}")
    return {f"{stand.name}: CPU of an action in {name}": ratio for name, ratio in ratios.items()}


def act(client: Client, road: Road) -> None:
    """Act once; anything but an acceptance raises."""
    verdict = road(client)
    if verdict.verdict != "ACCEPT":
        raise RuntimeError(f"the bench's proposal was not accepted: {verdict}")


def acting(base_url: str, key: str, agent: str = AGENT) -> Callable[[], None]:
    """A client of its own that acts once, in one call, each time it is called."""
    client = Client(base_url=base_url, agent_id=agent, key=key)
    client.handshake()
    return partial(act, client, one_call)


def load(stand: Stand, *, base_url: str = "", also: Sequence[str] = ()) -> None:
    """The bench's pack, whose kind also claims; nothing that is reserved is released in the bench.

    With `base_url`, its step is a call to that target. `also` are agents as the pack's.
    """
    pack = yaml.safe_load(environment.pack(base_url))
    pack["agents"] += [{**pack["agents"][0], "agent_id": name} for name in also]
    pack["resources"] = [{"name": "cash:bench", "capacity": 10**12, "unit": "cents"}]
    pack["policy_kinds"][0]["claims"] = [{"resource": "cash:bench", "amount": "params.notional_cents"}]
    environment.activate(stand, yaml.safe_dump(pack, sort_keys=False))


def measure(stand: Stand, server: Server, work: Callable[[], object], times: int) -> tuple[float, float]:
    """CPU milliseconds each time: of the server's processes, and of the database's backends."""
    name = PurePosixPath(urlsplit(stand.environ.get("DATABASE_URL", "")).path).name
    began_ms = process_cpu.of_tree(server.pid)
    database_ms = process_cpu.of_database(name) if name else 0.0
    for _ in range(times):
        work()
    used_ms = process_cpu.of_tree(server.pid) - began_ms
    database_ms = process_cpu.of_database(name) - database_ms if name else 0.0
    return used_ms / times, database_ms / times
