"""`python -m dir_console.conformance.trial`: tries what could leave this process, and says what did.

One request as JSON on standard input, one answer as JSON on standard output. It listens on the loopback
address, lets the product's own executor call that address in several spellings, and judges one stored
proposal with every socket refused. It opens no database.
"""

import json
import socket
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from threading import Thread
from typing import Any, Final

import django

# What an audit hook of Python names when something leaves the process, or another one is started.
_LEAVING: Final = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn")
_ACCEPT_S: Final = 0.05
_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_LEASE_S: Final = 10.0


class Watch:
    """The audit hook: which events came since it was last emptied."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Keep the name of an event that leads outside."""
        if event.startswith(_LEAVING):
            self.events.append(event)


class Listener:
    """A server on a loopback address (IPv4) that counts who connects."""

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind((host, 0))
        self._socket.listen(16)
        self.port = int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Listen no longer."""
        self._socket.close()

    def count(self) -> int:
        """How many have connected since the last time; a connection waits here until it is counted."""
        self._socket.settimeout(_ACCEPT_S)
        found = 0
        while True:
            try:
                self._socket.accept()[0].close()
            except TimeoutError:
                return found
            found += 1

    @contextmanager
    def answering(self) -> Iterator[list[bytes]]:
        """Answer the first who connects; the list then holds what was sent."""
        received: list[bytes] = []

        def serve() -> None:
            self._socket.settimeout(_LEASE_S)
            try:
                with self._socket.accept()[0] as connection:
                    connection.settimeout(_LEASE_S)
                    received.append(connection.recv(65536))
                    connection.sendall(_ANSWER)
            except OSError:
                return

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield received
        thread.join(_LEASE_S)


def main() -> None:
    """Answer the request."""
    request = json.load(sys.stdin)
    watch = Watch()
    sys.addaudithook(watch)
    django.setup()
    answer = {"egress": try_egress(request["host"], request["spellings"])}
    if request["judge"]:
        answer["judge"] = try_judging(watch, **request["judge"])
    json.dump(answer, sys.stdout)


def try_egress(host: str, spellings: list[str]) -> dict[str, Any]:
    """Call a listening address by the execution service, as the settings are; then with it allowed.

    The last two tell that the listener would have noticed: the same call with the address allowed, and a
    connection that is opened without the execution service.
    """
    from django.conf import settings

    tries = []
    with closing(Listener(host)) as listener:
        for spelling in spellings:
            for way, call in (("call", _call), ("question", _ask)):
                result = call(f"http://{spelling}:{listener.port}")
                tries.append({"address": spelling, "way": way, "result": result, "arrived": listener.count()})
        settings.DIR_EGRESS_ALLOW = [*settings.DIR_EGRESS_ALLOW, f"{host}:{listener.port}"]
        with listener.answering() as received:
            result = _ask(f"http://{host}:{listener.port}")
        allowed = {"result": result, "arrived": len(received)}
        with socket.create_connection((host, listener.port), timeout=_LEASE_S):
            past = listener.count()
    return {"host": host, "tries": tries, "allowed": allowed, "past": past}


def _step() -> Any:
    from runtime.contracts.verdict import StepRequest

    return StepRequest(
        step="conformance",
        executor="http",
        target="conformance",
        method="POST",
        path="/conformance",
        body={},
        key="0" * 64,
        timeout_s=2,
        probe="/conformance",
    )


def _ask(base_url: str) -> str:
    """What a question to a target comes to: the category of its failure, or the status of the answer."""
    from runtime.execution.services import calling
    from runtime.registry.queries.target_endpoints import TargetEndpoint

    result = calling.ask(
        step=_step(),
        place=TargetEndpoint(base_url=base_url),
        message="conformance",
        traceparent="",
        gate=nullcontext,
        observe=lambda _: None,
    )
    return str(getattr(result, "category", result.status_code))


def _call(base_url: str) -> str:
    """What a call of an intent comes to. It is refused before its gate, which would ask the database."""
    from runtime.execution.services import calling
    from runtime.execution.services.claiming import Claimed
    from runtime.flows.services.locks import IntentFlow
    from runtime.registry.queries.target_endpoints import TargetEndpoint

    claim = Claimed(
        intent_id=uuid.UUID(int=0),
        tenant="",
        where=IntentFlow(dfid=uuid.UUID(int=0), agent_pk=0, steps=1),
        owner="conformance",
        number=1,
        step=_step(),
        place=TargetEndpoint(base_url=base_url),
        traceparent="",
    )
    try:
        result = calling.call(claim, lease_left_s=_LEASE_S)
    except Exception as error:  # its gate was reached: what it asked for is not the point here
        return type(error).__name__
    return str(getattr(result, "category", result.status_code))


def try_judging(watch: Watch, *, judgement: str, rules: str, verdict: str) -> dict[str, Any]:
    """Judge stored bytes (hexadecimal) while every socket is refused; what came out, and what was tried."""
    from runtime.kernel.gate import pipeline

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("nothing may leave while a proposal is judged")

    watch.events.clear()
    with _replaced(socket, "socket", refuse), _replaced(socket, "create_connection", refuse):
        judged = pipeline.judge_bytes(bytes.fromhex(judgement), bytes.fromhex(rules))
    return {"is_equal": judged.hex() == verdict, "events": list(watch.events)}


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


if __name__ == "__main__":
    main()
