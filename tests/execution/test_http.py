"""The http executor against real sockets: what each behaviour of a target means for the intent."""

import base64
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.fixtures import Settings
from standardwebhooks.webhooks import Webhook

from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.execution.adapters import egress, transport
from runtime.execution.adapters.executors import http, registry, simulated
from runtime.execution.adapters.executors.call import TargetCall
from tests.support import misbehaving_targets

C, K = FailureCategory, FailureClass
SECRET = "whsec_" + base64.b64encode(b"only for this test, of no value").decode()


@pytest.fixture(autouse=True)
def _loopback_allowed(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]


@pytest.fixture
def target() -> Iterator[misbehaving_targets.StandIn]:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","price":100.0}')
    ) as running:
        yield running


def call(base_url: str, **changed: Any) -> TargetCall:
    given: dict[str, Any] = {
        "base_url": base_url,
        "secret_env": "",
        "method": "POST",
        "path": "/orders",
        "body": b'{"quantity":1}',
        "key": "k" * 64,
        "traceparent": "",
        "timeout_s": 5.0,
    }
    return TargetCall(**(given | changed))


def told(result: CallResult) -> tuple[FailureCategory, FailureClass, int | None]:
    assert isinstance(result, Failure)
    assert result.detail
    return result.category, result.failure_class, result.status_code


def test_a_json_object_is_the_receipt_in_canonical_form(target: misbehaving_targets.StandIn) -> None:
    result = http.execute(call(target.base_url + "/v1/"))
    assert result == Receipt(status_code=200, body=b'{"order_id":"o1","price":100}')
    (seen,) = target.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/orders", b'{"quantity":1}')
    assert seen.headers["Idempotency-Key"] == "k" * 64
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Accept-Encoding"] == "identity"
    assert "webhook-signature" not in seen.headers
    assert "traceparent" not in seen.headers


def test_a_call_is_signed_and_traced(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAL_SECRET", SECRET)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    http.execute(call(target.base_url, secret_env="TRIAL_SECRET", traceparent=trace))
    (seen,) = target.seen
    Webhook(SECRET).verify(seen.body, seen.headers)
    assert seen.headers["webhook-id"] == seen.headers["Idempotency-Key"]
    assert seen.headers["traceparent"] == trace


@pytest.mark.parametrize("secret", [None, "", "é", "whsec_"])
def test_nothing_is_called_without_a_usable_secret(
    secret: str | None, target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIAL_SECRET", raising=False)
    if secret is not None:
        monkeypatch.setitem(os.environ, "TRIAL_SECRET", secret)
    result = http.execute(call(target.base_url, secret_env="TRIAL_SECRET"))
    assert told(result) == (C.SECRET_MISSING, K.TERMINAL, None)
    assert not target.seen


@pytest.mark.parametrize(
    ("status", "category", "failure_class"),
    [
        (301, C.REDIRECTED, K.UNKNOWN),
        (303, C.REDIRECTED, K.UNKNOWN),
        (307, C.REDIRECTED, K.UNKNOWN),
        (400, C.TARGET_REFUSED, K.TERMINAL),
        (401, C.TARGET_REFUSED, K.TERMINAL),
        (404, C.TARGET_REFUSED, K.TERMINAL),
        (409, C.TARGET_REFUSED, K.TERMINAL),
        (422, C.TARGET_REFUSED, K.TERMINAL),
        (408, C.TIMED_OUT, K.UNKNOWN),
        (425, C.TARGET_BUSY, K.TRANSIENT),
        (429, C.TARGET_BUSY, K.TRANSIENT),
        (499, C.TIMED_OUT, K.UNKNOWN),
        (500, C.TARGET_ERROR, K.UNKNOWN),
        (501, C.TARGET_ERROR, K.UNKNOWN),
        (502, C.TARGET_ERROR, K.UNKNOWN),
        (503, C.TARGET_ERROR, K.UNKNOWN),
        (504, C.TIMED_OUT, K.UNKNOWN),
        (599, C.TARGET_ERROR, K.UNKNOWN),
    ],
)
def test_a_status_says_what_may_follow(
    status: int, category: FailureCategory, failure_class: FailureClass
) -> None:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(status, headers={"Location": "http://127.0.0.1:1/"})
    ) as running:
        assert told(http.execute(call(running.base_url))) == (category, failure_class, status)
        assert len(running.seen) == 1


@pytest.mark.parametrize("status", [409, 500, 503])
def test_a_status_by_which_the_target_refuses_sent_nothing_into_the_world(status: int) -> None:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(status, headers={"Retry-After": "3"})
    ) as running:
        result = http.execute(call(running.base_url, refuses=frozenset({409, 500, 503})))
    assert told(result) == (C.TARGET_BUSY, K.TRANSIENT, status)
    assert isinstance(result, Failure)
    assert result.retry_after_s == 3


@pytest.mark.parametrize(
    ("header", "least_s", "most_s"),
    [("7", 7, 7), ("9" * 400, 999_999_999, 999_999_999), ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0)],
)
def test_a_targets_wait_is_read_in_both_forms(header: str, least_s: float, most_s: float) -> None:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(503, headers={"Retry-After": header})
    ) as running:
        result = http.execute(call(running.base_url))
    assert isinstance(result, Failure)
    assert result.retry_after_s is not None
    assert least_s <= result.retry_after_s <= most_s


@pytest.mark.parametrize(
    "header",
    [
        "",
        "soon",
        "-3",
        "Wed, 21 Oct 2015 07:28:00 -0000",
        f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT",
        f"Wed, 21 Oct 2015 07:28:00 +{'9' * 20}",
    ],
)
def test_a_wait_that_says_nothing_is_none(header: str) -> None:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(429, headers={"Retry-After": header})
    ) as running:
        result = http.execute(call(running.base_url))
    assert isinstance(result, Failure)
    assert result.retry_after_s is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[1]",
        b'"text"',
        b"null",
        b'{"a":NaN}',
        b'{"order_id":"1","order_id":"2"}',
        b'{"a":100000000000000000000000000}',
        b'{"a":1e999}',
        b'{"a":"\\ud800"}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b'{"a":' * 200 + b"1" + b"}" * 200,
    ],
)
def test_a_good_status_with_rubbish_leaves_doubt(body: bytes) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, body)) as running:
        assert told(http.execute(call(running.base_url))) == (C.ANSWER_UNREADABLE, K.UNKNOWN, 200)


def test_a_packed_answer_is_not_unfolded() -> None:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    ) as running:
        assert told(http.execute(call(running.base_url))) == (C.ANSWER_UNREADABLE, K.UNKNOWN, 200)


def test_an_endless_answer_is_cut_off() -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.endless) as running:
        assert told(http.execute(call(running.base_url))) == (C.ANSWER_TOO_LARGE, K.UNKNOWN, 200)


def test_an_answer_of_exactly_the_bound_is_read() -> None:
    body = b'{"a":"' + b"x" * (http.MAX_ANSWER_BYTES - 8) + b'"}'
    with misbehaving_targets.stand_in(misbehaving_targets.answer(201, body)) as running:
        assert http.execute(call(running.base_url)) == Receipt(status_code=201, body=body)


@pytest.mark.parametrize("answering", [misbehaving_targets.drop, misbehaving_targets.cut])
def test_a_connection_that_ends_early_leaves_doubt(answering: misbehaving_targets.Answering) -> None:
    with misbehaving_targets.stand_in(answering) as running:
        assert told(http.execute(call(running.base_url)))[:2] == (C.CONNECTION_LOST, K.UNKNOWN)


def test_silence_after_the_request_leaves_doubt() -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200), is_held=True) as running:
        result = http.execute(call(running.base_url, timeout_s=0.3))
    assert told(result) == (C.TIMED_OUT, K.UNKNOWN, None)


def test_a_trickle_earns_no_more_time() -> None:
    start = time.monotonic()
    with misbehaving_targets.stand_in(misbehaving_targets.trickle) as running:
        result = http.execute(call(running.base_url, timeout_s=0.3))
    assert told(result) == (C.TIMED_OUT, K.UNKNOWN, None)
    assert time.monotonic() - start < 60  # the head would take 200 s


def test_a_refused_connection_sent_nothing() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert told(http.execute(call(f"http://127.0.0.1:{port}"))) == (C.CONNECT_FAILED, K.TRANSIENT, None)


def test_a_failed_handshake_sent_nothing(target: misbehaving_targets.StandIn) -> None:
    result = http.execute(call(target.base_url.replace("http:", "https:")))
    assert told(result) == (C.CONNECT_FAILED, K.TRANSIENT, None)
    assert not target.seen


def test_a_call_whose_time_is_over_sends_nothing(target: misbehaving_targets.StandIn) -> None:
    assert told(http.execute(call(target.base_url, timeout_s=0.0))) == (C.CONNECT_FAILED, K.TRANSIENT, None)
    assert not target.seen


def test_a_name_without_an_address_may_have_one_later() -> None:
    result = http.execute(call("http://no-such-name.invalid"))
    assert told(result) == (C.NAME_UNRESOLVED, K.TRANSIENT, None)


def test_an_address_that_is_not_allowed_is_never_connected(
    target: misbehaving_targets.StandIn, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = [f"127.0.0.1:{target.port + 1}"]
    assert told(http.execute(call(target.base_url))) == (C.EGRESS_REFUSED, K.TRANSIENT, None)
    assert not target.seen


@pytest.mark.parametrize(
    "path",
    ["orders", "/../admin", "/a/%2e%2e/admin", "/a/./b", "/a\\..\\b", "/a#b", "/a\x00b", "@evil.example/"],
)
def test_a_path_that_leaves_the_target_is_not_called(path: str, target: misbehaving_targets.StandIn) -> None:
    assert told(http.execute(call(target.base_url, path=path))) == (C.REQUEST_INVALID, K.TERMINAL, None)
    assert not target.seen


@pytest.mark.parametrize("base_url", ["ftp://127.0.0.1", "file:///etc", "http://", "127.0.0.1:80"])
def test_an_address_that_is_not_http_is_not_called(base_url: str) -> None:
    assert told(http.execute(call(base_url))) == (C.REQUEST_INVALID, K.TERMINAL, None)


def test_a_double_slash_does_not_name_another_host(target: misbehaving_targets.StandIn) -> None:
    http.execute(call(target.base_url, path="//evil.example/x"))
    assert target.seen[0].path.endswith("/evil.example/x")


def test_proxies_of_the_environment_are_not_used(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert isinstance(http.execute(call(target.base_url)), Receipt)


def test_a_name_is_resolved_once_and_the_vetted_address_is_the_one_called(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = ["rebinding.example"]
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    monkeypatch.setattr(egress, "rule", lambda words: egress.Egress(allow=frozenset(words), resolver=resolve))
    result = http.execute(call(f"http://rebinding.example:{target.port}"))
    assert isinstance(result, Receipt)
    assert asked == ["rebinding.example"]
    assert target.seen[0].headers["Host"] == f"rebinding.example:{target.port}"


def test_a_name_that_turns_private_is_refused(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        egress,
        "rule",
        lambda words: egress.Egress(allow=frozenset(), resolver=lambda host, port: ["127.0.0.1"]),
    )
    result = http.execute(call(f"http://rebinding.example:{target.port}"))
    assert told(result) == (C.EGRESS_REFUSED, K.TRANSIENT, None)
    assert not target.seen


def test_the_next_vetted_address_is_tried_where_one_is_deaf(target: misbehaving_targets.StandIn) -> None:
    trip = transport.Trip(timeout_s=5.0)
    rule = egress.Egress(
        allow=frozenset({"two.example"}), resolver=lambda host, port: ["127.0.0.9", "127.0.0.1"]
    )
    stream = transport.GuardedNetwork(egress=rule, trip=trip).connect_tcp("two.example", target.port)
    stream.close()
    assert not trip.sent


def test_the_simulated_executor_answers_the_same_for_the_same_call() -> None:
    result = simulated.execute(call(""))
    assert result == simulated.execute(call(""))
    assert misbehaving_targets.as_json(result.body)["simulated"] is True


def test_executors_are_found_by_name() -> None:
    assert set(registry.EXECUTORS) == {"http", "mcp", "simulated"}
    assert set(registry.EXECUTORS) > registry.REMOTE
