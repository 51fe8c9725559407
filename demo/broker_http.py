"""The paper broker's HTTP face: routes, refusals, and the faults as a caller sees them."""

import json
import os
import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from demo import desk_services, faults, scenarios
from demo.broker_state import Exchange
from demo.desk_services import DeclinedError
from demo.effect_store import Filing
from demo.faults import Fault, Mode
from demo.scenarios import Scenario

WORK_PATHS: Final = desk_services.PATHS | {
    "/orders",
    "/transfers",
    "/watchlist",
    "/baskets/sell",
    "/baskets/buy",
    "/baskets/undo",
}
MAX_KEY: Final = 255
MAX_BODY: Final = 1_000_000
MAX_ROWS: Final = 5_000
RUBBISH: Final = b"<html><body>It works!</body>"
CRASHED: Final = 70  # the exit status of a process that ends itself in the middle of a call


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
        book = self.exchange.book
        if not self._local():
            return
        if url.path.startswith("/effects/"):
            if self.exchange.board.is_running(Scenario.DROP_ANSWERS):
                self._hang_up()
                return
            effect = book.effect(key=unquote(url.path.removeprefix("/effects/")))
            self._answer(200, effect) if effect else self._refuse(404, "nothing was done under this key")
            return
        match url.path:
            case "/prices":
                self._answer(200, self.exchange.prices())
            case "/market":
                self._answer(200, {"state": self.exchange.market(), "blocks": self.exchange.blocks.state()})
            case "/scenarios":
                self._answer(200, self.exchange.board.to_json())
            case "/count":
                self._answer(200, book.counts())
            case "/orders":
                rows = book.latest(path="/orders", limit=_whole(query, "limit", 50))
                self._answer(200, {"orders": rows})
            case "/effects":
                rows = book.effects(after=_whole(query, "after", 0), limit=_whole(query, "limit", 500))
                self._answer(200, {"effects": rows})
            case _:
                self._refuse(404, "no such path")

    def do_POST(self) -> None:
        """Work, signed and keyed; or ``/control``, which sets the fault in force; or ``/scenarios``."""
        url = urlsplit(self.path)
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._refuse(
                413 if length.isdigit() else 411, f"a body of known length up to {MAX_BODY} is needed"
            )
            return
        raw = self.rfile.read(int(length))
        if not self._local():
            return
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self._refuse(400, "the body must be JSON")
            return
        key = self.headers.get("Idempotency-Key", "")
        if not isinstance(body, dict):
            self._refuse(400, "the body must be a JSON object")
        elif url.path == "/control":
            fault = faults.parse(body)
            if isinstance(fault, str):
                self._refuse(400, fault)
                return
            self.exchange.switch.set(fault=fault)
            self._answer(200, {"mode": fault.mode, "delay_ms": fault.delay_ms, "times": fault.times})
        elif url.path == "/scenarios":
            self._play(body)
        elif url.path not in WORK_PATHS:
            self._refuse(404, "no such path")
        elif not self.exchange.signed(body=raw, headers=dict(self.headers.items())):
            self._refuse(401, "the signature is missing or wrong")
        elif not 1 <= len(key) <= MAX_KEY:
            self._refuse(400, f"an Idempotency-Key of 1 to {MAX_KEY} characters is needed")
        else:
            self._strike(self.exchange.switch.next(), url.path, key, body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing per request: a burst would fill the log."""

    def _play(self, body: Mapping[str, Any]) -> None:
        if not self.exchange.may_control(self.headers.get("Authorization", "")):
            self._refuse(401, "the control token is missing or wrong")
            return
        wish = scenarios.parse(body)
        if isinstance(wish, str):
            self._refuse(400, wish)
            return
        board = self.exchange.board
        if wish.run:
            board.start(wish.scenario, symbol=wish.symbol)
        else:
            board.end(wish.scenario)
        self._answer(200, board.to_json())

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
        board = self.exchange.board
        if board.is_running(Scenario.CRASH_BROKER):
            # the work is done and in the book, and nobody is told: the supervisor starts another process
            os._exit(CRASHED)
        if fault.mode is Mode.DROP_AFTER or board.is_running(Scenario.DROP_ANSWERS):
            self._hang_up()
        elif filed.filing is Filing.CONFLICT:
            self._refuse(422, "this key was used with another body")
        else:
            repeated = "true" if filed.filing is Filing.REPEATED else "false"
            self._send(200, filed.receipt.encode(), headers={"Idempotency-Replayed": repeated})

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _local(self) -> bool:
        # a web page could otherwise reach a loopback port under a name of its own
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host in {"127.0.0.1", "localhost"}:
            return True
        self._refuse(403, "this broker answers to 127.0.0.1 and localhost only")
        return False

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
