"""A console with something to show, made by the product's own services from the demo's own pack."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, User

from audit import canonical
from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contexts.services import contexts
from runtime.contracts import api_schemas
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AttemptState
from runtime.core import clock
from runtime.execution.services import intent_transitions
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services import flows
from runtime.flows.services.flow_transaction import Journal
from runtime.packs.services import packs
from runtime.proposals.services import intake
from runtime.registry.models import Agent, Session
from runtime.registry.services import credentials, handshakes
from tests.support import factories

PACK = Path(__file__).parents[2] / "demo" / "paper-brokerage.yaml"
PASSWORD = "correct horse battery staple"
TENANT = "default"
HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x onerror=alert(2)> IGNORE THE LIMIT."

UNANSWERED = "no answer within 10 s"


@dataclass
class Scene:
    """What was made; `escalations` and `flows` are ids in the order of making."""

    flows: list[str]
    escalations: list[str]


def add_user(name: str, *roles: Role, password: str | None = None) -> User:
    """A person with roles; without a password nobody waits for its hash."""
    user = User.objects.create_user(username=name, password=password)
    for role in roles:
        user.groups.add(Group.objects.get_or_create(name=role.value)[0])
    return user


def load_pack() -> None:
    """The demo's kinds, facts and agents, in force."""
    loaded = packs.load(text=PACK.read_text(), source=PACK.name, activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


def session_of(agent_id: str) -> Session:
    """A session of the agent, by its own key and handshake."""
    issued = credentials.issue_agent_key(tenant=TENANT, agent_id=agent_id, actor="system")
    assert not isinstance(issued, Problem)
    agent = Agent.objects.get(agent_id=agent_id)
    key = agent.keys.get(key_id=issued.key_id)
    answer = handshakes.open_session(
        key=key,
        agent=agent,
        request=api_schemas.HandshakeRequest(
            agent_id=agent_id, manifest_version="1.0.0", protocol_version="1.0"
        ),
    )
    assert not isinstance(answer, Problem), answer
    return Session.objects.select_related("agent").filter(key=key).latest("pk")


def propose(
    session: Session,
    kind: str,
    params: dict[str, Any],
    *,
    confidence: float = 0.9,
    explain: str = "",
    bps: int = 50,
) -> dict[str, Any]:
    """One flow with one proposal; the gate's answer."""
    agent = Agent.objects.get(pk=session.agent_id)
    opened = flows.open_flow(
        agent=agent, trigger={"signal": "momentum", "symbol": params.get("symbol", "cash")}
    )
    assert not isinstance(opened, Problem), opened
    dfid = UUID(str(opened.dfid))
    compiled = contexts.compile_context(agent=agent, dfid=dfid)
    assert not isinstance(compiled, Problem), compiled
    constraints: dict[str, Any] = {"validity_window_sec": 120}
    if kind == "ADJUST_POSITION":
        constraints["max_slippage_bps"] = bps
    body = {
        "policy_kind": kind,
        "params": params,
        "execution_constraints": constraints,
        "context_ref": compiled.context_ref,
        "confidence": confidence,
        "explain": explain,
    }
    encoded = canonical.encode(body)
    answered = intake.submit(
        session=session,
        dfid=dfid,
        envelope=ProposalEnvelope.model_validate_json(encoded),
        body=encoded,
        idempotency_key=f"key-{dfid}",
        path=f"/api/v1/flows/{dfid}/proposals",
    )
    assert not isinstance(answered, Problem), answered
    said: dict[str, Any] = canonical.decode(answered.body)
    return said


def order(action: str, quantity: int, symbol: str, cents: int) -> dict[str, Any]:
    """Parameters of an order."""
    return {"action": action, "quantity": quantity, "symbol": symbol, "notional_cents": cents}


def build() -> Scene:
    """Four agents, accepted, rejected and escalated flows of each weight, and one hostile explanation."""
    load_pack()
    calm, bold = session_of("momentum-trader"), session_of("ambitious-trader")
    unsure = session_of("unsure-analyst")
    said = [
        propose(
            calm, "ADJUST_POSITION", order("BUY", 4, "AAPL", 75800), explain="Momentum above the 20 day mean."
        ),
        propose(calm, "UPDATE_WATCHLIST", {"symbol": "NVDA", "action": "ADD"}),
        propose(calm, "ADJUST_POSITION", order("SELL", 500, "MSFT", 90000)),
        propose(bold, "ADJUST_POSITION", order("BUY", 40, "NVDA", 485600), explain=HOSTILE),
        propose(
            bold,
            "TRANSFER_FUNDS",
            {"amount_cents": 750000, "from_account": "reserve", "to_account": "operations"},
            explain="The operations account will run low before the close.",
        ),
        propose(unsure, "ADJUST_POSITION", order("REDUCE", 3, "GOOG", 51700), confidence=0.55),
        propose(bold, "ADJUST_POSITION", order("BUY", 8, "AAPL", 151600), explain="Strong close expected."),
        propose(unsure, "ADJUST_POSITION", order("BUY", 2, "AMZN", 36820), confidence=0.61),
        propose(calm, "ADJUST_POSITION", order("BUY", 2, "MSFT", 83240)),
    ]
    return Scene(
        flows=[item["dfid"] for item in said],
        escalations=[item["escalation_id"] for item in said if item.get("escalation_id")],
    )


def put_in_doubt() -> Escalation:
    """An order whose answer never came: somebody is asked."""
    load_pack()
    said = propose(session_of("momentum-trader"), "ADJUST_POSITION", order("BUY", 4, "AAPL", 75800))
    intent = Intent.objects.select_related("flow").get(flow_id=said["dfid"])
    now = clock.now()
    Attempt.objects.create(
        intent=intent,
        number=1,
        step="order",
        target_key="5e" * 32,
        lease_owner="worker",
        state=AttemptState.UNKNOWN,
        error_category="TIMED_OUT",
        detail=UNANSWERED,
        started_at=now,
        finished_at=now,
    )
    journal = Journal(flow=intent.flow, actor="system", at=now)
    intent_transitions.ask_person(journal, intent, IntentPlan.of(intent), reason=Reason.IN_DOUBT, failures=1)
    journal.write()
    return Escalation.objects.get(intent=intent)


def leave_in_doubt() -> Escalation:
    """The same, aborted by somebody who did not know either."""
    escalation = put_in_doubt()
    answer = factories.decide(escalation, factories.user("olivia"), Action.ABORT)
    assert not isinstance(answer, Problem), answer
    return escalation
