"""What stands behind the paper broker's doors: its book, its market and the fault in force."""

import hmac
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from demo import desk_services
from demo.desk_services import Blocks, DeclinedError
from demo.effect_store import Book, Filed
from demo.faults import Switch
from demo.market import CASH, HELD, TRADING_ACCOUNT, Schedule, Walk, in_care, market_state, shut_symbol
from demo.scenarios import Board, Scenario


@dataclass
class Exchange:
    """The book, the market, the fault in force and the scenarios that run; one per process.

    Without ``control_token`` nobody can start a scenario.
    """

    book: Book
    walk: Walk
    schedule: Schedule
    switch: Switch
    secret: str
    control_token: str = ""
    board: Board = field(default_factory=Board)
    blocks: Blocks = field(default_factory=Blocks)
    started: float = field(default_factory=time.monotonic)
    stopping: threading.Event = field(default_factory=threading.Event)

    def elapsed_s(self) -> float:
        """Seconds since the start; the market's own clock."""
        return time.monotonic() - self.started

    def prices(self) -> dict[str, int]:
        """Cents per symbol, now."""
        return self.board.moved(self.walk.at(self.elapsed_s()))

    def market(self) -> str:
        """``OPEN`` or ``CLOSED``, now."""
        if self.board.is_running(Scenario.CLOSE_MARKET):
            return "CLOSED"
        return market_state(schedule=self.schedule, elapsed_s=self.elapsed_s())

    def signed(self, *, body: bytes, headers: Mapping[str, str]) -> bool:
        """Whether the caller knows the secret; always, where there is none."""
        if not self.secret:
            return True
        try:
            Webhook(self.secret).verify(body, dict(headers), json_parse=False)
        except (WebhookVerificationError, ValueError):
            return False
        return True

    def may_control(self, authorization: str) -> bool:
        """Whether the caller may start and end scenarios; nobody, where there is no token."""
        expected = f"Bearer {self.control_token}".encode()
        return bool(self.control_token) and hmac.compare_digest(authorization.encode(), expected)

    def is_in_care(self, *, path: str) -> bool:
        """Whether what stands behind a path is down for maintenance."""
        return path == "/watchlist" and in_care(schedule=self.schedule, elapsed_s=self.elapsed_s())

    def carry_out(self, *, path: str, key: str, body: Mapping[str, Any]) -> Filed:
        """Do the work of one call once, however often it comes.

        Raises:
            DeclinedError: for a purchase of the symbol that the basket desk does not take now, and for what
                the desk services decline.
        """
        return self.book.carry_out(
            path=path, key=key, body=body, fill=lambda: self._receipt(path=path, key=key, body=body)
        )

    def _receipt(self, *, path: str, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        params = body["params"] if isinstance(body.get("params"), dict) else body
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        shown = {name: value for name, value in params.items() if name not in {"dfid", "intent_id"}}
        if path in desk_services.PATHS:
            done = desk_services.receipt(path=path, params=shown, blocks=self.blocks)
            return {**done, "receipt_id": f"desk_{key[:16]}", "done_at": at}
        if path == "/transfers":
            accounts, cents = (
                [params.get("from_account"), params.get("to_account")],
                params.get("amount_cents"),
            )
            # The accounts after this transfer, where it names two known ones and an amount.
            if isinstance(cents, int) and all(name in CASH for name in accounts):
                shown |= self._cash({str(accounts[0]): -cents, str(accounts[1]): cents})
            return {**shown, "transfer_id": f"trf_{key[:16]}", "status": "SENT", "sent_at": at}
        if path == "/watchlist":
            return {**shown, "update_id": f"wl_{key[:16]}", "status": "UPDATED", "updated_at": at}
        symbol = str(params.get("symbol"))
        shut = shut_symbol(schedule=self.schedule, elapsed_s=self.elapsed_s())
        if path == "/baskets/buy" and symbol == shut:
            raise DeclinedError(f"the basket desk takes no purchases of {symbol} now")
        price, quantity = self.prices().get(symbol), params.get("quantity")
        # Position and cash after this order, where it names a known symbol and a quantity.
        if symbol in HELD and price is not None and isinstance(quantity, int | float):
            change = quantity if params.get("action") == "BUY" else -quantity
            position = HELD[symbol] + self.book.net(symbol=symbol) + change
            shown |= {"position": position, **self._cash({TRADING_ACCOUNT: -round(change * price)})}
        if path == "/baskets/undo":
            return {**shown, "undo_id": f"undo_{key[:16]}", "status": "UNDONE", "undone_at": at}
        return {
            **shown,
            "order_id": f"ord_{key[:16]}",
            "status": "FILLED",
            "price_cents": price,
            "filled_at": at,
        }

    def _cash(self, moves: Mapping[str, int]) -> dict[str, Any]:
        """What this call moves, and what each account holds after it, in cents."""
        after = {name: CASH[name] + self.book.moved(account=name) + cents for name, cents in moves.items()}
        return {"moves": dict(moves), "cash": after}
