"""Drift: is the frozen evidence still true, and if not, the next revision of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from audit import canonical, events
from escalations.contracts import Family, FirstEnd
from escalations.evidence_contracts import EvidenceDocument, JudgedEvidence
from escalations.models import Escalation, Evidence
from escalations.services import evidence, first_decisions
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.flows.models import Flow, Proposal
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel.rules import evaluate
from runtime.proposals.services import judging
from runtime.registry.models import Agent


@dataclass(frozen=True)
class Revised:
    """The evidence was revised: why, in a sentence, and what is current now."""

    why: str
    revision: int
    evidence_hash: str


def proposal_of(escalation: Escalation) -> Proposal:
    """What the escalation is about; only that of an agent has none, and nobody judges it."""
    if escalation.proposal is None:
        raise LookupError("the escalation of an agent has no proposal")
    return escalation.proposal


def revise_if_drifted(
    *,
    escalation: Escalation,
    shown: EvidenceDocument,
    flow: Flow,
    agent: Agent,
    journal: Journal,
    proposes: bool = False,
) -> Revised | None:
    """Make revision n+1 when a fact moved materially, the rules changed or the findings differ.

    The caller holds the locks of flow, agent and escalation, and writes the journal. An operational
    escalation is about what already happened: its evidence drifts only for who `proposes` something new.
    A silence lasts or is over: its evidence never drifts.
    """
    if not isinstance(shown, JudgedEvidence) or (shown.family is Family.OPERATIONAL and not proposes):
        return None
    fresh, following, why = _judge_again(escalation, shown, flow, agent, journal.at)
    if not why:
        return None
    return _store(escalation=escalation, following=following, fresh=fresh, why=why, journal=journal)


def revise_with_answer(
    *,
    escalation: Escalation,
    shown: JudgedEvidence,
    flow: Flow,
    agent: Agent,
    journal: Journal,
    number: int,
) -> Revised:
    """Make revision n+1, which holds the agent's answer to a question beside what else has moved."""
    fresh, following, drift = _judge_again(escalation, shown, flow, agent, journal.at)
    answer = f"the agent answered question {number}"
    return _store(
        escalation=escalation,
        following=following,
        fresh=fresh,
        why=f"{answer}, {drift}" if drift else answer,
        journal=journal,
    )


def get_next(
    *, escalation: Escalation, shown: JudgedEvidence, flow: Flow, agent: Agent, at: datetime
) -> JudgedEvidence:
    """The evidence that a decision at `at` would be bound to: `shown`, or the next one if it drifted."""
    _, following, why = _judge_again(escalation, shown, flow, agent, at)
    return following if why else shown


def is_drifted(*, escalation: Escalation, shown: JudgedEvidence, flow: Flow, agent: Agent) -> bool:
    """Whether the evidence has drifted. Reads only and holds no lock: ask again before acting on it."""
    return bool(_judge_again(escalation, shown, flow, agent, clock.now())[2])


def _judge_again(
    escalation: Escalation, shown: JudgedEvidence, flow: Flow, agent: Agent, at: datetime
) -> tuple[judging.Rejudgement, JudgedEvidence, str]:
    """The new judgement, the next evidence, and why it differs materially; no reason where it does not."""
    proposal = proposal_of(escalation)
    fresh = judging.reconsider(flow=flow, agent=agent, proposal=proposal, at=at)
    if fresh.rules.kind is None or fresh.rules.manifest is None:
        following = evidence.without_rules(
            shown, revision=escalation.revision + 1, judgement=fresh.judgement, verdict=fresh.verdict, at=at
        )
    else:
        following = evidence.build(
            escalation_id=escalation.pk,
            revision=escalation.revision + 1,
            reason=escalation.reason,
            proposal=proposal,
            judgement=fresh.judgement,
            rules=fresh.rules,
            verdict=fresh.verdict,
            intent=escalation.intent,
            at=at,
        )
    # Judged as if ACTIVE (see `reconsider`), shown as it is.
    changed: dict[str, Any] = {
        "agent": following.agent.model_copy(update={"status": AgentStatus(agent.status)})
    }
    answered = evidence.answered(escalation)
    if answered:
        changed["questions"] = answered
    following = following.model_copy(update=changed)
    return fresh, following, _why(shown, following, fresh)


def _why(shown: JudgedEvidence, following: JudgedEvidence, fresh: judging.Rejudgement) -> str:
    """What differs materially, in words; empty when nothing does. A price within its bounds is no reason."""
    reasons = []
    if fresh.rules.kind is not None:
        asked = fresh.judgement.proposal
        moved = evaluate.list_moved(
            fresh.rules.kind,
            params=asked.params,
            constraints=asked.execution_constraints,
            seen=shown.seen_facts,
            current=fresh.judgement.facts.world,
        )
        reasons += [f"{fact} changed" for fact in moved]
    if shown.policy_bundle_hash != following.policy_bundle_hash:
        reasons.append("the active rules changed")
    is_judged_again = shown.operational is None  # else the findings shown are those of what has run
    if is_judged_again and shown.findings_key != following.findings_key:
        reasons.append("the findings of the gate changed")
    if shown.impact is not following.impact:
        reasons.append("the impact changed")
    return ", ".join(reasons)


def _store(
    *,
    escalation: Escalation,
    following: JudgedEvidence,
    fresh: judging.Rejudgement,
    why: str,
    journal: Journal,
) -> Revised:
    impact, body = fresh.verdict.impact, following.to_bytes()
    moved: dict[str, Any] = {
        "revision": escalation.revision + 1,
        "version": escalation.version + 1,
        "evidence_hash": canonical.digest(body),
        "impact": impact,
        "impact_rank": impact.rank,
        "rule": following.rule,
        "incident": following.incident,
    }
    # The queue shows the current figures; of what has run, and without rules, they stay as they were.
    if escalation.intent_id is None and fresh.rules.kind is not None and fresh.rules.manifest is not None:
        moved |= evidence.figures(fresh.verdict, escalation.reason)
    for name, value in moved.items():
        setattr(escalation, name, value)
    escalation.save(update_fields=list(moved))
    Evidence.objects.create(
        escalation=escalation,
        revision=escalation.revision,
        body=body,
        hash=escalation.evidence_hash,
        why=why[:300],
        created_at=journal.at,
    )
    journal.add(
        *first_decisions.end(escalation=escalation, why=FirstEnd.EVIDENCE_CHANGED),
        events.EscalationRevised(
            escalation_id=str(escalation.pk),
            revision=escalation.revision,
            evidence_hash=escalation.evidence_hash,
            why=why[:300],
            impact=impact,
            approvals=following.kind.approvals,
        ),
    )
    return Revised(why=why, revision=escalation.revision, evidence_hash=escalation.evidence_hash)
