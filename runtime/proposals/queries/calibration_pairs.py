"""What an agent said of its own confidence, beside what came of it. Reads only.

Outcomes and verdicts count as the ledger recorded them, since nobody should trust an agent by forged rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, queries
from audit.events import Kind
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Decision, FlowState, OutcomeStatus
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.kernel import calibration
from runtime.kernel.calibration import Pair
from runtime.registry.models import Agent

# The newest ones: what a person would have been asked about years ago says little of the agent of today.
MOST: Final = 1_000
DAYS: Final = 90
_OPEN: Final[Mapping[str, Any]] = {}
# The action of a person who lets a proposal through as it is (`escalations.contracts.Action`).
_AS_PROPOSED: Final = "OVERRIDE"


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs, newest first, and what was left out.

    `unsettled` have no end yet, or none that says how it went; `unstated` gave no confidence; `unlike` are
    not what the ledger recorded. `is_cut`: there may be earlier ones within the window, which were not read.
    """

    pairs: tuple[Pair, ...]
    unsettled: int
    unstated: int
    unlike: int
    is_cut: bool


def of_agent(*, agent: Agent, kind: str = "") -> Pairs:
    """The pairs of an agent's newest proposals of a kind (without one: of all) in the last DAYS days.

    A proposal that the gate rejected came to nothing, so it is no pair. Good is what succeeded as expected
    and was not changed or stopped by a person.
    """
    since = clock.now() - timedelta(days=DAYS)
    rows = Proposal.objects.filter(agent=agent, received_at__gte=since, flow__erased_at__isnull=True)
    if kind:
        rows = rows.filter(policy_kind=kind)
    read = list(
        rows.select_related("flow", "verdict__bundle", "intent").order_by("-received_at", "-proposal_id")[
            :MOST
        ]
    )
    recorded = _recorded(agent.tenant, read)
    pairs, unsettled, unstated, unlike = list[Pair](), 0, 0, 0
    author, newer = actors.agent(agent.agent_id), dict[UUID, Proposal]()
    for row in read:
        after = newer.get(row.flow_id)
        newer[row.flow_id] = row
        if row.author != author or row.verdict.decision == Decision.REJECT:
            continue
        if recorded.flow.compare_verdict(row.verdict) is not None:
            unlike += 1
            continue
        confidence = canonical.decode(bytes(row.verdict.input))["proposal"]["confidence"]
        good = _became(row, after, recorded)
        if confidence is None:
            unstated += 1
        elif good is None:
            unsettled += 1
        else:
            pairs.append(Pair(calibration.millionths(confidence), good))
    return Pairs(tuple(pairs), unsettled, unstated, unlike, is_cut=len(read) == MOST)


@dataclass(frozen=True, slots=True)
class _Recorded:
    flow: RecordedFlow
    outcomes: Mapping[str, Mapping[str, Any]]
    # What a person chose, by the proposal that the decision made.
    decided: Mapping[str, str]


def _recorded(tenant: str, rows: Iterable[Proposal]) -> _Recorded:
    verdicts: dict[str, Mapping[str, Any]] = {}
    outcomes: dict[str, Mapping[str, Any]] = {}
    decided: dict[str, str] = {}
    entries = queries.list_payloads_of_streams(
        tenant=tenant,
        streams={str(row.flow_id) for row in rows},
        kinds=(Kind.VERDICT_GIVEN, Kind.OUTCOME_RECORDED, Kind.ESCALATION_DECIDED),
    )
    for kind, payload in entries:
        # The first entry about a proposal or an intent counts, as everywhere.
        if kind is Kind.VERDICT_GIVEN:
            verdicts.setdefault(str(payload.get("proposal_id")), payload)
        elif kind is Kind.OUTCOME_RECORDED:
            outcomes.setdefault(str(payload.get("intent_id")), payload)
        elif payload.get("proposal_id"):
            decided[str(payload["proposal_id"])] = str(payload.get("action"))
    return _Recorded(RecordedFlow(verdicts=verdicts), outcomes, decided)


def _became(row: Proposal, after: Proposal | None, recorded: _Recorded) -> bool | None:
    """Whether it went well; None where that is not known. `after` is what was proposed next in the flow."""
    flow = row.flow
    if after is not None and actors.is_user(after.author):
        # An override lets the agent's own proposal through: what came of that counts.
        if recorded.decided.get(str(after.pk)) != _AS_PROPOSED:
            return False
        row = after
    elif row.verdict.decision == Decision.ESCALATE:
        is_aborted = flow.state == FlowState.ABORTED and flow.reason == Reason.ABORTED_BY_PERSON
        return False if is_aborted and after is None else None
    intent = getattr(row, "intent", None)
    outcome = recorded.outcomes.get("" if intent is None else str(intent.pk), _OPEN)
    if not outcome:
        return None
    return outcome["status"] == OutcomeStatus.SUCCEEDED and not outcome.get("deviations")
