"""What an agent said of its own confidence, beside what came of it. Reads only.

Outcomes and verdicts count as the ledger recorded them, since nobody should trust an agent by forged rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, queries
from audit.events import Kind
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Decision, FlowState, Impact, OutcomeStatus
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.kernel import calibration
from runtime.kernel.calibration import Pair
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.kernel.rules import language, safety
from runtime.kernel.rules.language import ExpressionError
from runtime.registry.models import Agent

# The newest ones: what a person would have been asked about years ago says little of the agent of today.
MOST: Final = 1_000
DAYS: Final = 90
_OPEN: Final[Mapping[str, Any]] = {}
# What people choose who let a proposal through: as it is, or changed (`escalations.contracts.Action`).
_AS_PROPOSED: Final = "OVERRIDE"
_CHANGED: Final = "MODIFY"


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
    # When each of the proposals behind the pairs came, newest first.
    came_at: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Alike:
    """What proposals have in common that one map may be made of.

    They were judged by the kind of `kind_digest`, under a manifest with this `model_profile`, at one impact.
    """

    impact: Impact
    kind_digest: str
    model_profile: str | None


def of_agent(*, agent: Agent, kind: str = "", alike: Alike | None = None) -> Pairs:
    """The pairs of an agent's newest proposals of a kind (without one: of all) in the last DAYS days.

    With `alike`, only of those that have it in common; of the others nothing is counted.

    A proposal that the gate rejected came to nothing, so it is no pair. Good is what succeeded as expected
    and was not changed or stopped by a person, or what the kind that it was judged by says (`good_when`).
    """
    if "\x00" in kind:
        return Pairs((), unsettled=0, unstated=0, unlike=0, is_cut=False)  # PostgreSQL cannot compare it
    since = clock.now() - timedelta(days=DAYS)
    rows = Proposal.objects.filter(agent=agent, received_at__gte=since, flow__erased_at__isnull=True)
    if kind:
        rows = rows.filter(policy_kind=kind)
    read = list(
        rows.select_related("flow", "agent", "verdict__bundle", "intent").order_by(
            "-received_at", "-proposal_id"
        )[:MOST]
    )
    pairs, unsettled, unstated, unlike = list[Pair](), 0, 0, 0
    came_at: list[datetime] = []
    kinds = _Kinds()
    for end in list_ends(tenant=agent.tenant, rows=read):
        if not end.is_recorded:
            unlike += 1
            continue
        if alike is not None and kinds.alike(end.row) != alike:
            continue
        if end.confidence is None:
            unstated += 1
        elif end.good is None:
            unsettled += 1
        else:
            pairs.append(Pair(calibration.millionths(end.confidence), end.good))
            came_at.append(end.row.received_at)
    is_cut = len(read) == MOST
    return Pairs(tuple(pairs), unsettled, unstated, unlike, is_cut=is_cut, came_at=tuple(came_at))


@dataclass(frozen=True, slots=True)
class Ended:
    """A proposal of an agent that the gate did not reject, with what it stated and whether it went well.

    `good` is None where that is not known. Where the verdict `is_recorded` otherwise, nothing else is said.
    """

    row: Proposal
    is_recorded: bool
    confidence: float | None = None
    good: bool | None = None


def list_ends(*, tenant: str, rows: Sequence[Proposal]) -> Iterator[Ended]:
    """What became of the agents' own proposals among these, newest first; of a flow all later ones are there.

    Each row has its flow, agent, verdict with bundle, and intent.
    """
    recorded = _recorded(tenant, rows)
    kinds, newer = _Kinds(), dict[UUID, Proposal]()
    for row in rows:
        after = newer.get(row.flow_id)
        newer[row.flow_id] = row
        if row.author != actors.agent(row.agent.agent_id) or row.verdict.decision == Decision.REJECT:
            continue
        if recorded.flow.compare_verdict(row.verdict) is not None:
            yield Ended(row, is_recorded=False)
            continue
        confidence = canonical.decode(bytes(row.verdict.input))["proposal"]["confidence"]
        end = _end_of(row, after, recorded)
        judged_by = kinds.of(row)
        good = None if end is None or judged_by is None else _is_good(judged_by, row, end)
        yield Ended(row, is_recorded=True, confidence=confidence, good=good)


@dataclass(frozen=True, slots=True)
class _End:
    """How it ended: what a person chose, or nothing; the status of what was executed, or nothing."""

    decision: str
    status: str
    deviations: int


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


def _end_of(row: Proposal, after: Proposal | None, recorded: _Recorded) -> _End | None:
    """What became of a proposal; None where that is not known. `after` was proposed next in its flow."""
    flow, decision = row.flow, ""
    if after is not None and actors.is_user(after.author):
        # What a person let through, changed or not, is what was executed.
        row, decision = after, recorded.decided.get(str(after.pk), _CHANGED)
    elif row.verdict.decision == Decision.ESCALATE:
        is_aborted = flow.state == FlowState.ABORTED and flow.reason == Reason.ABORTED_BY_PERSON
        return _End("ABORT", "", 0) if is_aborted and after is None else None
    intent = getattr(row, "intent", None)
    outcome = recorded.outcomes.get("" if intent is None else str(intent.pk), _OPEN)
    if outcome:
        return _End(decision, str(outcome["status"]), int(outcome.get("deviations", 0)))
    # That a person changed it is known before the end.
    return _End(decision, "", 0) if decision == _CHANGED else None


def _is_good(kind: KindDocument, row: Proposal, end: _End) -> bool | None:
    """Whether the end speaks for the proposal; None where the kind's own answer cannot be worked out."""
    if kind.good_when is None:
        succeeded = end.status == OutcomeStatus.SUCCEEDED and not end.deviations
        return succeeded and end.decision in ("", _AS_PROPOSED)
    if safety.why_unsafe(kind):
        return None
    values = {
        "params": canonical.decode(bytes(row.verdict.input))["proposal"]["params"],
        "result": {"status": end.status, "deviations": end.deviations},
        "decision": end.decision,
    }
    try:
        return language.require(kind.good_when, language.Names(values))
    except ExpressionError:
        return None


class _Kinds:
    """The kinds that proposals were judged by; many were judged by the same rules, which are read once."""

    def __init__(self) -> None:
        self._by_digest: dict[str, tuple[KindDocument | None, str, str | None]] = {}

    def of(self, row: Proposal) -> KindDocument | None:
        """The kind of a proposal; None where there was none."""
        return self._read(row)[0]

    def alike(self, row: Proposal) -> Alike:
        """What a proposal has in common with others; its impact is the one that its verdict names."""
        impact = canonical.decode(bytes(row.verdict.body))["impact"]
        _, kind_digest, model_profile = self._read(row)
        return Alike(Impact(impact), kind_digest, model_profile)

    def _read(self, row: Proposal) -> tuple[KindDocument | None, str, str | None]:
        digest = row.verdict.bundle_id
        if digest not in self._by_digest:
            rules = PolicyBundle.from_bytes(bytes(row.verdict.bundle.body))
            self._by_digest[digest] = (
                rules.kind,
                "" if rules.kind is None else rules.kind.digest,
                None if rules.manifest is None else rules.manifest.model_profile,
            )
        return self._by_digest[digest]
