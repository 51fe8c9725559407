"""The ground of the lifecycle machine: one desk, a clock that only the test moves, a target that forgets."""

import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeVar
from uuid import UUID

import pytest
from django.contrib.auth.models import User

from audit import canonical
from runtime.contexts.services import contexts
from runtime.contracts import api_schemas
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.core import clock, transactions
from runtime.execution.services import attempting, calling, claiming
from runtime.flows.services import flows
from runtime.packs.services import packs
from runtime.proposals.services import intake
from runtime.registry.models import Session
from runtime.registry.services import credentials, handshakes
from tests.support import factories, misbehaving_targets

T = TypeVar("T")
AGENT = "trader"

_KIND = """
  - kind: NAME
    version: 1.0.0
    title: Buy
    risk_tier: T1
    on_unknown: ON_UNKNOWN
    params_schema:
      type: object
      properties: {quantity: {type: integer, minimum: 1}}
      required: [quantity]
      additionalProperties: false
    constraints_schema: {type: object}
    depends_on: [{fact: price.ABC, unless: "current <= seen + 10"}, {fact: market.state, unless: "true"}]
    impact: "params.quantity > 60 ? 'HIGH_IMPACT' : 'LOW_IMPACT'"
    limits: [{id: max_quantity, value: params.quantity, limit: manifest.limits.max_quantity}]
    rules: [{id: R_NEVER_SO_MUCH, require: "params.quantity <= 80", message: Never so much}]
    constraints: [{id: C_MARKET_OPEN, require: "context.facts.market.state == 'OPEN'"}]
    claims: [{resource: units, amount: params.quantity}]
    effect: "Buy {quantity}"
    sla_s: 600
    steps:
"""
_ONE = """
      - {id: order, target: broker, request: {path: /order}}
"""
_THREE = """
      - {id: hold, target: broker, request: {path: /hold}, compensate: {path: /hold/undo}PROBE}
      - {id: pay, target: broker, request: {path: /pay}, compensate: {path: /pay/undo}PROBE}
      - {id: ship, target: broker, request: {path: /ship}PROBE}
"""
_PROBE = ', probe: {path: "/by-key/${key}"}'


def kind_text(name: str, on_unknown: str, steps: str) -> str:
    """A kind of a pack, as YAML."""
    return _KIND.strip("\n").replace("NAME", name).replace("ON_UNKNOWN", on_unknown) + steps.rstrip()


# One step; several that are undone when a later one fails; the same, where the target can be asked by key.
KINDS = ("BUY", "BUY_IN_STEPS", "BUY_IN_STEPS_PROBED")
PACK = f"""
pack: lifecycle
version: 1.0.0
resources: [{{name: units, capacity: 100, unit: units}}]
facts: {{market: {{state: OPEN}}, price: {{ABC: 100}}}}
policy_kinds:
{kind_text(KINDS[0], "person", _ONE)}
{kind_text(KINDS[1], "person", _THREE.replace("PROBE", ""))}
{kind_text(KINDS[2], "probe", _THREE.replace("PROBE", _PROBE))}
targets: {{broker: {{base_url: "BASE_URL", refuses: [503]}}}}
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
"""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What tells one proposal from another here."""

    kind: str = "BUY"
    quantity: int = 10
    confidence: float = 0.9
    window_s: int = 600


class Fate(StrEnum):
    """What the target does with a call."""

    SUCCEED = "succeed"
    REFUSE = "refuse for good"
    BUSY = "busy"
    LOSE_AFTER = "lose the answer after the effect"
    LOSE_BEFORE = "lose the call before the effect"
    RUBBISH = "take effect and answer rubbish"
    FAIL_AFTER = "take effect and answer that something failed"


TAKES_EFFECT = (Fate.SUCCEED, Fate.LOSE_AFTER, Fate.RUBBISH, Fate.FAIL_AFTER)


@dataclass
class Broker:
    """A target that keeps no keys: each call that it takes is an effect more, whatever its key."""

    fate: str = Fate.SUCCEED
    calls: int = 0
    effects: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        """Treat one request by the fate in force; a question about a key has no effect."""
        self.calls += 1
        if request.command == "GET":
            happened = self.effects[request.path.rpartition("/")[2]]
            if self.fate is Fate.SUCCEED and not happened:
                misbehaving_targets.answer(404)(request)
                return
        elif self.fate in TAKES_EFFECT:
            self.effects[request.headers["Idempotency-Key"]] += 1
        match self.fate:
            case Fate.SUCCEED:
                misbehaving_targets.answer(200, b'{"order_id":"o1"}')(request)
            case Fate.REFUSE:
                misbehaving_targets.answer(422)(request)
            case Fate.BUSY:
                misbehaving_targets.answer(503)(request)
            case Fate.RUBBISH:
                misbehaving_targets.answer(200, b"<html>")(request)
            case Fate.FAIL_AFTER:
                misbehaving_targets.answer(502)(request)
            case Fate.LOSE_AFTER | Fate.LOSE_BEFORE:
                misbehaving_targets.drop(request)


@dataclass
class Clock:
    """The one port of time, moved by the test; each look at it takes a millisecond."""

    at: datetime

    def now(self) -> datetime:
        """The moment."""
        self.at += timedelta(milliseconds=1)
        return self.at

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.at += timedelta(seconds=seconds)

    def monotonic(self) -> float:
        """The same moment, as the attempt's lease is measured."""
        return self.now().timestamp()


class WorkerDiedError(BaseException):
    """A worker's process ended here: nothing that follows in it happens."""


@dataclass
class Between:
    """What happens between the steps of an attempt: nothing, unless a rule says so for the next one."""

    after_claim: Callable[[], None] | None = None
    after_call: Callable[[], None] | None = None

    def take(self, name: str) -> None:
        """Do what was planned for this place, once."""
        planned = getattr(self, name)
        if planned is not None:
            setattr(self, name, None)
            planned()


@dataclass(kw_only=True)
class Ground:
    """Everything the machine plays with; `begin` makes it new for each example."""

    session: Session
    key_text: str
    olivia: User
    broker: Broker
    clock: Clock
    between: Between

    def begin(self) -> None:
        """Nothing has happened yet."""
        self.broker.fate, self.broker.calls = Fate.SUCCEED, 0
        self.broker.effects.clear()
        self.between.after_claim = self.between.after_call = None

    def shake_hands(self) -> None:
        """A session that is valid now."""
        self.session = _shake(self.key_text)

    def open(self, parent: UUID | None) -> UUID | Problem:
        """A flow; its DFID."""
        agent = self.session.agent
        opened = flows.open_flow(agent=agent, trigger={"why": "trial"}, parent_dfid=parent)
        return opened if isinstance(opened, Problem) else UUID(opened.dfid)

    def body(self, dfid: UUID, asked: Asked) -> bytes | None:
        """A proposal on a fresh context; None where the flow has ended."""
        seen = contexts.compile_context(agent=self.session.agent, dfid=dfid)
        if isinstance(seen, Problem):
            return None
        return canonical.encode(
            {
                "policy_kind": asked.kind,
                "params": {"quantity": asked.quantity},
                "execution_constraints": {"validity_window_sec": asked.window_s},
                "context_ref": seen.context_ref,
                "confidence": asked.confidence,
            }
        )

    def post(self, dfid: UUID, key: str, body: bytes) -> intake.Answered | Problem:
        """`POST /flows/{dfid}/proposals`, behind its parser."""
        return intake.submit(
            session=self.session,
            dfid=dfid,
            envelope=ProposalEnvelope.model_validate_json(body),
            body=body,
            idempotency_key=key,
            path=f"/flows/{dfid}/proposals",
        )


@contextmanager
def made(
    monkeypatch: pytest.MonkeyPatch, *, pack: str = PACK, broker: Broker | None = None
) -> Iterator[Ground]:
    """Load the pack against a running target, and put the clock and the places between steps in force."""
    time, broker, between = Clock(clock.now()), broker or Broker(), Between()
    monkeypatch.setattr(clock, "now", time.now)
    stopwatch = types.SimpleNamespace(monotonic=time.monotonic, sleep=time.move)
    monkeypatch.setattr(attempting, "time", stopwatch)
    _open_between(monkeypatch, between)
    with misbehaving_targets.stand_in(broker) as running:
        text = pack.replace("BASE_URL", running.base_url)
        loaded = packs.load(text=text, source="lifecycle.yaml", activate=True, actor="system")
        assert isinstance(loaded, packs.Loaded), loaded
        issued = credentials.issue_agent_key(tenant=factories.TENANT, agent_id=AGENT, actor="system")
        assert not isinstance(issued, Problem), issued
        yield Ground(
            session=_shake(issued.text),
            key_text=issued.text,
            olivia=factories.user("olivia"),
            broker=broker,
            clock=time,
            between=between,
        )


def _open_between(monkeypatch: pytest.MonkeyPatch, between: Between) -> None:
    """After the commit of a claim, and after the answer of a call: there a worker can die, or lose time."""
    run, call = transactions.retry_on_conflict, calling.call

    def run_then(work: Callable[[], T]) -> T:
        result = run(work)
        if isinstance(result, claiming.Claimed):
            between.take("after_claim")
        return result

    def call_then(*named: Any, **limits: Any) -> Any:
        result = call(*named, **limits)
        between.take("after_call")
        return result

    monkeypatch.setattr(transactions, "retry_on_conflict", run_then)
    monkeypatch.setattr(calling, "call", call_then)


def _shake(key_text: str) -> Session:
    key = credentials.agent_key(key_text)
    assert key is not None
    assert key.agent is not None
    request = api_schemas.HandshakeRequest(agent_id=AGENT, manifest_version="1.0.0", protocol_version="1.0")
    answer = handshakes.open_session(key=key, agent=key.agent, request=request)
    assert not isinstance(answer, Problem), answer
    session = credentials.session(answer.session_token)
    assert session is not None
    return session
