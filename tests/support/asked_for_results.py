"""A target that takes orders on with 202, names where it is asked for their results, and answers there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from runtime.core import clock
from runtime.execution.services import result_asking
from tests.support import misbehaving_targets, trading_desk
from tests.support.misbehaving_targets import Answering, Seen, StandIn

PLACE = "/jobs/o1?view=state"
DONE = {"order_id": "o1", "price": 7}


@dataclass
class Warehouse:
    """What the running target answers: to an order, and then where it is asked, the last answer again."""

    target: StandIn
    taken_on: Answering
    answers: list[Answering] = field(default_factory=list)

    @property
    def asked(self) -> list[Seen]:
        """The questions that reached it."""
        return [one for one in self.target.seen if one.method == "GET"]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.command != "GET":
            self.taken_on(request)
        elif len(self.answers) > 1:
            self.answers.pop(0)(request)
        else:
            self.answers[0](request)


def busy(**headers: str) -> Answering:
    """Still at work."""
    return misbehaving_targets.answer(202, b'{"state":"BUSY"}', headers=headers)


def says(body: object, status: int = 200) -> Answering:
    """A JSON answer."""
    return misbehaving_targets.answer(status, json.dumps(body).encode())


@contextmanager
def opened(*answers: Answering, location: str | None = PLACE) -> Iterator[Warehouse]:
    """The running target. With no `location` it names no place."""
    headers = {} if location is None else {"Location": location}
    made = Warehouse(
        target=StandIn(port=0),
        taken_on=misbehaving_targets.answer(202, b"", headers=headers),
        answers=list(answers) or [says(DONE)],
    )
    with misbehaving_targets.stand_in(made.answer) as running:
        made.target = running
        yield made


def pack(*, follow: str = "deadline_s: 600", more: str = "", kind: str = "") -> str:
    """The trial pack with a step whose result is asked for, and `more` steps after it."""
    order = "request: {method: POST, path: /orders}}"
    later = f"request: {{method: POST, path: /orders}}, follow: {{{follow}}}}}"
    text = trading_desk.PACK.replace(order, later + (f"\n      {more}" if more else ""))
    if more:
        text = text.replace("follow:", "compensate: {path: /orders/undo}, follow:")
    return text.replace("    steps:", f"{kind}    steps:")


def open_desk(
    monkeypatch: pytest.MonkeyPatch, settings: Any, warehouse: Warehouse, *, pack_text: str = ""
) -> trading_desk.Desk:
    """The desk of that pack."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", pack_text or pack())
    return trading_desk.open_desk(base_url=warehouse.target.base_url)


def ask_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> int:
    """A round of the asker so many seconds from now; how many targets it asked."""
    later = clock.now() + timedelta(seconds=seconds)
    with monkeypatch.context() as patched:
        patched.setattr("runtime.core.clock.now", lambda: later)
        return result_asking.ask_due()
