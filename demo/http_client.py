"""JSON over one kept connection, with the patience a caller of a busy server needs. Standard library only."""

import http.client
import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

_RETRIABLE: Final = frozenset({408, 429, 502, 503, 504})
_ERROR: Final = 400
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 3.0


class Unreachable(Exception):
    """No answer came: refused, reset, timed out, or closed in the middle."""


class Stopped(Exception):
    """The caller was told to stop while it waited."""


class CallRefused(Exception):
    """The server answered with an error that trying again would not change."""

    def __init__(self, *, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", ""))
        self.detail = str(body.get("detail", ""))
        self.body = body
        super().__init__(f"{status} {self.code} {self.detail}".strip())


@dataclass(frozen=True)
class HttpAnswer:
    """One HTTP answer; ``body`` is empty where the server sent no JSON object."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    def retriable(self) -> bool:
        """Whether the same request, sent again later, may fare better; the server's word goes first."""
        said = self.body.get("retriable")
        if isinstance(said, bool) and self.status >= _ERROR:
            return said
        return self.status in _RETRIABLE


@dataclass
class Wire:
    """One connection to one server, for one thread.

    ``patience_s`` bounds how long one request is tried again; ``stop`` ends every wait at once.
    """

    base_url: str
    patience_s: float = 30.0
    timeout_s: float = 10.0
    stop: threading.Event = field(default_factory=threading.Event)
    retries: int = 0
    _connection: http.client.HTTPConnection | None = None

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> HttpAnswer:
        """Send until an answer comes that is worth having; the same bytes and headers every time.

        Raises ``Unreachable`` when patience ends without an answer, ``Stopped`` when told to stop.
        The last answer is returned as it is, even an error.
        """
        raw = None if body is None else json.dumps(body).encode()
        deadline, wait_s = time.monotonic() + self.patience_s, 0.0
        while True:
            try:
                answer = self._once(method, path, raw, headers or {}, timeout_s or self.timeout_s)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if time.monotonic() + wait_s > deadline:
                    raise Unreachable(f"{method} {path}: {error!r}") from error
            else:
                if not answer.retriable() or time.monotonic() + wait_s > deadline:
                    return answer
                said = answer.headers.get("retry-after", "")
                wait_s = max(wait_s, min(float(said), _LONGEST_WAIT_S) if said.isdigit() else 0.0)
            self.retries += 1
            if self.stop.wait(wait_s * random.uniform(0.7, 1.3)):
                raise Stopped
            wait_s = min(max(wait_s * 2, _FIRST_WAIT_S), _LONGEST_WAIT_S)

    def fetch(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> HttpAnswer:
        """``call``, with an error answer raised as ``Refused``."""
        answer = self.call(method, path, body=body, headers=headers, timeout_s=timeout_s)
        if answer.status >= _ERROR:
            raise CallRefused(status=answer.status, body=answer.body)
        return answer

    def close(self) -> None:
        """Drop the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(
        self, method: str, path: str, raw: bytes | None, headers: Mapping[str, str], timeout_s: float
    ) -> HttpAnswer:
        if self._connection is None:
            url = urlsplit(self.base_url)
            secure = url.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = kind(url.hostname or "127.0.0.1", url.port, timeout=timeout_s)
            self._connection.connect()
        connection = self._connection
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        sent = {"Accept": "application/json", **headers}
        if raw is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, body=raw, headers=sent)
        response = connection.getresponse()
        text = response.read()
        got = {name.lower(): value for name, value in response.getheaders()}
        try:
            value = json.loads(text or b"{}")
        except ValueError:
            value = {}
        return HttpAnswer(status=response.status, headers=got, body=value if isinstance(value, dict) else {})
