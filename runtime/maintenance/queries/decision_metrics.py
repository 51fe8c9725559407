"""What is recorded of decisions, gathered for the metrics. Reads only, and no more than MOST proposals.

Verdicts and outcomes count as the ledger recorded them. What differs is left out, and counted as such.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, queries
from audit.events import Kind
from runtime.advice.models import Consultation, RuleOutput
from runtime.contracts.guard import GuardRunState
from runtime.contracts.ruleset import RuleOutputDocument
from runtime.contracts.states import Decision, OutcomeStatus
from runtime.core import clock
from runtime.flows.models import Flow, Intent, Proposal
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.guards.models import GuardRun
from runtime.kernel import calibration, decision_metrics
from runtime.kernel.decision_metrics import FlowFacts, Metric, OutcomeFacts, ProposalFacts, RuleFacts
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.findings import CheckName
from runtime.proposals.queries import calibration_pairs
from runtime.proposals.queries.calibration_pairs import Ended
from runtime.registry.models import Agent
from runtime.resources.models import ComputeBudget, UsageReport

MOST: Final = 1_000
DAYS: Final = 30
MOST_DAYS: Final = 366
_SAFETY: Final = frozenset({CheckName.INVARIANTS, CheckName.RED_LINES})


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The metrics of the newest proposals in a window, and what they do not cover.

    `unlike` proposals have a verdict that differs from the ledger. `is_complete`: nothing in the window was
    left out since there was too much.
    """

    agent_id: str
    days: int
    proposals: int
    flows: int
    metrics: tuple[Metric, ...]
    unlike: int
    is_complete: bool


def measure(*, tenant: str, agent: Agent | None, days: int = DAYS) -> Measured:
    """The metrics of an agent, or of all, over the newest proposals of the last `days`, at most MOST."""
    since = clock.now() - timedelta(days=days)
    rows = Proposal.objects.filter(flow__tenant=tenant, received_at__gte=since, flow__erased_at__isnull=True)
    if agent is not None:
        rows = rows.filter(agent=agent)
    related = rows.select_related("flow", "agent", "verdict__bundle", "intent__outcome")
    read = list(related.order_by("-received_at", "-proposal_id")[:MOST])
    flows = {row.flow_id: row.flow for row in read}
    entries = _entries(tenant, flows)
    own = [row for row in read if row.author == actors.agent(row.agent.agent_id)]
    trusted = [row for row in own if entries.verdicts.compare_verdict(row.verdict) is None]
    ends = {end.row.pk: end for end in calibration_pairs.list_ends(tenant=tenant, rows=read)}
    return Measured(
        agent_id="" if agent is None else agent.agent_id,
        days=days,
        proposals=len(trusted),
        flows=len(flows),
        metrics=decision_metrics.measure(
            proposals=list(_proposals(trusted, ends)),
            flows=list(_flows(flows, read)),
            outcomes=list(_outcomes(read, entries.outcomes)),
            rules=list(_rules(flows, entries.rule_outputs)),
        ),
        unlike=len(own) - len(trusted),
        is_complete=len(read) < MOST,
    )


@dataclass(frozen=True)
class _Entries:
    verdicts: RecordedFlow
    outcomes: Mapping[str, Mapping[str, Any]]
    rule_outputs: Mapping[str, str]


def _entries(tenant: str, flows: Mapping[UUID, Flow]) -> _Entries:
    verdicts: dict[str, Mapping[str, Any]] = {}
    outcomes: dict[str, Mapping[str, Any]] = {}
    outputs: dict[str, str] = {}
    for kind, said in queries.list_payloads_of_streams(
        tenant=tenant,
        streams={str(dfid) for dfid in flows},
        kinds=(Kind.VERDICT_GIVEN, Kind.OUTCOME_RECORDED, Kind.RULES_EVALUATED),
    ):
        # The first entry about a thing counts, as everywhere.
        if kind is Kind.VERDICT_GIVEN:
            verdicts.setdefault(str(said.get("proposal_id")), said)
        elif kind is Kind.OUTCOME_RECORDED:
            outcomes.setdefault(str(said.get("intent_id")), said)
        else:
            outputs.setdefault(str(said.get("rule_output_id")), str(said.get("output_digest")))
    return _Entries(RecordedFlow(verdicts=verdicts), outcomes, outputs)


def _proposals(rows: Sequence[Proposal], ends: Mapping[UUID, Ended]) -> Iterator[ProposalFacts]:
    """Rows whose verdict is what was recorded."""
    consulted = _consulted(rows)
    for row in rows:
        end = ends.get(row.pk)
        asked = canonical.decode(bytes(row.verdict.input))["proposal"]
        stated = asked["confidence"]
        findings = canonical.decode(bytes(row.verdict.body))["findings"]
        safety = [finding["outcome"] != "FAIL" for finding in findings if finding["check"] in _SAFETY]
        yield ProposalFacts(
            is_rejected=row.verdict.decision == Decision.REJECT,
            asked_person=row.verdict.decision == Decision.ESCALATE,
            stated=None if stated is None else calibration.millionths(stated),
            good=None if end is None else end.good,
            has_trace=asked["context_ref"] is not None and row.flow.steps_reported > 0,
            was_consulted=row.pk in consulted,
            is_safe=all(safety) if safety else None,
            is_equal=_is_equal(row),
        )


def _consulted(rows: Sequence[Proposal]) -> frozenset[UUID]:
    """Proposals that a soft guard has judged, or that came after the answer of a consulted agent."""
    looked = GuardRun.objects.filter(
        proposal__in=[row.pk for row in rows], state__in=(GuardRunState.CLEAR, GuardRunState.FLAGGED)
    )
    answers = Consultation.objects.filter(flow__in={row.flow_id for row in rows}, answer__isnull=False)
    ended = answers.order_by("-ended_at").values_list("flow_id", "ended_at")
    # The earliest of each flow: it comes last.
    answered = {dfid: at for dfid, at in ended if at is not None}
    advised = (row.pk for row in rows if row.flow_id in answered and answered[row.flow_id] <= row.received_at)
    return frozenset((*looked.values_list("proposal_id", flat=True), *advised))


def _is_equal(row: Proposal) -> bool:
    verdict = row.verdict
    try:
        again = pipeline.judge_bytes(bytes(verdict.input), bytes(verdict.bundle.body))
    except ValueError:
        return False
    return again == bytes(verdict.body)


def _flows(flows: Mapping[UUID, Flow], read: Iterable[Proposal]) -> Iterator[FlowFacts]:
    proposals: dict[UUID, list[Proposal]] = defaultdict(list)
    for row in read:
        proposals[row.flow_id].insert(0, row)
    budgets = {row.flow_id: row for row in ComputeBudget.objects.filter(flow__in=flows)}
    intents = Intent.objects.filter(flow__in=flows).order_by("created_at")
    first_intents: dict[UUID, datetime] = {}
    for dfid, created_at in intents.values_list("flow_id", "created_at"):
        first_intents.setdefault(dfid, created_at)
    executed = set(intents.filter(outcome__isnull=False, attempts__gt=0).values_list("flow_id", flat=True))
    reported = set(UsageReport.objects.filter(flow__in=flows).values_list("flow_id", flat=True))
    for dfid, flow in flows.items():
        ordered = proposals[dfid]
        let_through = first_intents.get(dfid)
        rejected, success = _again(ordered)
        yield FlowFacts(
            to_intent_ms=None if let_through is None else _ms(ordered[0].received_at, let_through),
            was_rejected=rejected is not None,
            to_success_ms=None if rejected is None or success is None else _ms(rejected, success),
            kept_budget=_kept(flow, budgets.get(dfid)),
            has_usage=dfid in reported if dfid in executed else None,
        )


def _again(ordered: Iterable[Proposal]) -> tuple[datetime | None, datetime | None]:
    """When the agent was rejected first, and when a later proposal of its own was not."""
    rejected: datetime | None = None
    for row in ordered:
        if row.author != actors.agent(row.agent.agent_id):
            continue
        if row.verdict.decision != Decision.REJECT:
            if rejected is not None:
                return rejected, row.received_at
        elif rejected is None:
            rejected = row.received_at
    return rejected, None


def _kept(flow: Flow, budget: ComputeBudget | None) -> bool | None:
    if budget is None or flow.ended_at is None:
        return None
    bounds = [
        used <= cap
        for used, cap in (
            (budget.tokens_used, budget.tokens_cap),
            (budget.cost_used_micros, budget.cost_cap_micros),
            (budget.tool_calls_used, budget.tool_calls_cap),
        )
        if cap is not None
    ]
    if budget.ends_at is not None:
        bounds.append(flow.ended_at <= budget.ends_at)
    return all(bounds) if bounds else None


def _outcomes(read: Iterable[Proposal], recorded: Mapping[str, Mapping[str, Any]]) -> Iterator[OutcomeFacts]:
    """What was executed, with its time since the proposal that was let through."""
    for row in read:
        intent = getattr(row, "intent", None)
        outcome = None if intent is None else getattr(intent, "outcome", None)
        said = recorded.get("" if intent is None else str(intent.pk))
        if outcome is None or said is None:
            continue
        yield OutcomeFacts(
            succeeded=said["status"] == OutcomeStatus.SUCCEEDED and not said.get("deviations", 0),
            after_ms=_ms(row.received_at, outcome.recorded_at),
        )


def _rules(flows: Mapping[UUID, Flow], recorded: Mapping[str, str]) -> Iterator[RuleFacts]:
    rows = RuleOutput.objects.filter(flow__in=flows).order_by("-rule_output_id")
    for pk, body in rows.values_list("pk", "body")[:MOST]:
        if recorded.get(str(pk)) != canonical.digest(bytes(body)):
            continue
        output = RuleOutputDocument.from_bytes(bytes(body))
        yield RuleFacts(decided=len(output.decided), declared=len(output.decided) + len(output.residuals))


def _ms(since: datetime, until: datetime) -> int:
    return max(0, round((until - since).total_seconds() * 1000))
