"""A target that books first and then answers badly, with or without a memory for keys; its effects count."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from uuid import UUID

from audit import canonical
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Attempt, Intent
from runtime.packs.services import packs
from tests.support import misbehaving_targets, trading_desk

Answering = Callable[[BaseHTTPRequestHandler], object]

# Ways to answer of which nobody can tell from outside what became of the call.
AFTER_THE_EFFECT: dict[str, Answering] = {
    "500": misbehaving_targets.answer(500),
    "502": misbehaving_targets.answer(502),
    "503": misbehaving_targets.answer(503),
    "303": misbehaving_targets.answer(303, headers={"Location": "/done"}),
    "408": misbehaving_targets.answer(408),
    "499": misbehaving_targets.answer(499),
    "reset": misbehaving_targets.drop,
    "cut off": misbehaving_targets.cut,
    "rubbish": misbehaving_targets.answer(200, b"<html>"),
    "two values": misbehaving_targets.answer(200, b'{"order_id":"1","order_id":"2"}'),
}
STEP = "- {id: order, executor: BY_WHOM, target: broker, request: {method: POST, path: /orders}}"
ASKED = STEP.replace("/orders}", '/orders}, probe: {path: "/orders/${key}"}')


@dataclass
class Bank:
    """Books an order by its key. `faults` are the ways of its next answers, after the booking; then it works.

    `refusals` are statuses that it answers first, without booking; `lost` counts calls that it never gets to
    see. One that `knows_keys` books a key once.
    """

    knows_keys: bool
    faults: list[str] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    retry_after: str = ""
    hangs: bool = False
    lost: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    asked: int = 0
    base_url: str = ""
    standing: misbehaving_targets.StandIn | None = None

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Treat one request."""
        if request.command == "GET":
            self.asked += 1
            happened = self.effects[request.path.rpartition("/")[2]]
            misbehaving_targets.answer(200 if happened else 404)(request)
            return
        self.calls += 1
        if self.refusals:
            misbehaving_targets.answer(self.refusals.pop(0), headers={"Retry-After": self.retry_after})(
                request
            )
            return
        if self.lost:
            self.lost -= 1
            misbehaving_targets.drop(request)
            return
        key = request.headers["Idempotency-Key"]
        if not (self.knows_keys and self.effects[key]):
            self.effects[key] += 1
        if self.hangs and self.standing is not None:
            self.hangs = False
            self.standing.release.wait(10)
        fault = self.faults.pop(0) if self.faults else ""
        done = misbehaving_targets.answer(200, json.dumps({"order_id": key[:8]}).encode())
        AFTER_THE_EFFECT.get(fault, done)(request)

    @property
    def total(self) -> int:
        """How often it has booked something."""
        return sum(self.effects.values())


@contextmanager
def opened(*, knows_keys: bool) -> Iterator[Bank]:
    """A running bank without any bookings."""
    bank = Bank(knows_keys=knows_keys)
    with misbehaving_targets.stand_in(bank.answer) as standing:
        bank.base_url, bank.standing = standing.base_url, standing
        yield bank


def pack(
    *, on_unknown: str, refuses: str = "[]", honours_keys: bool = False, routes: str = "", timeout_s: int = 5
) -> str:
    """The trial pack with one step at a bank that declares this of itself."""
    honours = "true" if honours_keys else "false"
    text = trading_desk.PACK.replace("refuses: [503]", f"refuses: {refuses}, honours_keys: {honours}")
    step = (ASKED if on_unknown == "probe" else STEP).replace("BY_WHOM", f"http, timeout_s: {timeout_s}")
    if "spare" in routes:
        step += "\n      " + step.replace("id: order", "id: spare").replace("/orders}", "/spare}", 1)
    text = text.replace(STEP, step)
    text = text.replace("    impact:", f"    on_unknown: {on_unknown}\n    impact:")
    return text.replace("    steps:", f"    routes: {routes}\n    steps:") if routes else text


def reload(text: str, *, base_url: str) -> packs.Loaded | packs.PackRefused:
    """Load a pack once more."""
    body = text.replace("BASE_URL", base_url).replace("BY_WHOM", "http")
    return packs.load(text=body, source="trial.yaml", activate=True, actor="system")


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    """One attempt that is due now, its window still open, those before it surely over."""
    now = clock.now()
    begun = Attempt.objects.filter(intent_id=intent_id)
    begun.update(started_at=now - timedelta(seconds=3600))
    Intent.objects.filter(pk=intent_id).update(next_at=now)
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def walk(intent_id: UUID) -> list[str]:
    """Attempts until nothing is due any more; their statuses."""
    found: list[str] = []
    while len(found) < 20:
        status = attempt(intent_id).status
        if status in {
            attempting.AttemptStatus.NOT_DUE,
            attempting.AttemptStatus.ENDED,
            attempting.AttemptStatus.HELD,
        }:
            return found
        found.append(status.value)
    raise AssertionError(f"it does not end: {found}")


def receipt_of(intent: Intent) -> object:
    """The stored receipt."""
    return canonical.decode(bytes(intent.outcome.receipt or b"null"))
