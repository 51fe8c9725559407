"""One flow in the parts by which two are compared: what was asked, judged, decided and done, as texts.

Only what matches the ledger is compared; a part that does not is named instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from audit.events import Kind
from audit.presenters import LANES, Lane
from runtime.contracts import states
from runtime.contracts.verdict import VerdictDocument
from runtime.core.mismatches import Mismatch
from runtime.core.views import labels, times
from runtime.flows.models import Flow, Intent, Proposal
from runtime.flows.queries import flow_search, recorded_flow
from runtime.flows.views import duration_bar, timeline
from runtime.flows.views.timeline import TimelineLine
from runtime.kernel import effects
from runtime.kernel.gate import case_units
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.proposals.views import proposal_presenters
from runtime.registry.queries import people


class Phase(StrEnum):
    """The stages of a flow in their order, by which two timelines are laid side by side."""

    CONTEXT = "CONTEXT"
    PROPOSAL = "PROPOSAL"
    VERDICT = "VERDICT"
    ESCALATION = "ESCALATION"
    DECISION = "DECISION"
    EXECUTION = "EXECUTION"
    END = "END"


PHASES: Mapping[Phase, str] = {
    Phase.CONTEXT: "Context",
    Phase.PROPOSAL: "Proposal",
    Phase.VERDICT: "Verdict",
    Phase.ESCALATION: "Escalation",
    Phase.DECISION: "Decision",
    Phase.EXECUTION: "Execution",
    Phase.END: "End",
}
_OF_LANE: Mapping[Lane, Phase] = {
    Lane.CONTEXT: Phase.CONTEXT,
    Lane.REASONING: Phase.CONTEXT,
    Lane.PROPOSAL: Phase.PROPOSAL,
    Lane.VALIDATION: Phase.VERDICT,
    Lane.ESCALATION: Phase.ESCALATION,
    Lane.DECISION: Phase.DECISION,
    Lane.EXECUTION: Phase.EXECUTION,
}
_PHASE_OF_COLUMN = {LANES[lane].column: phase for lane, phase in _OF_LANE.items()}
_BESIDE = frozenset({Kind.RECORD_EMITTED, Kind.FACT_WRITTEN, Kind.FACT_NOT_WRITTEN, Kind.ROW_MISMATCHED})
NONE = "none"
# Text by name, in order.
Texts = Mapping[str, str]


@dataclass(kw_only=True, slots=True)
class Side:
    """One of two flows. `texts` are its parts by group, each with texts by name; `more`: not all entries.

    `facts` are those that the agent was given, by path; of units those that its kind names.
    """

    flow: Flow
    state: labels.Badge
    phases: Mapping[Phase, Sequence[TimelineLine]]
    more: bool
    texts: dict[str, Texts] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    untrusted: list[Mismatch] = field(default_factory=list)


def read(flow: Flow, at: datetime) -> Side:
    """The flow as it is `at`, in the caller's snapshot."""
    page = flow_search.list_entries(tenant=flow.tenant, stream=str(flow.dfid), after=0)
    names = people.names_of([row.actor for row in page.rows])
    lines = timeline.lines(page.rows, names=names, begun_at=flow.opened_at)
    side = Side(
        flow=flow,
        state=labels.badge(labels.FLOW_STATES, flow.state),
        phases=_phases(lines, has_ended=flow.state in states.ENDED),
        more=page.more,
    )
    known = recorded_flow.of_flow(tenant=flow.tenant, dfid=flow.dfid)
    proposals = flow_search.list_proposals(dfid=flow.dfid)
    intents = flow_search.list_intents(dfid=flow.dfid)
    for proposal in proposals:
        verdict = getattr(proposal, "verdict", None)
        compared = [
            known.compare_proposal(proposal),
            None if verdict is None else known.compare_verdict(verdict),
        ]
        side.untrusted += [mismatch for mismatch in compared if mismatch is not None]
    for intent in intents:
        side.untrusted += known.list_unlike(intent)
    decisions = [row.payload for row in page.rows if row.kind == Kind.ESCALATION_DECIDED]
    side.texts["Flow"] = _flow(flow, proposals)
    if not side.untrusted:
        if proposals:
            _read_proposal(side, proposals[-1])
        side.texts["Execution"] = _executed(intents)
    side.texts["Decision"] = _decided(decisions)
    side.texts["Time"] = _waits(lines, flow, at)
    return side


def _phases(lines: Sequence[TimelineLine], *, has_ended: bool) -> dict[Phase, list[TimelineLine]]:
    """The lines by their stage; the last move of an ended flow, and what follows it, is its end."""
    found: dict[Phase, list[TimelineLine]] = {phase: [] for phase in Phase}
    phase = Phase.CONTEXT
    moves = [place for place, line in enumerate(lines) if line.kind == Kind.FLOW_MOVED]
    end = moves[-1] if has_ended and moves else len(lines)
    for place, line in enumerate(lines):
        # What is written beside a stage belongs to it: records, and facts that a receipt brought.
        if place >= end:
            phase = Phase.END
        elif line.kind not in _BESIDE:
            phase = _PHASE_OF_COLUMN[line.lane.column]
        found[phase].append(line)
    return found


def _flow(flow: Flow, proposals: Sequence[Proposal]) -> Texts:
    return {
        "Agent": flow.agent.agent_id,
        "Policy kind": flow.policy_kind or NONE,
        "State": labels.badge(labels.FLOW_STATES, flow.state).word,
        "Reason": flow.reason or NONE,
        "Proposals": str(len(proposals)),
        "Attempts of the agent": f"{flow.attempts_used} of {flow.attempts_allowed}",
    }


def _read_proposal(side: Side, proposal: Proposal) -> None:
    """The newest proposal, what it was judged by, and what came out."""
    shown = proposal_presenters.shown(proposal, people.names_of([proposal.author]))
    side.texts["Proposal"] = {
        "Author": shown.author,
        "Version of the kind": shown.version,
        "Confidence": shown.confidence or NONE,
    }
    side.texts["Parameters"] = dict(shown.params)
    verdict = getattr(proposal, "verdict", None)
    if verdict is None:
        return
    said = VerdictDocument.from_bytes(bytes(verdict.body))
    rules = PolicyBundle.from_bytes(bytes(verdict.bundle.body))
    judged = Judgement.from_bytes(bytes(verdict.input))
    codes = sorted({finding.code for finding in said.reasons})
    side.texts["Verdict"] = {
        "Verdict": labels.badge(labels.VERDICTS, verdict.decision).word,
        "Reasons": ", ".join(codes) or NONE,
        "Impact": labels.badge(labels.IMPACTS, said.impact).word,
        "Effect": effects.visible(said.effect_text) or NONE,
        "Rules (hash)": verdict.bundle_id,
        "Manifest": rules.manifest.version if rules.manifest else NONE,
        "Gate": verdict.gate_version,
    }
    # Without a context, what the gate read.
    facts = judged.facts.world if judged.facts.snapshot is None else judged.facts.snapshot.facts
    side.facts, side.units = facts, case_units.of_case(rules.kind, judged).facts


def facts_of(side: Side, units: Mapping[str, str]) -> Texts:
    """The facts as texts, with these units: those of both flows, so that equal facts read the same."""
    return {
        effects.visible(path): effects.visible(labels.amount(side.facts[path], units.get(path, "")))
        for path in sorted(side.facts)
    }


def _decided(decisions: Sequence[Mapping[str, Any]]) -> Texts:
    if not decisions:
        return {"Decision": "no person decided"}
    last = decisions[-1]
    return {"Decision": str(last.get("action", NONE)), "Decisions": str(len(decisions))}


def _executed(intents: Sequence[Intent]) -> Texts:
    if not intents:
        return {"Outcome": "nothing was executed"}
    intent = intents[-1]
    outcome = getattr(intent, "outcome", None)
    return {
        "Outcome": labels.badge(labels.OUTCOMES, outcome.status).word if outcome else "not yet",
        "Error": (outcome.error_category if outcome else "") or NONE,
        "Attempts": str(sum(each.attempts for each in intents)),
        "Failed attempts": str(sum(each.failures for each in intents)),
        "Turned back because of": intent.cause or NONE,
        "Took": times.span(timedelta(milliseconds=outcome.duration_ms)) if outcome else NONE,
    }


def _waits(lines: Sequence[TimelineLine], flow: Flow, at: datetime) -> Texts:
    """How long it took, and how much of it was waiting for whom."""
    made = duration_bar.totals(duration_bar.stretches(lines, until=None, waiting_for=""))
    waits = {stretch.name: stretch.took_words for stretch in made if stretch.wait}
    until = flow.ended_at or at
    return {"In all" if flow.ended_at else "So far": times.span(until - flow.opened_at), **waits}
