"""Judging one proposal: facts, verdict, and the rows that make it replayable. Moves nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models.constants import OnConflict

from audit import canonical, events, ledger, statements
from audit.payload_keys import PayloadClass
from audit.records.fold import Rules
from runtime.contracts import timestamps
from runtime.contracts.facts import Facts, Lift, SnapshotFacts
from runtime.contracts.obligation import Obligation
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.redaction import RedactedIn
from runtime.contracts.states import AgentStatus, Decision
from runtime.contracts.verdict import VerdictDocument
from runtime.contracts.workflow import StepHistory, WorkflowDocument, WorkflowFold
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow, Proposal, Verdict
from runtime.flows.queries import judged_rules
from runtime.flows.services import redacting
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel import redaction
from runtime.kernel.gate import cedar_facts, obligations, pipeline
from runtime.kernel.gate.gate_input import NEWEST, Case, PolicyBundle
from runtime.kernel.rules import kind_reads
from runtime.proposals.queries import gate_facts
from runtime.proposals.queries.gate_facts import AlreadyRead
from runtime.proposals.services.proposal_signatures import Signed
from runtime.registry.models import Agent, Bundle
from runtime.registry.queries import autonomy_levels
from runtime.registry.services import autonomy
from runtime.resources.models import Resource
from runtime.workflows.queries import positions, step_history
from runtime.workflows.queries.positions import Standing


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A proposal with its verdict, their rows (not stored yet) and the rules it was judged under.

    `mismatches` names rules that were left out, since their rows are not what the ledger recorded; `redacted`
    is how often which redaction rule was applied to the explanation. `claimed` are the rows of the resources
    that the kind claims.
    """

    document: ProposalDocument
    proposal: Proposal
    row: Verdict
    verdict: VerdictDocument
    rules: PolicyBundle
    facts: Facts
    mismatches: tuple[Mismatch, ...]
    redacted: Mapping[str, int]
    claimed: Sequence[Resource]
    followed: Standing | None = None

    @property
    def obligations(self) -> tuple[Obligation, ...]:
        """What the verdict obliges the runtime to."""
        return tuple(obligations.list_obligations(self.verdict, proposal=self.document, rules=self.rules))

    @property
    def allowed_by(self) -> tuple[str, ...]:
        """By which codes the verdict allows; nothing where it does not."""
        accepted = self.verdict.decision is Decision.ACCEPT
        return tuple(obligations.list_codes(self.verdict)) if accepted else ()

    @property
    def for_record(self) -> Rules:
        """What the DecisionRecord takes from the rules."""
        case = Case(
            proposal=self.document,
            facts=self.facts,
            rules=self.rules,
            now_ms=self.document.received_at_ms,
            gate=NEWEST,
        )
        return judged_rules.of(case, self.verdict)


def judge(
    *,
    flow: Flow,
    agent: Agent,
    document: ProposalDocument,
    snapshot: SnapshotFacts | None,
    session_valid: bool = True,
    lifts: tuple[Lift, ...] = (),
    explain: str = "",
    read: AlreadyRead = gate_facts.NOTHING_READ,
    counts_other_flows: bool = False,
) -> Judged:
    """Judge `document` at the moment it was received. The caller holds the locks of flow and agent.

    `snapshot` is what its author was shown, and `lifts` the findings that a person lifts. Nothing is written.
    With `counts_other_flows`, tries at the same that were rejected in other flows count as tries in this one.
    """
    at = timestamps.from_ms(document.received_at_ms)
    followed = positions.find(flow, agent)
    rules, mismatches = gate_facts.follow(
        read.compared or gate_facts.compare_rules(agent=agent, kind_name=document.policy_kind), followed
    )
    decision = gate_facts.find_decision(flow=flow, rules=rules, decision_id=document.decision_id)
    if isinstance(decision, Mismatch):
        mismatches, decision = (*mismatches, decision), None
    claimed = gate_facts.list_claimed(flow=flow, rules=rules)
    facts = gate_facts.get_facts(
        flow=flow,
        agent=agent,
        rules=rules,
        params=document.params,
        conditions=document.conditions,
        snapshot=snapshot,
        session_valid=session_valid,
        lifts=lifts,
        at=at,
        read=replace(read, claimed=claimed, decision=decision),
    )
    mismatches = (*mismatches, *autonomy_levels.list_unlike(agent, facts.autonomy))
    facts = facts.model_copy(update=_of_workflow(flow, followed, rules, document))
    case = Case(proposal=document, facts=facts, rules=rules, now_ms=document.received_at_ms, gate=NEWEST)
    retry_key = ""
    if counts_other_flows:
        retry_key = _retry_key(case)
        case = _with_tries_elsewhere(case, retry_key, flow=flow, agent=agent, at=at)
    facts = cedar_facts.with_answers(case)
    rules_body = rules.to_bytes()
    bundle = Bundle(digest=canonical.digest(rules_body), body=rules_body, created_at=at)
    judgement = pipeline.Judgement(
        proposal=document,
        facts=facts,
        now_ms=document.received_at_ms,
        rules_digest=bundle.digest,
        gate_version=NEWEST,
    ).to_bytes()
    # Judged from the bytes that are stored, so that a replay sees exactly what the gate saw.
    answer = pipeline.judge_bytes(judgement, rules_body)
    verdict = VerdictDocument.from_bytes(answer)
    costs_attempt = verdict.attempts_left < facts.flow.attempts_allowed - facts.flow.attempts_used
    body = document.to_bytes()
    redact = () if rules.kind is None else rules.kind.redact
    explained = redaction.redact(explain, redact, source=RedactedIn.EXPLANATION)
    proposal = Proposal(
        proposal_id=document.proposal_id,
        flow=flow,
        agent=agent,
        author=document.author,
        policy_kind=document.policy_kind,
        policy_version="" if rules.kind is None else rules.kind.version,
        body=body,
        digest=canonical.digest(body),
        explain=explained.value,
        received_at=at,
        valid_until=timestamps.from_ms(document.valid_until_ms),
        retry_key=(retry_key or _retry_key(case)) if costs_attempt else "",
    )
    row = Verdict(
        proposal=proposal,
        decision=verdict.decision,
        body=answer,
        input=judgement,
        input_digest=canonical.digest(judgement),
        bundle=bundle,
        gate_version=verdict.gate_version,
        judged_at=at,
    )
    return Judged(
        document=document,
        proposal=proposal,
        row=row,
        verdict=verdict,
        rules=rules,
        facts=facts,
        mismatches=mismatches,
        followed=followed if isinstance(followed, Standing) else None,
        redacted=explained.times,
        claimed=claimed,
    )


def _of_workflow(
    flow: Flow, followed: Standing | Mismatch | None, rules: PolicyBundle, document: ProposalDocument
) -> dict[str, Any]:
    """The facts of a flow that follows a workflow: its position, and its steps where they are read."""
    if not isinstance(followed, Standing):
        return {}
    if rules.kind is None or not kind_reads.reads_steps(rules.kind, document.conditions):
        return {"workflow": followed.fold}
    return {"workflow": followed.fold, "steps": step_history.of_flow(flow, followed.document)}


def _with_tries_elsewhere(case: Case, retry_key: str, *, flow: Flow, agent: Agent, at: datetime) -> Case:
    """Count what was rejected in other flows as tries in this one."""
    elsewhere = gate_facts.count_rejected(agent=agent, rules=case.rules, retry_key=retry_key, at=at)
    flow.attempts_used = min(flow.attempts_used + elsewhere, flow.attempts_allowed)
    tried = case.facts.flow.model_copy(update={"attempts_used": flow.attempts_used})
    return replace(case, facts=case.facts.model_copy(update={"flow": tried}))


def _retry_key(case: Case) -> str:
    """What makes tries the same: the kind, and what it takes its subjects to be."""
    subjects = list(judged_rules.subjects_of(case).values())
    return canonical.digest(canonical.encode([case.proposal.policy_kind, subjects]))


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
    stored = ProposalDocument.from_bytes(bytes(proposal.body))
    now_ms = timestamps.to_ms(at)
    asked = stored.model_copy(update={"received_at_ms": now_ms, "valid_until_ms": now_ms + stored.window_ms})
    rules = gate_facts.get_rules(agent=agent, kind_name=asked.policy_kind)
    judged_by, stood, steps = _workflow_then(proposal.verdict)
    rules = rules.model_copy(update={"workflow": judged_by})
    decision = gate_facts.find_decision(flow=flow, rules=rules, decision_id=asked.decision_id)
    known = gate_facts.get_facts_of_now(
        flow=flow,
        agent=agent,
        rules=rules,
        params=asked.params,
        at=at,
        decision=None if isinstance(decision, Mismatch) else decision,
    )
    status = AgentStatus.ACTIVE if known.agent.status is AgentStatus.PASSIVE else known.agent.status
    nothing = {"tokens_used": 0, "cost_used_micros": 0, "tool_calls_used": 0, "ends_at_ms": None}
    known = known.model_copy(
        update={
            "workflow": stood,
            "steps": steps,
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
    case = Case(proposal=asked, facts=known, rules=rules, now_ms=now_ms, gate=NEWEST)
    known = cedar_facts.with_answers(case)
    judgement = pipeline.Judgement(
        proposal=asked,
        facts=known,
        now_ms=now_ms,
        rules_digest=canonical.digest(rules.to_bytes()),
        gate_version=NEWEST,
    )
    return Rejudgement(judgement=judgement, rules=rules, verdict=pipeline.judge(asked, known, rules, now_ms))


def _workflow_then(
    verdict: Verdict,
) -> tuple[WorkflowDocument | None, WorkflowFold | None, StepHistory | None]:
    """The workflow that a proposal was judged by, where its flow stood, and the steps it read.

    Bytes that can no longer be read say nothing of it. A person is asked all the same.
    """
    try:
        rules = PolicyBundle.from_bytes(bytes(verdict.bundle.body))
        asked = pipeline.Judgement.from_bytes(bytes(verdict.input))
    except ValueError:
        return None, None, None
    return rules.workflow, asked.facts.workflow, asked.facts.steps


def store(judged: Judged, journal: Journal, *, signed: Signed | None = None) -> None:
    """Write proposal, bundle and verdict, and add the entries that record them, and the mismatches.

    `signed` is what an agent that has to sign its proposals has signed.
    An agent's row with another level of autonomy than the ledger records is put back: calls are chosen by it.
    """
    proposal, row = judged.proposal, judged.row
    statements.insert([proposal])
    statements.insert([row.bundle], on_conflict=OnConflict.IGNORE)
    statements.insert([row])
    kept = {"params": canonical.encode(judged.document.params)}
    if proposal.explain:
        kept["explain"] = canonical.encode(proposal.explain)
    if signed is not None:
        kept["signature"] = signed.body
    commitments = ledger.commit_payloads(
        tenant=proposal.flow.tenant, data_class=PayloadClass.PARAMETERS, bodies=list(kept.values())
    )
    commitment_of = dict(zip(kept, commitments, strict=True))
    journal.rules[str(proposal.proposal_id)] = judged.for_record
    journal.add(
        events.ProposalSubmitted(
            proposal_id=str(proposal.proposal_id),
            author=proposal.author,
            policy_kind=proposal.policy_kind,
            policy_version=proposal.policy_version,
            proposal_digest=proposal.digest,
            params_commitment=commitment_of["params"],
            context_ref=judged.document.context_ref or "",
            valid_until=proposal.valid_until,
            explain_commitment=commitment_of.get("explain"),
            signed_by=None if signed is None else signed.key_id,
            signature_commitment=commitment_of.get("signature"),
        )
    )
    redacting.note(journal, judged.redacted, source=RedactedIn.EXPLANATION, about=str(proposal.proposal_id))
    journal.add(
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
            obligations=judged.obligations,
            allowed_by=judged.allowed_by,
        ),
        *(mismatch.event() for mismatch in judged.mismatches),
    )
    if autonomy_levels.list_unlike(proposal.agent, judged.facts.autonomy):
        autonomy.restore(proposal.agent)
