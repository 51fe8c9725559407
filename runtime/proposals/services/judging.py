"""Judging one claim: facts, verdict, and the rows that make it replayable. Moves nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from audit import canonical, events, ledger
from runtime.contracts.facts import Lift, SnapshotFacts
from runtime.contracts.proposal import JudgedProposal
from runtime.contracts.states import AgentStatus
from runtime.contracts.verdict import VerdictDocument
from runtime.core.ids import new_id
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow, Proposal, Verdict
from runtime.kernel import timestamps
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import NEWEST, PolicyBundle
from runtime.proposals.queries import gate_facts
from runtime.registry.models import Agent, Bundle


@dataclass(frozen=True, kw_only=True)
class ProposalDraft:
    """A proposal, before it is judged. `window_s` counts from the moment it was received."""

    author: str
    by_person: bool
    policy_kind: str
    policy_version: str | None
    params: Mapping[str, Any]
    execution_constraints: Mapping[str, Any]
    context_ref: str | None
    snapshot: SnapshotFacts | None
    window_s: float
    session_valid: bool = True
    confidence: float | None = None
    explain: str = ""
    human_review_required: bool = False
    expected_effects: Any = None
    conditions: tuple[str, ...] = ()
    lifts: tuple[Lift, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A verdict with its rows (not stored yet) and the rules it was judged under.

    `mismatches` names rules that were left out, since their rows are not what the ledger recorded.
    """

    proposal: Proposal
    row: Verdict
    verdict: VerdictDocument
    rules: PolicyBundle
    intent_id: str
    mismatches: tuple[Mismatch, ...] = ()


def judge(*, flow: Flow, agent: Agent, claim: ProposalDraft, at: datetime) -> Judged:
    """Judge `claim` at `at`. The caller holds the locks of flow and agent; nothing is written."""
    rules, mismatches = gate_facts.compare_rules(agent=agent, kind_name=claim.policy_kind)
    valid_until = at + timedelta(seconds=claim.window_s)
    asked = JudgedProposal(
        proposal_id=str(new_id()),
        intent_id=str(new_id()),
        dfid=str(flow.dfid),
        tenant=flow.tenant,
        author=claim.author,
        by_person=claim.by_person,
        policy_kind=claim.policy_kind,
        policy_version=claim.policy_version,
        params=dict(claim.params),
        execution_constraints=dict(claim.execution_constraints),
        context_ref=claim.context_ref,
        confidence=claim.confidence,
        human_review_required=claim.human_review_required,
        expected_effects=claim.expected_effects,
        conditions=claim.conditions,
        received_at_ms=timestamps.to_ms(at),
        valid_until_ms=timestamps.to_ms(valid_until),
    )
    known = gate_facts.get_facts(
        flow=flow,
        agent=agent,
        rules=rules,
        params=asked.params,
        conditions=asked.conditions,
        snapshot=claim.snapshot,
        session_valid=claim.session_valid,
        lifts=claim.lifts,
        at=at,
    )
    rules_body = rules.to_bytes()
    judgement = pipeline.Judgement(
        proposal=asked,
        facts=known,
        now_ms=timestamps.to_ms(at),
        rules_digest=canonical.digest(rules_body),
        gate_version=NEWEST,
    ).to_bytes()
    # Judged from the bytes that are stored, so that a replay sees exactly what the gate saw.
    answer = pipeline.judge_bytes(judgement, rules_body)
    judged = _rows(
        flow=flow,
        agent=agent,
        claim=claim,
        asked=asked,
        judgement=judgement,
        answer=answer,
        rules=rules,
        rules_body=rules_body,
    )
    return replace(judged, mismatches=mismatches)


def _rows(
    *,
    flow: Flow,
    agent: Agent,
    claim: ProposalDraft,
    asked: JudgedProposal,
    judgement: bytes,
    answer: bytes,
    rules: PolicyBundle,
    rules_body: bytes,
) -> Judged:
    body = asked.to_bytes()
    verdict = VerdictDocument.from_bytes(answer)
    judged_at = timestamps.from_ms(asked.received_at_ms)
    proposal = Proposal(
        proposal_id=asked.proposal_id,
        flow=flow,
        agent=agent,
        author=claim.author,
        policy_kind=claim.policy_kind,
        policy_version="" if rules.kind is None else rules.kind.version,
        body=body,
        digest=canonical.digest(body),
        explain=claim.explain,
        received_at=judged_at,
        valid_until=timestamps.from_ms(asked.valid_until_ms),
    )
    row = Verdict(
        proposal=proposal,
        decision=verdict.decision,
        body=answer,
        input=judgement,
        input_digest=canonical.digest(judgement),
        bundle=Bundle(digest=canonical.digest(rules_body), body=rules_body, created_at=judged_at),
        gate_version=verdict.gate_version,
        judged_at=judged_at,
    )
    return Judged(proposal=proposal, row=row, verdict=verdict, rules=rules, intent_id=asked.intent_id)


@dataclass(frozen=True, kw_only=True)
class Rejudgement:
    """A stored proposal judged again on today's facts and rules, as if it had just arrived. Never stored."""

    judgement: pipeline.Judgement
    rules: PolicyBundle
    verdict: VerdictDocument


def reconsider(*, flow: Flow, agent: Agent, proposal: Proposal, at: datetime) -> Rejudgement:
    """What the gate would find today in a proposal that waits for a person.

    Its window restarts and the live facts count as seen; what the agent has left of attempts, tokens and
    rate is not about the proposal, so it is left out. A PASSIVE agent counts as ACTIVE: what was
    granted before its bucket ran dry stays open.
    """
    stored = JudgedProposal.from_bytes(bytes(proposal.body))
    window_ms = stored.valid_until_ms - stored.received_at_ms
    now_ms = timestamps.to_ms(at)
    asked = stored.model_copy(update={"received_at_ms": now_ms, "valid_until_ms": now_ms + window_ms})
    rules = gate_facts.get_rules(agent=agent, kind_name=asked.policy_kind)
    known = gate_facts.get_facts_of_now(flow=flow, agent=agent, rules=rules, params=asked.params, at=at)
    status = AgentStatus.ACTIVE if known.agent.status is AgentStatus.PASSIVE else known.agent.status
    nothing = {"tokens_used": 0, "cost_used_micros": 0, "tool_calls_used": 0, "ends_at_ms": None}
    known = known.model_copy(
        update={
            "snapshot": SnapshotFacts(facts=known.world, expires_at_ms=asked.valid_until_ms),
            "escalation_tokens": 1,
            "agent": known.agent.model_copy(update={"status": status}),
            "flow": known.flow.model_copy(update={"attempts_used": 0}),
            "history": None if known.history is None else {**known.history, "proposals_1m": 0},
            "compute": known.compute and known.compute.model_copy(update=nothing),
            # What others hold just now comes and goes; only what is used up counts.
            "resources": known.resources
            and tuple(item.model_copy(update={"reserved": 0}) for item in known.resources),
        }
    )
    judgement = pipeline.Judgement(
        proposal=asked,
        facts=known,
        now_ms=now_ms,
        rules_digest=canonical.digest(rules.to_bytes()),
        gate_version=NEWEST,
    )
    return Rejudgement(judgement=judgement, rules=rules, verdict=pipeline.judge(asked, known, rules, now_ms))


def store(judged: Judged) -> list[events.Event]:
    """Write proposal, bundle and verdict; return the entries that record them, and the mismatches."""
    proposal, row = judged.proposal, judged.row
    proposal.save(force_insert=True)
    Bundle.objects.bulk_create([row.bundle], ignore_conflicts=True)
    row.save(force_insert=True)
    asked = JudgedProposal.from_bytes(bytes(proposal.body))
    kept = [
        canonical.encode(asked.params),
        *([canonical.encode(proposal.explain)] if proposal.explain else []),
    ]
    commitments = ledger.commit_payloads(tenant=proposal.flow.tenant, bodies=kept)
    return [
        events.ProposalSubmitted(
            proposal_id=str(proposal.proposal_id),
            author=proposal.author,
            policy_kind=proposal.policy_kind,
            policy_version=proposal.policy_version,
            proposal_digest=proposal.digest,
            params_commitment=commitments[0],
            context_ref=asked.context_ref or "",
            valid_until=proposal.valid_until,
            explain_commitment=commitments[1] if proposal.explain else None,
        ),
        events.VerdictGiven(
            proposal_id=str(proposal.proposal_id),
            verdict=row.decision,
            reasons=tuple(
                events.ReasonEntry(check=finding.check, code=finding.code)
                for finding in judged.verdict.reasons
            ),
            input_digest=row.input_digest,
            verdict_digest=canonical.digest(bytes(row.body)),
            policy_bundle_hash=row.bundle_id,
            gate_version=row.gate_version,
            impact=judged.verdict.impact,
        ),
        *(mismatch.event() for mismatch in judged.mismatches),
    ]
