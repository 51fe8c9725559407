"""Each program of the demo, from its command line to its clean end."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from demo import agents, broker, feed
from demo.http_client import Unreachable, Wire
from tests.demo.paper import ThreadBroker, free_port
from tests.support.wait_until import until

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """A program takes SIGTERM and SIGINT over; the test run gets its own back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, former in before.items():
        signal.signal(number, former)


def _end_when(true: Callable[[], object]) -> threading.Thread:
    former = signal.getsignal(signal.SIGTERM)

    def taken_over() -> bool:
        # Before the program has its own handler in place, the signal would end the test run itself.
        return signal.getsignal(signal.SIGTERM) is not former

    def wait() -> None:
        until(lambda: taken_over() and true(), timeout_s=90)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _answers(port: int) -> bool:
    wire = Wire(base_url=f"http://127.0.0.1:{port}", patience_s=0)
    try:
        return wire.call("GET", "/market").status == 200
    except Unreachable:
        return False
    finally:
        wire.close()


def test_the_broker_serves_until_it_is_told_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    ender = _end_when(lambda: _answers(port))

    assert broker.main(["--port", str(port), "--db", str(tmp_path / "b.sqlite3"), "--market", "closed"]) == 0

    ender.join(timeout=60)
    assert capsys.readouterr().err == f"broker ready on {port}\n"


def test_the_feed_ends_while_it_waits_for_the_console(
    broker: ThreadBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(feed.PRICE_KEY_ENV, "fdk_x.y")
    asked = threading.Event()

    def market() -> str:
        asked.set()
        return "OPEN"

    monkeypatch.setattr(broker.exchange, "market", market)
    ender = _end_when(asked.is_set)

    assert feed.main(["--base", NOWHERE, "--broker", broker.base_url]) == 0
    ender.join(timeout=60)


def test_the_feed_goes_on_when_the_broker_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = threading.Event()
    nowhere = Wire(base_url=NOWHERE, patience_s=0)
    monkeypatch.setattr(feed, "EVERY_S", 0.01)
    thread = threading.Thread(
        target=feed.run,
        kwargs={"feed": feed.Feed(console=nowhere, broker=nowhere, keys={"price": "fdk_x.y"}), "stop": stop},
    )
    thread.start()
    told: list[str] = []

    def told_twice() -> bool:
        told.append(capsys.readouterr().err)
        return "".join(told).count("feed: GET /prices") > 1

    until(told_twice)
    stop.set()
    thread.join(timeout=60)
    nowhere.close()
    assert not thread.is_alive()


def test_the_agents_end_while_they_wait_for_the_console(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(dict.fromkeys(agents.CAST, "agk_x.y")))
    keys.chmod(0o600)
    ender = _end_when(lambda: threading.active_count() > len(agents.CAST))

    assert agents.main(["--base", NOWHERE, "--keys", str(keys)]) == 0
    ender.join(timeout=60)


@pytest.mark.parametrize("program", [feed, agents])
def test_says_which_key_is_missing(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (feed.PRICE_KEY_ENV, feed.MARKET_KEY_ENV):
        monkeypatch.delenv(name, raising=False)

    assert program.main(["--base", NOWHERE]) == 2
    assert "key" in capsys.readouterr().err


def test_the_agents_refuse_an_open_key_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text("{}")
    keys.chmod(0o644)

    assert agents.main(["--base", NOWHERE, "--keys", str(keys)]) == 2
    assert "chmod 600" in capsys.readouterr().err
