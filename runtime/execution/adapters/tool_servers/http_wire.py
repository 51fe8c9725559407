"""MCP over Streamable HTTP: each message is one POST over the guarded transport of all calls.

Proxies of the environment are not used, redirects are not followed, and what a server asks of us in its
streams is not answered: we offer no capability that it could use.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from http import HTTPStatus
from typing import Any

import httpx2
from django.conf import settings

from audit import canonical
from runtime.contracts.receipt import FailureCategory
from runtime.execution.adapters import egress, retry_after, signing, transport
from runtime.execution.adapters.tool_servers import wire
from runtime.execution.adapters.tool_servers.wire import Gate, WireError

C = FailureCategory
_CLOSING_S = 1.0
_EVENTS = "text/event-stream"
_LONGEST_SESSION_ID = 512


class HttpWire:
    """A conversation with the server at `base_url`, which ends `timeout_s` after it began."""

    def __init__(self, *, base_url: str, secret_env: str, traceparent: str, timeout_s: float) -> None:
        self._base_url = base_url
        self._secret_env = secret_env
        self._traceparent = traceparent
        self._ends_at = time.monotonic() + timeout_s
        self._version = ""
        self._session = ""

    def agree(self, version: str) -> None:
        """Speak this version of the protocol from now on."""
        self._version = version

    def ask(self, message: dict[str, Any], *, gate: Gate, most_bytes: int) -> dict[str, Any]:
        """Send a request and wait for its answer; see `Wire`."""
        return self._exchange(message, gate=gate, most_bytes=most_bytes)

    def tell(self, message: dict[str, Any]) -> None:
        """Send a notification; see `Wire`."""
        self._exchange(message, gate=nullcontext, most_bytes=wire.MAX_ANSWER_BYTES)

    def close(self) -> None:
        """End the session at the server, where there is one, as the protocol asks."""
        if not self._session:
            return
        trip = transport.Trip(timeout_s=min(_CLOSING_S, self._left_s()))
        with (
            suppress(httpx2.TransportError, egress.EgressRefusedError, egress.UnresolvedError, WireError),
            transport.client(egress=egress.rule(settings.DIR_EGRESS_ALLOW), trip=trip) as client,
            client.stream("DELETE", self._base_url, headers=self._headers()),
        ):
            pass

    def _left_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def _exchange(self, message: dict[str, Any], *, gate: Gate, most_bytes: int) -> dict[str, Any]:
        headers = self._headers()
        trip = transport.Trip(timeout_s=self._left_s(), gate=gate)
        try:
            return self._post(message, headers, trip=trip, most_bytes=most_bytes)
        except egress.EgressRefusedError:
            raise WireError(C.EGRESS_REFUSED, egress.REFUSED, sent=False) from None
        except egress.UnresolvedError:
            words = "the server's host name does not resolve; nothing was sent"
            raise WireError(C.NAME_UNRESOLVED, words, sent=False) from None
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, httpx2.UnsupportedProtocol):
            raise WireError(C.REQUEST_INVALID, "the server's address is not usable", sent=False) from None
        except httpx2.TransportError as error:
            raise _lost(error, sent=trip.sent) from None

    def _post(
        self, message: dict[str, Any], headers: dict[str, str], *, trip: transport.Trip, most_bytes: int
    ) -> dict[str, Any]:
        body = canonical.encode(message)
        with (
            transport.client(egress=egress.rule(settings.DIR_EGRESS_ALLOW), trip=trip) as client,
            client.stream("POST", self._base_url, content=body, headers=headers) as answer,
        ):
            self._take_session(answer.headers)
            if not httpx2.codes.is_success(answer.status_code):
                raise WireError(
                    C.TARGET_ERROR,
                    f"the server answered {answer.status_code}",
                    sent=True,
                    status_code=answer.status_code,
                    retry_after_s=retry_after.seconds(answer.headers.get("retry-after", "")),
                )
            if "id" not in message:
                return {}
            if answer.status_code == HTTPStatus.ACCEPTED:
                raise WireError(C.ANSWER_UNREADABLE, "the server answered 202 to a request", sent=True)
            if answer.headers.get("content-type", "").partition(";")[0].strip().lower() == _EVENTS:
                return _answer_in(_events(_bounded(answer, most_bytes)), message["id"])
            found = wire.read(b"".join(_bounded(answer, most_bytes)), sent_words=_UNREADABLE)
            if not wire.is_answer_to(found, message["id"]):
                raise WireError(C.ANSWER_UNREADABLE, _UNREADABLE, sent=True)
            return found

    def _take_session(self, headers: Mapping[str, str]) -> None:
        named = headers.get("mcp-session-id", "")
        # It is sent back as it came, so it may hold nothing that a header cannot.
        if named and len(named) <= _LONGEST_SESSION_ID and named.isascii() and named.isprintable():
            self._session = named

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": f"application/json, {_EVENTS}",
            "Accept-Encoding": "identity",  # a packed answer could unfold past every bound
            "User-Agent": "dir-console",
        }
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._traceparent:
            headers["traceparent"] = self._traceparent
        if not self._secret_env:
            return headers
        try:
            return headers | signing.bearer(self._secret_env)
        except signing.SecretError as error:
            raise WireError(C.SECRET_MISSING, str(error), sent=False) from error


_UNREADABLE = "the server's answer is not one to the request; the call may have taken effect"


def _lost(error: httpx2.TransportError, *, sent: bool) -> WireError:
    if not sent:
        return WireError(C.CONNECT_FAILED, "no connection to the server; nothing was sent", sent=False)
    if isinstance(error, httpx2.TimeoutException):
        return WireError(C.TIMED_OUT, "no complete answer arrived in time", sent=True)
    return WireError(C.CONNECTION_LOST, "the connection closed before the answer", sent=True)


def _bounded(answer: httpx2.Response, most_bytes: int) -> Iterator[bytes]:
    """The body as it comes. Raises `WireError` where there is more of it."""
    size = 0
    for piece in answer.iter_raw():
        size += len(piece)
        if size > most_bytes:
            raise WireError(C.ANSWER_TOO_LARGE, f"the answer has more than {most_bytes} bytes", sent=True)
        yield piece


def _events(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The data of each event of a stream (HTML, 9.2.6), as far as it is needed here."""
    left = b""
    data: list[bytes] = []
    for piece in pieces:
        *lines, left = (left + piece).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line.strip(b"\r") and data:
                yield b"\n".join(data)
                data = []


def _answer_in(events: Iterator[bytes], asked: Any) -> dict[str, Any]:
    for data in events:
        if not data:
            continue
        found = wire.read(data, sent_words=_UNREADABLE)
        if wire.is_answer_to(found, asked):
            return found
    raise WireError(C.CONNECTION_LOST, "the stream ended before the answer", sent=True)
