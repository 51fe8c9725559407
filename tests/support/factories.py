"""Rows for tests of services: an agent at its desk with rules in force, its flows, and people who decide.

Rows that a product service makes are made by that service; the rest is written here as a pack would.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, User
from django.db import transaction

from audit import canonical, events, ledger
from audit.models import LedgerEntry
from escalations import evidence_contracts
from escalations.contracts import Action
from escalations.evidence_contracts import AnyEvidence, JudgedEvidence
from escalations.models import Escalation, Evidence
from escalations.policy import Person
from escalations.services import deciding, questions
from escalations.services.decision_request import DecisionRequest
from runtime.contexts.services import contexts
from runtime.contracts import api_schemas, pack, timestamps
from runtime.contracts import manifest as manifest_contract
from runtime.contracts import policy_kind as kind_contract
from runtime.contracts.envelope import ProposalEnvelope
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentRole
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.kernel import versions
from runtime.proposals.services import intake
from runtime.registry.models import Agent, Key, PolicyKind, Session
from runtime.registry.queries import authority_rows, target_endpoints
from runtime.registry.services import kinds, manifests, registration, targets
from runtime.state.services import facts
from tests.support import gate_cases

TENANT = "default"
# Above the manifest's limit, and below HIGH_IMPACT.
OVER_LIMIT = {**gate_cases.PARAMS, "notional_cents": 150_000}
HIGH_IMPACT = {**gate_cases.PARAMS, "notional_cents": 300_000}
# Of a secret that nobody has.
SECRET_HASH = "0" * 64
JUSTIFICATION = "The desk has agreed to this position."


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A flow with a fresh context."""

    dfid: UUID
    context_ref: str

    def row(self) -> Flow:
        """The flow as it is stored now."""
        return Flow.objects.get(dfid=self.dfid)

    def entries(self) -> list[str]:
        """The kinds of the flow's entries, in order."""
        rows = LedgerEntry.objects.filter(stream=str(self.dfid)).order_by("seq")
        return list(rows.values_list("kind", flat=True))


@dataclass(kw_only=True)
class Desk:
    """An agent in force, with a session."""

    agent: Agent
    session: Session

    def again(self) -> Agent:
        """The agent as it is stored now."""
        return Agent.objects.select_related("active_manifest").get(pk=self.agent.pk)

    def open(self, trigger: Any = None) -> Opened:
        """Open a flow and compile its context."""
        opened = flows.open_flow(agent=self.again(), trigger=trigger or {"type": "tick"})
        assert not isinstance(opened, Problem), opened
        return self.look(UUID(opened.dfid))

    def look(self, dfid: UUID) -> Opened:
        """A fresh context of a flow."""
        seen = contexts.compile_context(agent=self.again(), dfid=dfid)
        assert not isinstance(seen, Problem), seen
        return Opened(dfid=dfid, context_ref=seen.context_ref)

    def submit(
        self, flow: Opened, *, key: str | None = None, path: str | None = None, **changes: Any
    ) -> intake.Answered | Problem:
        """Send a proposal that would be accepted, but for `changes`."""
        body = envelope_body(**{"context_ref": flow.context_ref, **changes})
        return intake.submit(
            session=self.session,
            dfid=flow.dfid,
            envelope=ProposalEnvelope.model_validate_json(canonical.encode(body)),
            body=canonical.encode(body),
            idempotency_key=key or uuid.uuid4().hex,
            path=path or f"/api/v1/flows/{flow.dfid}/proposals",
        )

    def propose(self, flow: Opened, **changes: Any) -> dict[str, Any]:
        """The answer to `submit`, read."""
        return read(self.submit(flow, **changes))

    def escalate(self, **changes: Any) -> Escalation:
        """An open escalation: a proposal above the limit, or with `changes`."""
        answer = self.propose(self.open(), **{"params": OVER_LIMIT, **changes})
        assert answer["verdict"] == "ESCALATE", answer
        return Escalation.objects.get(escalation_id=answer["escalation_id"])


def envelope_body(**changes: Any) -> dict[str, Any]:
    """The body of a proposal; a change to None takes the member out."""
    body: dict[str, Any] = {
        "policy_kind": "ADJUST_POSITION",
        "params": gate_cases.PARAMS,
        "execution_constraints": gate_cases.CONSTRAINTS,
        "confidence": 0.9,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def read(answer: intake.Answered | Problem) -> dict[str, Any]:
    """A decided answer as JSON."""
    assert isinstance(answer, intake.Answered), answer
    decoded: dict[str, Any] = canonical.decode(answer.body)
    return decoded


def policy_kind(contract: kind_contract.KindDocument) -> PolicyKind:
    """Put a version of a kind in force, in place of the one before."""
    at = clock.now()
    with transaction.atomic():
        document = kinds.VersionedKind(TENANT, contract.kind)
        row, registered = document.register(contract, actor="system", at=at)
        activated = document.set_active(row, actor="system", at=at)
        record("system", registered, activated, actor="system", at=at)
    return row


def activate(
    agent: Agent,
    contract: manifest_contract.ManifestDocument,
    *,
    by: str = "system",
    at: datetime | None = None,
) -> None:
    """Put a version of an agent's manifest in force."""
    activated_at = at or clock.now()
    with transaction.atomic():
        document = manifests.AgentManifest(agent)
        row, registered = document.register(contract, actor=by, at=activated_at)
        activated = document.set_active(row, actor=by, at=activated_at)
        record(f"agent:{agent.agent_id}", registered, activated, actor=by, at=activated_at)


def change_manifest(agent_id: str, **fields: Any) -> None:
    """Put the next version of an agent's manifest in force, with these fields changed."""
    agent = Agent.objects.select_related("active_manifest").get(tenant=TENANT, agent_id=agent_id)
    assert agent.active_manifest is not None
    held = canonical.decode(bytes(agent.active_manifest.body))
    changed = held | fields | {"version": versions.next_minor(held["version"])}
    activate(agent, manifest_contract.ManifestDocument.from_bytes(canonical.encode(changed)))


def record(stream: str, *added: events.Event, actor: str, at: datetime) -> None:
    """Append entries to a stream that is not a flow, in the caller's transaction."""
    ledger.append_to(tenant=TENANT, stream=stream, actor=actor, at=at, events=added)


def configure_target(name: str = "broker", **fields: Any) -> None:
    """A target with its entry, as a pack configures it; what is not given stays as it is."""
    row = target_endpoints.get_target(tenant=TENANT, name=name)
    held = (
        {}
        if row is None
        else {
            "base_url": row.base_url,
            "secret_env": row.secret_env or None,
            "refuses": target_endpoints.refuses_of(row),
            "honours_keys": row.honours_keys,
            "health": row.health or None,
        }
    )
    at = clock.now()
    with transaction.atomic():
        # Tests name addresses that no pack may, to see what becomes of a call there.
        given = pack.PackTarget.model_construct(**{**_PLAIN_TARGET, **held, **fields})
        record("system", *targets.store(tenant=TENANT, name=name, given=given, at=at), actor="system", at=at)


_PLAIN_TARGET = pack.PackTarget(base_url="http://127.0.0.1:1").model_dump()


def desk(
    *,
    kind: kind_contract.KindDocument | None = None,
    manifest: manifest_contract.ManifestDocument | None = None,
    agent_id: str = "trader",
    owner: str = "trading-desk",
) -> Desk:
    """An agent with the plain manifest and kind of `builders` in force, the facts it needs, and a session."""
    if not PolicyKind.objects.filter(tenant=TENANT, kind="ADJUST_POSITION").exists():
        policy_kind(kind or gate_cases.kind())
        for path, value in gate_cases.WORLD.items():
            write(path, value)
    at = clock.now()
    profile = registration.Profile(owner=owner, mission="Trade.", review_on=None)
    key_id = f"agk_{uuid.uuid4().hex[:16]}"
    with transaction.atomic():
        agent, registered = registration.create(
            tenant=TENANT, agent_id=agent_id, role=AgentRole.EXECUTOR, profile=profile, at=at
        )
        issued = events.KeyIssued(
            key_id=key_id,
            subject=f"agent:{agent_id}",
            secret_digest=canonical.digest(SECRET_HASH.encode()),
            fact_prefix="",
        )
        record(f"agent:{agent_id}", registered, issued, actor="system", at=at)
    activate(agent, manifest or gate_cases.manifest())
    key = Key.objects.create(
        tenant=TENANT, key_id=key_id, secret_hash=SECRET_HASH, agent=agent, created_at=at
    )
    session = Session.objects.create(
        token_id=f"ses_{uuid.uuid4().hex[:16]}",
        secret_hash="0" * 64,
        key=key,
        agent=agent,
        manifest_version="1.4.0",
        protocol_version="1.0",
        created_at=at,
        expires_at=at + timedelta(hours=1),
    )
    return Desk(agent=agent, session=session)


def write(path: str, value: Any) -> None:
    """The next version of a fact."""
    written = facts.write(tenant=TENANT, path=path, value=value, writer="feed:prices", expected_version=None)
    assert not isinstance(written, Problem), written


def user(username: str = "olivia", *roles: str, groups: tuple[str, ...] = ()) -> User:
    """A signed-up person with roles (operator, where none is named) and further groups."""
    made = User.objects.create(username=username)
    for name in (*(roles or ("operator",)), *groups):
        made.groups.add(Group.objects.get_or_create(name=name)[0])
    return made


def person(account: User, **fields: Any) -> Person:
    """What policy may know of a person who has just given the password."""
    names = frozenset(account.groups.values_list("name", flat=True))
    return Person(
        **{
            "user_id": account.pk,
            "username": account.username,
            "roles": names & {"operator", "senior", "admin", "auditor"},
            "groups": names,
            "groups_now": names,
            "confirmed_at_ms": timestamps.to_ms(clock.now()),
            "is_solo": False,
            "limits": authority_rows.list_for(tenant=TENANT, user_pk=account.pk, roles=names),
            **fields,
        }
    )


def read_shown(escalation: Escalation) -> AnyEvidence:
    """The current evidence, as it is stored."""
    row = Evidence.objects.get(escalation=escalation, revision=escalation.revision)
    return evidence_contracts.read_evidence(bytes(row.body))


def evidence_of(escalation: Escalation) -> JudgedEvidence:
    """The current evidence of an escalation about a proposal."""
    shown = read_shown(escalation)
    assert isinstance(shown, JudgedEvidence)
    return shown


def decision_request(
    escalation: Escalation, action: Action = Action.OVERRIDE, **fields: Any
) -> DecisionRequest:
    """What an attentive person sends from the page as it is now."""
    row = Escalation.objects.get(pk=escalation.pk)
    return DecisionRequest(
        **{
            "action": action,
            "evidence_hash": row.evidence_hash,
            "version": row.version,
            "impact": row.impact,
            "justification": JUSTIFICATION,
            "typed_again": read_shown(row).type_again,
            **fields,
        }
    )


def send(
    escalation: Escalation, account: User, request: DecisionRequest, *, who: Person | None = None
) -> deciding.DecisionResult | Problem:
    """Post a form as it was filled in, by whoever has just given the password."""
    return deciding.decide(
        tenant=TENANT,
        escalation_id=escalation.pk,
        person=who or person(account),
        user=account,
        request=request,
    )


def decide(
    escalation: Escalation,
    account: User,
    action: Action = Action.OVERRIDE,
    *,
    who: Person | None = None,
    **fields: Any,
) -> deciding.DecisionResult | Problem:
    """Decide, as `account`, what `decision_request` says."""
    return send(escalation, account, decision_request(escalation, action, **fields), who=who)


def answer(desk: Desk, escalation: Escalation, text: str = "The short average.", **fields: Any) -> Any:
    """The agent's answer to the question that is out."""
    return questions.answer(
        agent=desk.again(), dfid=escalation.flow_id, asked=api_schemas.AnswerRequest(text=text, **fields)
    )


def cancel(desk: Desk, escalation: Escalation) -> None:
    """The agent withdraws the flow of an escalation."""
    ended = flows.cancel(agent=desk.again(), dfid=escalation.flow_id, reason="no longer wanted")
    assert not isinstance(ended, Problem), ended
