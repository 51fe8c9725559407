"""The `http` executor: one signed JSON call with an idempotency key.

A 2xx answer with a JSON object is the receipt. Redirects are not followed, proxies of the environment are
not used, and at most MAX_ANSWER_BYTES of an answer are read.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import unquote

import httpx2
from django.conf import settings

from runtime.contracts.problem import ProblemError
from runtime.contracts.receipt import CallResult, Failure, FailureCategory, FailureClass, Receipt
from runtime.execution.adapters import egress, kept_connections, retry_after, signing, transport
from runtime.execution.adapters.executors.call import RawAnswer, TargetCall
from runtime.kernel import answers, ijson

MAX_ANSWER_BYTES = 64 * 1024

C = FailureCategory


def execute(call: TargetCall) -> CallResult:
    """Make one call; every ending is a value."""
    address = _address(call)
    headers = _headers(call)
    if isinstance(address, Failure):
        return address
    if isinstance(headers, Failure):
        return headers
    trip = transport.Trip(timeout_s=call.timeout_s, gate=call.gate)
    try:
        return _exchange(call, address=address, headers=headers, trip=trip)
    except egress.EgressRefusedError:
        return _transient(C.EGRESS_REFUSED, egress.REFUSED)
    except egress.UnresolvedError:
        return _transient(C.NAME_UNRESOLVED, "the target's host name does not resolve; nothing was sent")
    except httpx2.TransportError as error:
        return _lost(error, sent=trip.sent)


def _exchange(
    call: TargetCall, *, address: httpx2.URL, headers: Mapping[str, str], trip: transport.Trip
) -> CallResult:
    rule = egress.rule(settings.DIR_EGRESS_ALLOW)
    with (
        kept_connections.client(url=address, egress=rule, trip=trip, reuse=call.reuses_connection) as client,
        client.stream(call.method, address, content=call.body, headers=dict(headers)) as answer,
    ):
        if not httpx2.codes.is_success(answer.status_code):
            if call.observe is not None:
                # What the status means does not hang on whether the body arrives.
                with suppress(httpx2.TransportError):
                    _receive(call, answer)
            return _failure(answer, refuses=call.refuses)
        status_code, body = answer.status_code, _receive(call, answer)
        if call.may_take_on and status_code == httpx2.codes.ACCEPTED:
            return Receipt(status_code=status_code, body=b"{}")
        if body is None:
            words = f"the target answered {status_code} with more than {MAX_ANSWER_BYTES} bytes"
            return _unknown(C.ANSWER_TOO_LARGE, words, status_code)
        words = f"the target answered {status_code} without a JSON object; it may have taken effect"
        try:
            checked = ijson.parse(body)
        except ProblemError:
            return _unknown(C.ANSWER_UNREADABLE, words, status_code)
        if not isinstance(checked.value, dict):
            return _unknown(C.ANSWER_UNREADABLE, words, status_code)
        return Receipt(status_code=status_code, body=checked.canonical)


def _receive(call: TargetCall, answer: httpx2.Response) -> bytes | None:
    """The body, None where it is too large; an observer is given what came, also where it stopped coming."""
    body, is_whole = bytearray(), False
    try:
        for piece in answer.iter_raw():
            body += piece
            if len(body) > MAX_ANSWER_BYTES:
                return None
        is_whole = True
    finally:
        if call.observe is not None:
            raw = RawAnswer(
                status_code=answer.status_code,
                headers=tuple(answer.headers.multi_items()),
                body=bytes(body[:MAX_ANSWER_BYTES]),
                is_cut=not is_whole,
            )
            call.observe(raw)
    return bytes(body)


def _address(call: TargetCall) -> httpx2.URL | Failure:
    """The whole address. The path was rendered from an agent's values: it must stay under the base."""
    plain = call.path.partition("?")[0]
    climbs = any(unquote(segment) in {".", ".."} for segment in plain.replace("\\", "/").split("/"))
    if not call.path.startswith("/") or "#" in call.path or climbs:
        return _terminal(C.REQUEST_INVALID, "the rendered path leaves the target's address")
    try:
        address = httpx2.URL(call.base_url.rstrip("/") + call.path)
    except httpx2.InvalidURL:
        return _terminal(C.REQUEST_INVALID, "the rendered path is not a valid URL path")
    if address.scheme not in {"http", "https"} or not address.host:
        return _terminal(C.REQUEST_INVALID, "the target's address is not http or https")
    return address


def _headers(call: TargetCall) -> dict[str, str] | Failure:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # a packed answer could unfold past every bound
        "User-Agent": "dir-console",
    }
    if call.method != "GET":
        headers["Idempotency-Key"] = call.key
    if call.traceparent:
        headers["traceparent"] = call.traceparent
    if not call.secret_env:
        return headers
    try:
        return headers | signing.headers(
            secret_env=call.secret_env, message_id=call.key, at=datetime.now(UTC), body=call.body
        )
    except signing.SecretError as error:
        return _terminal(C.SECRET_MISSING, str(error))


def _failure(answer: httpx2.Response, *, refuses: frozenset[int]) -> Failure:
    """What an answer outside 2xx means; the class is `kernel.answers`', the category is for people."""
    status_code = answer.status_code
    words, wait_s = (
        f"the target answered {status_code}",
        retry_after.seconds(answer.headers.get("retry-after", "")),
    )
    match answers.class_of(status_code, refuses=refuses):
        case FailureClass.TRANSIENT:
            return _transient(C.TARGET_BUSY, words, status_code, wait_s)
        case FailureClass.TERMINAL:
            return _terminal(C.TARGET_REFUSED, words, status_code)
        case _:
            # Where it failed that leaves open what it did.
            category = C.ANSWER_UNREADABLE
            if status_code in answers.GAVE_UP:
                category = C.TIMED_OUT
            elif httpx2.codes.is_redirect(status_code):
                category = C.REDIRECTED
            elif httpx2.codes.is_server_error(status_code):
                category = C.TARGET_ERROR
            return _unknown(category, f"{words}; it may have taken effect", status_code, wait_s)


def _lost(error: httpx2.TransportError, *, sent: bool) -> Failure:
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return _terminal(C.REQUEST_INVALID, "the rendered request is not valid HTTP")
    if not sent:
        return _transient(C.CONNECT_FAILED, "no connection to the target; nothing was sent")
    if isinstance(error, httpx2.TimeoutException):
        return _unknown(C.TIMED_OUT, "no complete answer arrived in time; it may have taken effect")
    return _unknown(C.CONNECTION_LOST, "the connection closed before the answer; it may have taken effect")


def _transient(
    category: C, detail: str, status_code: int | None = None, retry_after_s: float | None = None
) -> Failure:
    return Failure(
        category=category,
        failure_class=FailureClass.TRANSIENT,
        detail=detail,
        status_code=status_code,
        retry_after_s=retry_after_s,
    )


def _terminal(category: C, detail: str, status_code: int | None = None) -> Failure:
    return Failure(
        category=category, failure_class=FailureClass.TERMINAL, detail=detail, status_code=status_code
    )


def _unknown(
    category: C, detail: str, status_code: int | None = None, retry_after_s: float | None = None
) -> Failure:
    return Failure(
        category=category,
        failure_class=FailureClass.UNKNOWN,
        detail=detail,
        status_code=status_code,
        retry_after_s=retry_after_s,
    )
