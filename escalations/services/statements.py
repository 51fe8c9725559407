"""The signed statement of a decision: who decided what, on which evidence, when."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from audit import actors, canonical, events, signing
from escalations.evidence_contracts import EvidenceDocument, JudgedEvidence
from escalations.models import Decision, Escalation
from escalations.policy import Person
from escalations.services.decision_request import DecisionRequest
from runtime.contracts import timestamps
from runtime.contracts.states import Effect, FeedbackType
from runtime.flows.services.flow_transaction import Journal


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The revision of the evidence that the person had on the page. Only a stop may be of an older one."""

    revision: int
    evidence_hash: str
    impact: str


@dataclass(frozen=True, kw_only=True)
class AuthorizedDecision:
    """A decision that policy allows, with everything its statement names.

    `shown` is the current evidence, None where it does not match the ledger; `seen` is the revision that the
    person signs.
    `effect` is what the person states about a call in doubt; None where nothing is in doubt or stated.
    """

    escalation: Escalation
    seen: Seen
    person: Person
    user: Any
    request: DecisionRequest
    shown: EvidenceDocument | None
    solo: bool
    at: datetime
    effect: Effect | None = None

    @property
    def judged(self) -> JudgedEvidence:
        """The evidence about a proposal; whoever uses it is barred where there is none to be trusted."""
        if not isinstance(self.shown, JudgedEvidence):
            raise LookupError("there is no trusted evidence about a proposal")
        return self.shown


@dataclass(frozen=True, kw_only=True)
class ActionResult:
    """What the action led to: the person's own proposal for OVERRIDE and MODIFY, and until when it holds.

    What does not resolve the escalation is no decision: it leaves it open.
    """

    resolves: bool = True
    proposal_id: str | None = None
    params: Mapping[str, Any] | None = None
    valid_until: datetime | None = None
    intent_id: str | None = None
    superseded_intent_id: str | None = None


def sign_and_store(*, order: AuthorizedDecision, taken: ActionResult, journal: Journal) -> Decision:
    """Sign the statement, store the one decision row, record it and tell the agent."""
    row, request, seen = order.escalation, order.request, order.seen
    stated: dict[str, Any] = {
        "type": "dir-console/decision/1",
        "tenant": row.tenant,
        "escalation_id": str(row.pk),
        "dfid": str(row.flow_id),
        "revision": seen.revision,
        "evidence_hash": seen.evidence_hash,
        "impact": seen.impact,
        "action": request.action.value,
        "params": None if taken.params is None else dict(taken.params),
        "conditions": list(request.conditions),
        "justification": request.justification,
        "approver": actors.user(order.person.user_id),
        "solo": order.solo,
        "proposal_id": taken.proposal_id,
        "decided_at": timestamps.iso(order.at),
        "valid_until": None if taken.valid_until is None else timestamps.iso(taken.valid_until),
        "nonce": secrets.token_hex(16),
    }
    if seen.revision != row.revision:
        stated["revision_in_force"] = row.revision
    if order.effect is not None:
        stated["effect"] = order.effect.value
    if taken.superseded_intent_id is not None:
        stated["superseded_intent_id"] = taken.superseded_intent_id
    statement = canonical.encode(stated)
    signer = signing.signer()
    signature = signer.sign(statement)
    decision = Decision.objects.create(
        escalation=row,
        action=request.action,
        revision=seen.revision,
        evidence_hash=seen.evidence_hash,
        justification=request.justification,
        approver=order.user,
        solo=order.solo,
        statement=statement,
        signature=signature,
        key_id=signer.key_id,
        decided_at=order.at,
    )
    journal.entries.insert(
        0,
        events.EscalationDecided(
            escalation_id=str(row.pk),
            action=request.action,
            revision=seen.revision,
            evidence_hash=seen.evidence_hash,
            statement_digest=canonical.digest(statement),
            signature=signature.hex(),
            key_id=signer.key_id,
            proposal_id=taken.proposal_id,
            effect=order.effect,
        ),
    )
    resolved: dict[str, Any] = {"escalation_id": str(row.pk), "action": request.action.value}
    if order.effect is not None:
        resolved["effect"] = order.effect.value
    if taken.params is not None:
        resolved["params"] = dict(taken.params)
    if taken.superseded_intent_id is not None:
        resolved |= {"superseded_intent_id": taken.superseded_intent_id, "intent_id": taken.intent_id}
    journal.notify_agent(FeedbackType.ESCALATION_RESOLVED, resolved)
    return decision
