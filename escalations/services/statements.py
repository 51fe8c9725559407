"""The signed statement of a decision: who decided what, on which evidence, when."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from audit import actors, canonical, events
from audit.sealing import own_key
from escalations.contracts import DecisionState
from escalations.evidence_contracts import EvidenceDocument, JudgedEvidence
from escalations.models import Decision, Escalation
from escalations.pace import CheckQuestion
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
    `question` is what the person was asked about how they decide, and has answered.
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
    question: CheckQuestion | None = None
    effect: Effect | None = None

    @property
    def shown_ms(self) -> int | None:
        """How long the page was open, from the server's answer to the form; None where nothing says so."""
        shown_at_ms = self.request.shown_at_ms
        return None if shown_at_ms is None else max(0, timestamps.to_ms(self.at) - shown_at_ms)

    @property
    def judged(self) -> JudgedEvidence:
        """The evidence about a proposal; whoever uses it is barred where there is none to be trusted."""
        if not isinstance(self.shown, JudgedEvidence):
            raise LookupError("there is no trusted evidence about a proposal")
        return self.shown


@dataclass(frozen=True, kw_only=True)
class ActionResult:
    """What the action led to: the person's own proposal for OVERRIDE and MODIFY, and until when it holds.

    What does not resolve the escalation is no decision: it leaves it open. `intent_id` is what runs.
    `not_before` ends the undo window, None for none; `before` is what a take-back restores of an intent that
    was there.
    """

    resolves: bool = True
    proposal_id: str | None = None
    params: Mapping[str, Any] | None = None
    valid_until: datetime | None = None
    intent_id: str | None = None
    superseded_intent_id: str | None = None
    not_before: datetime | None = None
    before: Mapping[str, Any] | None = None
    # Of a decision of two people: the digest of the statement that it confirms.
    confirms: str | None = None


def choice_of(order: AuthorizedDecision) -> dict[str, Any]:
    """What two people must choose alike: not why, and in whatever order the conditions are given."""
    request = order.request
    return {
        "action": request.action.value,
        "params": dict(request.params or {}) if request.action.spec.changes_params else None,
        "conditions": sorted(set(request.conditions)),
        "receipt": dict(request.receipt or {}) if request.action.spec.takes_receipt else None,
        "effect": None if order.effect is None else order.effect.value,
        **_instruction(request),
    }


def _instruction(request: DecisionRequest) -> dict[str, str]:
    """Where the person leads the workflow; nothing for other actions."""
    return {"instruction": request.instruction} if request.action.spec.takes_instruction else {}


def store_first(*, order: AuthorizedDecision, journal: Journal) -> Decision:
    """Sign and store the first of two decisions. The entry holds nothing of what was chosen."""
    choice = choice_of(order)
    part = {"part": "1 of 2", "choice": choice}
    decision = _store(order, ActionResult(params=choice["params"]), part, DecisionState.AWAITING_SECOND)
    journal.add(
        events.EscalationFirstDecided(
            escalation_id=str(order.escalation.pk),
            sequence=decision.sequence,
            revision=decision.revision,
            evidence_hash=decision.evidence_hash,
            statement_digest=canonical.digest(bytes(decision.statement)),
            signature=bytes(decision.signature).hex(),
            key_id=decision.key_id,
        )
    )
    return decision


def sign_and_store(*, order: AuthorizedDecision, taken: ActionResult, journal: Journal) -> Decision:
    """Sign the statement, store the decision that is in effect, record it and tell the agent."""
    row, request = order.escalation, order.request
    part: dict[str, Any] = {}
    if taken.confirms is not None:
        part = {"part": "2 of 2", "choice": choice_of(order), "confirms": taken.confirms}
    decision = _store(order, taken, part, DecisionState.IN_EFFECT)
    journal.entries.insert(
        0,
        events.EscalationDecided(
            escalation_id=str(row.pk),
            action=request.action,
            revision=decision.revision,
            evidence_hash=decision.evidence_hash,
            statement_digest=canonical.digest(bytes(decision.statement)),
            signature=bytes(decision.signature).hex(),
            key_id=decision.key_id,
            proposal_id=taken.proposal_id,
            effect=order.effect,
            sequence=decision.sequence,
        ),
    )
    resolved: dict[str, Any] = {"escalation_id": str(row.pk), "action": request.action.value}
    resolved |= _instruction(request)
    if order.effect is not None:
        resolved["effect"] = order.effect.value
    if taken.params is not None:
        resolved["params"] = dict(taken.params)
    if taken.superseded_intent_id is not None:
        resolved |= {"superseded_intent_id": taken.superseded_intent_id, "intent_id": taken.intent_id}
    journal.notify_agent(FeedbackType.ESCALATION_RESOLVED, resolved)
    return decision


def _store(
    order: AuthorizedDecision, taken: ActionResult, part: Mapping[str, Any], state: DecisionState
) -> Decision:
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
        **part,
    }
    if order.shown_ms is not None:
        stated["reading"] = {"shown_ms": order.shown_ms, "client_reported": request.client_reported}
    if order.question is not None:
        asked = {"code": order.question.value, "question": order.question.words}
        stated["checked"] = {**asked, "answer": request.checked}
    if seen.revision != row.revision:
        stated["revision_in_force"] = row.revision
    if taken.not_before is not None:
        stated["not_before"] = timestamps.iso(taken.not_before)
    stated |= _instruction(request)
    if order.effect is not None:
        stated["effect"] = order.effect.value
    if taken.superseded_intent_id is not None:
        stated["superseded_intent_id"] = taken.superseded_intent_id
    statement = canonical.encode(stated)
    signer = own_key.signer(tenant=row.tenant, at=order.at)
    return Decision.objects.create(
        escalation=row,
        sequence=Decision.objects.filter(escalation=row).count() + 1,
        state=state,
        action=request.action,
        revision=seen.revision,
        evidence_hash=seen.evidence_hash,
        justification=request.justification,
        approver=order.user,
        solo=order.solo,
        shown_ms=order.shown_ms,
        statement=statement,
        signature=signer.sign(statement),
        key_id=signer.key_id,
        decided_at=order.at,
    )
