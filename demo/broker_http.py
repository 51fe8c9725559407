"""The paper broker's HTTP face: routes, refusals, and the faults as a caller sees them."""

import json
import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from demo import faults
from demo.broker_state import DeclinedError, Exchange
from demo.effect_store import Filing
from demo.faults import Fault, Mode

WORK_PATHS: Final = frozenset(
    {"/orders", "/transfers", "/watchlist", "/baskets/sell", "/baskets/buy", "/baskets/undo"}
)
MAX_KEY: Final = 255
MAX_BODY: Final = 1_000_000
MAX_ROWS: Final = 5_000
RUBBISH: Final = b"<html><body>It works!</body>"


class BrokerRequest(BaseHTTPRequestHandler):
    """One connection; ``exchange`` is set on a subclass by ``handler_for``."""

    exchange: Exchange
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 120

    def do_GET(self) -> None:
        """Reads: prices, market, orders, counts, effects."""
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if not self._local():
            return
        if url.path.startswith("/effects/"):
            effect = self.exchange.book.effect(key=unquote(url.path.removeprefix("/effects/")))
            self._answer(200, effect) if effect else self._refuse(404, "nothing was done under this key")
            return
        answer = self._read(url.path, query)
        self._refuse(404, "no such path") if answer is None else self._answer(200, answer)

    def do_POST(self) -> None:
        """Work, signed and keyed; or ``/control``, which sets the fault in force."""
        url = urlsplit(self.path)
        raw = self._body()
        if raw is None or not self._local():
            return
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self._refuse(400, "the body must be JSON")
            return
        if not isinstance(body, dict):
            self._refuse(400, "the body must be a JSON object")
        elif url.path == "/control":
            self._control(body)
        elif url.path in WORK_PATHS:
            self._work(url.path, raw, body)
        else:
            self._refuse(404, "no such path")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing per request: a burst would fill the log."""

    def _read(self, path: str, query: Mapping[str, str]) -> Any:
        book = self.exchange.book
        match path:
            case "/prices":
                return self.exchange.prices()
            case "/market":
                return {"state": self.exchange.market()}
            case "/count":
                return book.counts()
            case "/orders":
                return {"orders": book.latest(path="/orders", limit=_whole(query, "limit", 50))}
            case "/effects":
                rows = book.effects(after=_whole(query, "after", 0), limit=_whole(query, "limit", 500))
                return {"effects": rows}
        return None

    def _control(self, body: Mapping[str, Any]) -> None:
        fault = faults.parse(body)
        if isinstance(fault, str):
            self._refuse(400, fault)
            return
        self.exchange.switch.set(fault=fault)
        self._answer(200, {"mode": fault.mode, "delay_ms": fault.delay_ms, "times": fault.times})

    def _work(self, path: str, raw: bytes, body: Mapping[str, Any]) -> None:
        key = self.headers.get("Idempotency-Key", "")
        if not self.exchange.signed(body=raw, headers=dict(self.headers.items())):
            self._refuse(401, "the signature is missing or wrong")
        elif not 1 <= len(key) <= MAX_KEY:
            self._refuse(400, f"an Idempotency-Key of 1 to {MAX_KEY} characters is needed")
        else:
            self._strike(self.exchange.switch.next(), path, key, body)

    def _strike(self, fault: Fault, path: str, key: str, body: Mapping[str, Any]) -> None:
        out_of_order = fault.mode is Mode.FAIL or self.exchange.is_in_care(path=path)
        if out_of_order or fault.mode is Mode.GARBAGE:
            self.exchange.book.note_call(key=key)
            if out_of_order:
                self._refuse(503, "the broker is out of order")
            else:
                self._send(200, RUBBISH, content_type="text/html")
            return
        if fault.mode is Mode.SLOW:
            self.exchange.stopping.wait(fault.delay_ms / 1000)
        try:
            filed = self.exchange.carry_out(path=path, key=key, body=body)
        except DeclinedError as declined:
            self.exchange.book.note_call(key=key)
            self._refuse(422, str(declined))
            return
        if fault.mode is Mode.SLOW_AFTER:
            self.exchange.stopping.wait(fault.delay_ms / 1000)
        if fault.mode is Mode.DROP_AFTER:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif filed.filing is Filing.CONFLICT:
            self._refuse(422, "this key was used with another body")
        else:
            repeated = "true" if filed.filing is Filing.REPEATED else "false"
            self._send(200, filed.receipt.encode(), headers={"Idempotency-Replayed": repeated})

    def _local(self) -> bool:
        # a web page could otherwise reach a loopback port under a name of its own
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host in {"127.0.0.1", "localhost"}:
            return True
        self._refuse(403, "this broker answers to 127.0.0.1 and localhost only")
        return False

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._refuse(
                413 if length.isdigit() else 411, f"a body of known length up to {MAX_BODY} is needed"
            )
            return None
        return self.rfile.read(int(length))

    def _refuse(self, status: int, detail: str) -> None:
        self._answer(status, {"error": detail})

    def _answer(self, status: int, value: object) -> None:
        self._send(status, json.dumps(value).encode())

    def _send(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            # a caller that gave up, or was killed in the middle of a fault test
            self.close_connection = True


def handler_for(exchange: Exchange) -> type[BrokerRequest]:
    """A request class bound to one exchange, as ``http.server`` wants it."""
    return type("BoundBrokerRequest", (BrokerRequest,), {"exchange": exchange})


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    return min(int(text), MAX_ROWS) if text.isdigit() else default
