"""A target that keeps a book of its effects by key, and a trial pack whose purchases take three steps."""

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID

from django.conf import settings

from runtime.contracts.receipt import CallResult
from runtime.core import clock
from runtime.execution.services import attempting, calling, claiming
from runtime.flows.models import Attempt, Intent
from tests.support import misbehaving_targets, trading_desk

STEPS = ("reserve", "pay", "ship")
# In the order of their calls: what does a step, and what undoes it.
FORWARD = ("/reserve", "/pay", "/ship")
BACK = ("/reserve/undo", "/pay/undo")
REFUSE, BUSY, HANG_UP, LOSE, FAIL = "refuse", "busy", "hang up", "lose", "fail"
_PLAIN = trading_desk.PACK
_STEP = "- {id: order, executor: BY_WHOM, target: broker, request: {method: POST, path: /orders}}"
_WALK = """
      - {id: reserve, target: broker, request: {path: /reserve}, compensate: {path: /reserve/undo}PROBE}
      - {id: pay, target: broker, request: {path: /pay}, compensate: {path: /pay/undo}PROBE}
      - {id: ship, target: broker, request: {path: /ship}PROBE}
""".strip()


@dataclass
class Book:
    """What the target has done. `faults` are the ways of its next answers by path; the last stays for ever.

    REFUSE is 422 and BUSY 503, both without an effect; HANG_UP answers nothing and does nothing; LOSE does it
    and answers nothing; FAIL does it and answers 502. A target with `knows_keys` does once what is asked
    twice.
    """

    knows_keys: bool = True
    base_url: str = ""
    effects: Counter[str] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    seen: list[misbehaving_targets.Seen] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Treat one request."""
        with self.lock:
            status, body = self._treat(request)
        if status:
            misbehaving_targets.answer(status, json.dumps(body).encode())(request)
        else:
            misbehaving_targets.drop(request)

    def _treat(self, request: BaseHTTPRequestHandler) -> tuple[int, Any]:
        path = request.path
        if request.command == "GET":
            path, key = path.rsplit("/", 1)
            self.calls[path] += 1
            fault = self._fault(path)
            if fault:
                return {REFUSE: 422, BUSY: 503}.get(fault, 0), {}
            return (200, self.receipts[key]) if key in self.receipts else (404, {})
        key = request.headers["Idempotency-Key"]
        self.calls[path] += 1
        fault = self._fault(path)
        if fault in {REFUSE, BUSY, HANG_UP}:
            return {REFUSE: 422, BUSY: 503, HANG_UP: 0}[fault], {}
        if key not in self.receipts or not self.knows_keys:
            self.effects[key] += 1
            self.order.append(path)
            self.receipts[key] = {"path": path, "number": len(self.order)}
        return {LOSE: 0, FAIL: 502}.get(fault, 200), self.receipts[key]

    def _fault(self, path: str) -> str:
        faults = self.faults[path]
        return faults.pop(0) if len(faults) > 1 else faults[0] if faults else ""

    def mend(self) -> None:
        """From now on everything works."""
        self.faults.clear()

    def check(self) -> None:
        """What must hold at every moment: no effect twice."""
        assert all(count == 1 for count in self.effects.values()), (self.order, self.effects)


@contextmanager
def opened(*, knows_keys: bool = True) -> Iterator[Book]:
    """A running target with an empty book."""
    book = Book(knows_keys=knows_keys)
    with misbehaving_targets.stand_in(book.answer) as running:
        book.base_url, book.seen = running.base_url, running.seen
        yield book


def pack(*, on_unknown: str = "person") -> str:
    """The trial pack with three steps; with `probe` each can be asked for by its key."""
    probe = ', probe: {path: "/by-key/${key}"}' if on_unknown == "probe" else ""
    text = _PLAIN.replace(_STEP, _WALK.replace("PROBE", probe))
    if on_unknown == "resend":
        text = text.replace("refuses: [503]", "refuses: [503], honours_keys: true")
    return text.replace("    impact:", f"    on_unknown: {on_unknown}\n    impact:")


def attempt(intent_id: UUID, *, owner: str = trading_desk.OWNER) -> attempting.AttemptResult:
    """One attempt that is due now, so long after those before it that they are surely over."""
    now = clock.now()
    before = now - timedelta(seconds=settings.DIR_LEASE_S)
    Attempt.objects.filter(intent_id=intent_id, started_at__gt=before).update(started_at=before)
    Intent.objects.filter(pk=intent_id).update(next_at=now)
    return attempting.attempt(intent_id, owner=owner)


def call(claim: claiming.Claimed) -> CallResult:
    """The call of a claim, whose result nobody records."""
    return calling.call(claim, lease_left_s=30.0)


def walk(intent_id: UUID) -> list[str]:
    """Attempts until nothing is due any more; their statuses."""
    found: list[str] = []
    while len(found) < 30:
        status = attempt(intent_id).status
        if status in {
            attempting.AttemptStatus.NOT_DUE,
            attempting.AttemptStatus.ENDED,
            attempting.AttemptStatus.HELD,
        }:
            return found
        found.append(status.value)
    raise AssertionError(f"the walk does not end: {found}")


def keys(intent_id: UUID) -> dict[str, set[str]]:
    """The keys of each step in each direction."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in Attempt.objects.filter(intent_id=intent_id):
        found[f"{row.step} {row.direction}"].add(row.target_key)
    return found
