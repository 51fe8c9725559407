"""One agent, one kind, one target, made by the product's own services: what tests of execution start from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID, uuid4

from audit import canonical, events
from audit.models import LedgerEntry
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contexts.services import contexts
from runtime.contracts import api_schemas
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState, IntentState
from runtime.execution.services import recovery
from runtime.flows.models import Feedback, Flow, Intent
from runtime.flows.services import flows
from runtime.packs.services import packs
from runtime.proposals.services import intake
from runtime.registry.models import Agent, Session
from runtime.registry.services import credentials, handshakes
from runtime.state.services import facts
from tests.support import factories

T = TypeVar("T")
TENANT, AGENT, KIND, OWNER = "default", "trader", "BUY", "a-worker"
ACTIONS: Mapping[Callable[..., None], Action] = {
    recovery.resume: Action.RESUME,
    recovery.mark_done: Action.MARK_DONE,
    recovery.give_up: Action.ABORT,
}

PACK = """
pack: trial
version: 1.0.0
facts: {market: {state: OPEN}, price: {ABC: 100}}
policy_kinds:
  - kind: BUY
    version: 1.0.0
    title: Buy
    risk_tier: T0
    params_schema:
      type: object
      properties: {symbol: {type: string}, quantity: {type: integer}}
      required: [symbol, quantity]
    constraints_schema: {type: object}
    depends_on: [price.ABC, {fact: market.state, unless: "true"}]
    impact: "'LOW_IMPACT'"
    constraints: [{id: C_MARKET_OPEN, require: "context.facts.market.state == 'OPEN'"}]
    predicts: [{fact: order.status, value: "'FILLED'"}]
    effect: "Buy {quantity} {symbol}"
    steps:
      - {id: order, executor: BY_WHOM, target: broker, request: {method: POST, path: /orders}}
targets: {broker: {base_url: "BASE_URL", refuses: [503]}}
agents:
  - agent_id: trader
    role: EXECUTOR
    owner: desk
    mission: Buy
    manifest: {version: 1.0.0, policy_kinds: [BUY], limits: {}, escalations_per_hour: 3}
"""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """An agent with a session."""

    agent: Agent
    session: Session

    def open(self, parent: UUID | None = None) -> UUID:
        """A flow, of its own or under a parent; its DFID."""
        opened = _good(flows.open_flow(agent=self.agent, trigger={"why": "trial"}, parent_dfid=parent))
        return UUID(opened.dfid)

    def accept(self, *, window_s: int = 60, traceparent: str = "", parent: UUID | None = None) -> UUID:
        """A flow of its own, its proposal accepted; the id of the waiting intent."""
        verdict = propose(self, window_s=window_s, traceparent=traceparent, parent=parent)
        assert verdict["verdict"] == "ACCEPT", verdict
        return UUID(verdict["intent_id"])


def propose(
    desk: Desk,
    *,
    quantity: int = 2,
    window_s: int = 60,
    traceparent: str = "",
    parent: UUID | None = None,
) -> dict[str, Any]:
    """A flow of its own and a proposal in it; the verdict."""
    opened = _good(
        flows.open_flow(
            agent=desk.agent, trigger={"why": "trial"}, traceparent=traceparent, parent_dfid=parent
        )
    )
    dfid = UUID(str(opened.dfid))
    context = _good(contexts.compile_context(agent=desk.agent, dfid=dfid))
    asked = {
        "policy_kind": KIND,
        "params": {"symbol": "ABC", "quantity": quantity},
        "execution_constraints": {"validity_window_sec": window_s},
        "context_ref": context.context_ref,
        "confidence": 0.9,
    }
    body = canonical.encode(asked)
    answered = intake.submit(
        session=desk.session,
        dfid=dfid,
        envelope=ProposalEnvelope.model_validate_json(body),
        body=body,
        idempotency_key=str(uuid4()),
        path=f"/flows/{dfid}/proposals",
    )
    assert isinstance(answered, intake.Answered), answered
    verdict: dict[str, Any] = canonical.decode(answered.body)
    return verdict


def pack(*, base_url: str, executor: str = "http") -> str:
    """The trial pack with its target at `base_url`."""
    return PACK.replace("BASE_URL", base_url).replace("BY_WHOM", executor)


def open_desk(*, base_url: str = "http://127.0.0.1:1", executor: str = "http") -> Desk:
    """Load the pack and shake hands."""
    text = pack(base_url=base_url, executor=executor)
    loaded = packs.load(text=text, source="trial.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded
    issued = _good(credentials.issue_agent_key(tenant=TENANT, agent_id=AGENT, actor="system"))
    key = credentials.agent_key(issued.text)
    assert key is not None
    assert key.agent is not None
    request = api_schemas.HandshakeRequest(agent_id=AGENT, manifest_version="1.0.0", protocol_version="1.0")
    answer = _good(handshakes.open_session(key=key, agent=key.agent, request=request))
    session = credentials.session(answer.session_token)
    assert session is not None
    return Desk(agent=key.agent, session=session)


def write_fact(path: str, value: Any) -> None:
    written = facts.write(tenant=TENANT, path=path, value=value, writer="feed:trial", expected_version=None)
    assert isinstance(written, facts.WrittenVersion), written


def intent(intent_id: UUID) -> Intent:
    return Intent.objects.select_related("flow").get(pk=intent_id)


def states(intent_id: UUID) -> tuple[IntentState, FlowState]:
    row = intent(intent_id)
    return IntentState(row.state), FlowState(row.flow.state)


def attempts(intent_id: UUID) -> list[str]:
    return list(intent(intent_id).attempt_rows.values_list("state", flat=True))


def kinds(intent_id: UUID, *, after: str = "intent:created") -> list[str]:
    """Kinds of the flow's entries that came after the first entry of kind `after`."""
    stream = str(intent(intent_id).flow_id)
    all_kinds = list(LedgerEntry.objects.filter(stream=stream).order_by("seq").values_list("kind", flat=True))
    return all_kinds[all_kinds.index(after) + 1 :]


def decided(flow: Flow, taken: Callable[..., None]) -> events.EscalationDecided:
    """The entry of a person's decision, for tests that do what it does to the call beside `deciding`.

    Its statement and signature are made up; without the entry nobody has approved what then runs.
    """
    case = Escalation.objects.filter(flow=flow).latest("opened_at")
    return events.EscalationDecided(
        escalation_id=str(case.pk),
        action=ACTIONS[taken],
        revision=case.revision,
        evidence_hash=case.evidence_hash,
        statement_digest="0" * 64,
        signature="0" * 128,
        key_id="trial",
    )


def told(intent_id: UUID) -> list[tuple[str, Mapping[str, Any]]]:
    """What the agent was told since the verdict."""
    rows = Feedback.objects.filter(flow=intent(intent_id).flow).order_by("seq")
    return [(row.event_type, canonical.decode(bytes(row.body))) for row in rows][1:]


def flow_of(intent_id: UUID) -> Flow:
    return intent(intent_id).flow


def _good(answer: T | Problem) -> T:
    assert not isinstance(answer, Problem), answer
    return answer


def add_target(name: str, base_url: str) -> None:
    factories.configure_target(name, base_url=base_url)


def aim_elsewhere(name: str, base_url: str) -> None:
    """Put a version of the kind in force that calls another target."""
    text = pack(base_url=base_url).replace("target: broker", f"target: {name}")
    text = text.replace("{broker:", f"{{{name}:").replace(
        "version: 1.0.0\n    title", "version: 1.1.0\n    title"
    )
    loaded = packs.load(text=text, source="trial.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


def place_target(base_url: str, *, secret_env: str = "") -> None:
    factories.configure_target(base_url=base_url, secret_env=secret_env or None)
