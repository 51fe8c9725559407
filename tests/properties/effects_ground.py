"""The ground of the machine of effects: targets that answer in every way, and count what they did."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from unittest import mock

from runtime.execution.services import calling
from tests.properties import lifecycle_ground
from tests.properties.lifecycle_ground import AGENT, Broker, Fate
from tests.support import misbehaving_targets

# One target of each sort: does it know a key again, and what does it declare to mean "not done"?
REFUSES = frozenset({500, 503})
SORTS = {
    "plain": "",
    "refusing": ", refuses: [500, 503]",
    "keeping": ", honours_keys: true",
    "keeping-refusing": ", honours_keys: true, refuses: [500, 503]",
}
HANG_S = 0.1
# The two steps of a kind with routes: the second runs in place of the first, and never beside it.
ALTERNATIVES = ("main", "spare")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One way to answer a call, after its effect or without one; no status is no answer at all."""

    books: bool
    status: int | None = None
    body: bytes = b'{"order_id":"o1"}'
    hangs: bool = False


def _both(**ways: Answer) -> dict[str, Answer]:
    """Each way with the effect and without it: nobody can tell them apart from outside."""
    found = {}
    for name, way in ways.items():
        words = name.replace("_", " ").strip()
        found[f"{words}, done"] = Answer(books=True, status=way.status, body=way.body, hangs=way.hangs)
        found[f"{words}, not done"] = way
    return found


RECEIPT = "201"
ANSWERS: dict[str, Answer] = {
    RECEIPT: Answer(books=True, status=201),
    **{str(status): Answer(books=False, status=status) for status in (400, 404, 409, 422, 425, 429)},
    **_both(
        **{
            f"_{status}": Answer(books=False, status=status)
            for status in (302, 303, 408, 499, 500, 502, 503, 504)
        },
        rubbish=Answer(books=False, status=200, body=b"<html>"),
        nothing=Answer(books=False, status=204, body=b""),
        two_values=Answer(books=False, status=200, body=b'{"order_id":"1","order_id":"2"}'),
        reset=Answer(books=False),
        hang=Answer(books=False, hangs=True),
    ),
}
# A question about a key is answered with the truth, or with what says nothing: a 404 is never a lie.
OF_A_PROBE = frozenset({201, 404})


@dataclass
class Bank(Broker):
    """Targets by the first part of the path. `fate` names the next answers; Fate.SUCCEED is a receipt.

    A target is honest about what it declares: what it refuses it has not done, and one that honours keys
    does once what it is sent twice.
    """

    arrived: threading.Condition = field(default_factory=threading.Condition)
    let_go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        """Treat one request; a question about a key has no effect."""
        way = ANSWERS.get(self.fate, ANSWERS[RECEIPT])
        sort, key = request.path.split("/")[1], request.headers["Idempotency-Key"]
        if request.command == "GET" and way.status in OF_A_PROBE:
            happened = self.effects[request.path.rpartition("/")[2]]
            way = Answer(books=False, status=200 if happened else 404)
        elif request.command != "GET" and way.books and not self._declines(sort, way):
            self._book(sort, key)
        self._answer(request, way)

    def _declines(self, sort: str, way: Answer) -> bool:
        return "refuses" in SORTS[sort] and way.status in REFUSES

    def _book(self, sort: str, key: str) -> None:
        if not (keeps_keys(sort) and self.effects[key]):
            self.effects[key] += 1

    def _answer(self, request: BaseHTTPRequestHandler, way: Answer) -> None:
        with self.arrived:
            self.calls += 1
            self.arrived.notify_all()
        if way.hangs:
            self.let_go.wait(10)
        if way.status is None:
            misbehaving_targets.drop(request)
        else:
            misbehaving_targets.answer(way.status, way.body, headers={"Location": "/done"})(request)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """The caller soon gives up on a target that hangs; in the end the call has arrived there, if ever."""
        if not ANSWERS.get(self.fate, ANSWERS[RECEIPT]).hangs:
            yield
            return
        self.let_go.clear()
        before = self.calls
        try:
            with mock.patch.object(calling, "DEFAULT_TIMEOUT_S", HANG_S):
                yield
        finally:
            with self.arrived:
                self.arrived.wait_for(lambda: self.calls > before, timeout=HANG_S)
            self.let_go.set()


def keeps_keys(sort: str) -> bool:
    """Whether a target of this sort does once what it is sent twice."""
    return "honours_keys" in SORTS[sort]


def _steps(sort: str, *, several: bool, probed: bool) -> str:
    probe = f', probe: {{path: "/{sort}/by-key/${{key}}"}}' if probed else ""
    if not several:
        return f"\n      - {{id: order, target: {sort}, request: {{path: /{sort}/order}}{probe}}}\n"
    lines = []
    for step in ("hold", "pay", "ship"):
        undo = "" if step == "ship" else f", compensate: {{path: /{sort}/{step}/undo}}"
        lines.append(
            f"      - {{id: {step}, target: {sort}, request: {{path: /{sort}/{step}}}{undo}{probe}}}"
        )
    return "\n" + "\n".join(lines) + "\n"


def _routed(sort: str) -> str:
    """A step, another in its place, and routes that ask for it after every failure, also one in doubt."""
    steps = "".join(
        f"\n      - {{id: {step}, target: {sort}, request: {{path: /{sort}/{step}}}}}"
        for step in ALTERNATIVES
    )
    routes = (
        "\n      - {when: 'outcome.status_code == 409', action: CLOSE}"
        "\n      - {when: 'outcome.status_code == 400', action: ESCALATE}"
        "\n      - {when: 'outcome.status_code in [404, 425]', action: RETRY_LATER}"
        f"\n      - {{when: \"outcome.status == 'FAILED' && outcome.step == '{ALTERNATIVES[0]}'\","
        f" action: FALL_BACK, step: {ALTERNATIVES[1]}}}"
    )
    return f"{steps}\n    routes:{routes}\n"


def _kinds() -> dict[str, str]:
    """Each sort of target with each `on_unknown` that it may have, in one step and in several."""
    made = {}
    for sort in SORTS:
        for on_unknown in ("person", "probe", *(["resend"] if keeps_keys(sort) else [])):
            for several in (False, True):
                name = f"{on_unknown}_{sort}{'_steps' if several else ''}".upper().replace("-", "_")
                steps = _steps(sort, several=several, probed=on_unknown == "probe")
                made[name] = lifecycle_ground.kind_text(name, on_unknown, steps)
        routed = f"routed_{sort}".upper().replace("-", "_")
        made[routed] = lifecycle_ground.kind_text(routed, "person", _routed(sort))
    return made


KINDS = _kinds()
_NEW_LINE = "\n"
PACK = f"""
pack: effects
version: 1.0.0
resources: [{{name: units, capacity: 5000, unit: units}}]
facts: {{market: {{state: OPEN}}, price: {{ABC: 100}}}}
policy_kinds:
{_NEW_LINE.join(KINDS.values())}
targets:
{_NEW_LINE.join(f'  {sort}: {{base_url: "BASE_URL"{says}}}' for sort, says in SORTS.items())}
agents:
  - agent_id: {AGENT}
    role: STRATEGIST
    owner: desk
    mission: Buy
    manifest:
      version: 1.0.0
      policy_kinds: [{", ".join(KINDS)}]
      limits: {{max_quantity: 40}}
      escalations_per_hour: 4
      compute: {{tokens: 1000}}
      may_delegate_to: [{AGENT}]
"""
SUCCEED = Fate.SUCCEED


def standing(effects: Counter[str], calls: dict[tuple[str, str], str]) -> set[str]:
    """The steps of one intent whose effect is in the world; `calls` are its keys by step and direction."""
    return {
        step
        for (step, direction), key in calls.items()
        if direction == "FORWARD" and effects[key] and not effects[calls.get((step, "COMPENSATE"), "")]
    }
