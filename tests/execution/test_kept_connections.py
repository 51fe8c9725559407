"""Connections to targets that are kept: used again for a moment, and never for more than was vetted."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from audit.live.background import PerProcess
from runtime.contracts.receipt import Failure, FailureCategory, Receipt
from runtime.execution.adapters import egress, kept_connections
from runtime.execution.adapters.executors import http
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.stops.services import call_gate
from tests.execution.test_http import call
from tests.support import misbehaving_targets, trading_desk
from tests.support.misbehaving_targets import answer, stand_in
from tests.support.wait_until import until


@pytest.fixture(autouse=True)
def _of_this_test(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1", "kept.example"]
    monkeypatch.setattr(kept_connections, "KEEP_S", 60.0)
    waiting = PerProcess(kept_connections._Waiting)
    monkeypatch.setattr(kept_connections, "_waiting", waiting)
    yield
    kept_connections._close(waiting.get()._lines)


@pytest.fixture
def target() -> Iterator[misbehaving_targets.StandIn]:
    with stand_in(answer(200), keeps=True) as running:
        yield running


def waiting() -> int:
    return len(kept_connections._waiting.get()._lines)


def again(base_url: str, **changed: Any) -> Any:
    """A call whose doubt settles itself."""
    return http.execute(call(base_url, reuses_connection=True, **changed))


def ports(target: misbehaving_targets.StandIn) -> list[int]:
    """The connections of the calls, numbered in the order of their first use."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(seen.port, len(numbers)) for seen in target.seen]


def test_the_next_call_goes_over_the_same_connection(target: misbehaving_targets.StandIn) -> None:
    results = [again(target.base_url, key=str(number) * 64) for number in range(3)]
    assert all(isinstance(result, Receipt) for result in results)
    assert [seen.headers["Idempotency-Key"][0] for seen in target.seen] == ["0", "1", "2"]
    assert ports(target) == [0, 0, 0]


def test_a_call_that_a_person_would_have_to_clear_up_has_a_connection_of_its_own(
    target: misbehaving_targets.StandIn,
) -> None:
    again(target.base_url)
    http.execute(call(target.base_url))
    again(target.base_url)
    assert ports(target) == [0, 1, 1]


@pytest.mark.django_db
@pytest.mark.parametrize(("on_unknown", "expected"), [("resend", [0, 0]), ("person", [0, 1])])
def test_the_kind_says_whether_a_doubt_settles_itself(
    on_unknown: str, expected: list[int], target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = trading_desk.PACK.replace("    steps:", f"    on_unknown: {on_unknown}\n    steps:")
    honest = text.replace("refuses: [503]", "refuses: [503], honours_keys: true")
    monkeypatch.setattr(trading_desk, "PACK", honest)
    desk = trading_desk.open_desk(base_url=target.base_url)
    for intent_id in (desk.accept(), desk.accept()):
        assert attempting.attempt(intent_id, owner="worker").status is AttemptStatus.SUCCEEDED
    assert ports(target) == expected


def test_a_connection_does_not_wait_long(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    again(target.base_url)
    monkeypatch.setattr(kept_connections, "KEEP_S", 0.0)
    again(target.base_url)
    assert ports(target) == [0, 1]


def test_a_connection_that_the_target_has_closed_is_noticed() -> None:
    may_close = threading.Event()

    def answer_and_close(request: BaseHTTPRequestHandler) -> None:
        answer(200)(request)
        request.close_connection = True  # without a word in the answer
        may_close.wait(30)

    with stand_in(answer_and_close, keeps=True) as target:
        assert isinstance(again(target.base_url), Receipt)
        [line] = kept_connections._waiting.get()._lines
        [connection] = line.wire._pool.connections
        may_close.set()
        until(connection.has_expired, timeout_s=30)
        assert isinstance(again(target.base_url), Receipt)
        assert ports(target) == [0, 1]


def test_the_rule_is_asked_for_each_call(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """The name leads elsewhere meanwhile: neither there nor to where it led before does a call go unasked."""
    led_to = iter([["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2", "127.0.0.1"], ["10.0.0.1"]])
    monkeypatch.setattr(
        egress,
        "rule",
        lambda words: egress.Egress(allow=frozenset(words), resolver=lambda host, port: next(led_to)),
    )
    base_url = f"http://kept.example:{target.port}"
    for _ in range(3):
        assert isinstance(again(base_url), Receipt)
    assert ports(target) == [0, 0, 1]
    settings.DIR_EGRESS_ALLOW = []
    refused = again(base_url)
    assert isinstance(refused, Failure)
    assert refused.category is FailureCategory.EGRESS_REFUSED
    assert len(target.seen) == 3


def test_a_stop_closes_the_gate_of_a_kept_connection_too(target: misbehaving_targets.StandIn) -> None:
    def closed() -> AbstractContextManager[None]:
        raise call_gate.ClosedError("SYSTEM_STOPPED")

    again(target.base_url)
    with pytest.raises(call_gate.ClosedError):
        again(target.base_url, gate=closed)
    assert len(target.seen) == 1
    assert waiting() == 0


def test_what_comes_after_an_answer_is_not_taken_for_the_next_one() -> None:
    numbers = count(1)

    def answer_twice(request: BaseHTTPRequestHandler) -> None:
        body = b'{"number":%d}' % next(numbers)
        one = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        request.wfile.write(one + one)

    with stand_in(answer_twice, keeps=True) as target:
        assert [again(target.base_url).body for _ in range(2)] == [b'{"number":1}', b'{"number":2}']
        assert ports(target) == [0, 1]


@pytest.mark.parametrize("body", [b"x" * (http.MAX_ANSWER_BYTES + 1), b"rubbish"])
def test_only_a_connection_whose_answer_was_read_whole_is_kept(body: bytes) -> None:
    with stand_in(answer(200, body), keeps=True) as target:
        again(target.base_url)
    assert waiting() == (1 if body == b"rubbish" else 0)


def test_cookies_are_not_carried_from_call_to_call() -> None:
    with stand_in(answer(200, headers={"Set-Cookie": "a=b; Path=/"}), keeps=True) as target:
        for _ in range(2):
            again(target.base_url)
        assert ports(target) == [0, 0]
        assert "Cookie" not in target.seen[1].headers


def test_only_so_many_wait(target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in(answer(200), is_held=True, keeps=True) as slow:
        with ThreadPoolExecutor(max_workers=kept_connections.MOST_AT_ONE_TARGET + 2) as threads:
            calls = [
                threads.submit(again, slow.base_url) for _ in range(kept_connections.MOST_AT_ONE_TARGET + 2)
            ]
            until(lambda: len(slow.seen) == len(calls), timeout_s=30)
            slow.release.set()
            assert all(isinstance(one.result(), Receipt) for one in calls)
        assert waiting() == kept_connections.MOST_AT_ONE_TARGET
    monkeypatch.setattr(kept_connections, "MOST", kept_connections.MOST_AT_ONE_TARGET)
    again(target.base_url)
    assert waiting() == kept_connections.MOST_AT_ONE_TARGET
    again(target.base_url)
    assert ports(target) == [0, 0]
