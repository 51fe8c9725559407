"""How an agent's closed escalations ended, and what became of what people let run, by the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from audit import queries, statements
from audit.events import Kind
from escalations import contracts
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.states import OutcomeStatus

CLOSED = 100
NEWEST = 6
_KINDS = frozenset(
    {
        Kind.ESCALATION_DECIDED,
        Kind.ESCALATION_REOPENED,
        Kind.INTENT_CREATED,
        Kind.ATTEMPT_STARTED,
        Kind.INTENT_CANCELLED,
        Kind.INTENT_SUPERSEDED,
        Kind.OUTCOME_RECORDED,
    }
)


class Ending(StrEnum):
    """What became of what a person let run. UNCONFIRMED: it was called, and ended without a known result."""

    EXECUTED = "EXECUTED"
    FAILED = "FAILED"
    REVERSED = "REVERSED"
    UNCONFIRMED = "UNCONFIRMED"
    NEVER_RAN = "NEVER_RAN"
    NOT_ENDED = "NOT_ENDED"


_OF_STATUS: Mapping[str, Ending] = {
    OutcomeStatus.SUCCEEDED: Ending.EXECUTED,
    OutcomeStatus.FAILED: Ending.FAILED,
    OutcomeStatus.COMPENSATED: Ending.REVERSED,
}


@dataclass(frozen=True, slots=True)
class PastCase:
    """One closed escalation. `ending` is None where nothing was let run.

    `deviations` counts the predicted facts that came out differently.
    """

    row: Escalation
    resolution: str
    ending: Ending | None
    deviations: int


@dataclass(frozen=True, slots=True)
class History:
    """The closed escalations of an agent, newest first.

    `endings` counts intents, since several escalations can be about one; `stopped` counts by resolution the
    escalations after which nothing was let run; `deviating` the executed intents that deviated.
    """

    cases: Sequence[PastCase]
    endings: Mapping[Ending, int]
    stopped: Mapping[str, int]
    deviating: int


@dataclass(slots=True)
class Recorded:
    """What the entries of flows hold, by the ids of escalations, proposals and intents; in any order."""

    decided: dict[str, dict[str, Any]] = field(default_factory=dict)
    reopened: set[tuple[str, int]] = field(default_factory=set)
    intents: dict[str, str] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    taken_back: set[str] = field(default_factory=set)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, kind: Kind, payload: dict[str, Any]) -> None:
        """Take one entry."""
        match kind:
            case Kind.ESCALATION_DECIDED:
                # The last one: earlier ones were taken back, as it may be itself.
                known = self.decided.get(payload["escalation_id"], {})
                if payload.get("sequence", 1) > known.get("sequence", 0):
                    self.decided[payload["escalation_id"]] = payload
            case Kind.ESCALATION_REOPENED:
                self.reopened.add((payload["escalation_id"], payload["sequence"]))
            case Kind.INTENT_CREATED:
                self.intents.setdefault(payload["proposal_id"], payload["intent_id"])
            case Kind.ATTEMPT_STARTED:
                self.called.add(payload["intent_id"])
            case Kind.OUTCOME_RECORDED:
                self.outcomes.setdefault(payload["intent_id"], payload)
            case _:
                self.taken_back.add(payload["intent_id"])

    def decision_on(self, escalation_id: str) -> Mapping[str, Any]:
        """Return the decision that ended an escalation; an empty one where none did."""
        last = self.decided.get(escalation_id, {})
        return {} if (escalation_id, last.get("sequence", 1)) in self.reopened else last

    def ending(self, intent_id: str) -> Ending:
        """Return what became of an intent; of none, that nothing ran."""
        status = str(self.outcomes.get(intent_id, {}).get("status", ""))
        if status in _OF_STATUS:
            return _OF_STATUS[status]
        if not status and intent_id not in self.taken_back:
            return Ending.NOT_ENDED if intent_id else Ending.NEVER_RAN
        return Ending.UNCONFIRMED if intent_id in self.called else Ending.NEVER_RAN


def _closed(most: int, *, tenant: str, agent_id: str, besides: UUID) -> QuerySet[Escalation]:
    rows = Escalation.objects.of(tenant).filter(agent_id=agent_id).exclude(state=contracts.State.OPEN)
    return rows.exclude(escalation_id=besides).order_by("-opened_at")[:most]


_CLOSED: Final = statements.Read(_closed)


def lets_run(resolution: str) -> bool:
    """Return whether a decision lets something run, or states that it has run."""
    if resolution not in set(Action):
        return False
    spec = Action(resolution).spec
    return spec.submits_proposal or spec.runs_forward or spec.takes_receipt


def get_history(*, tenant: str, agent_id: str, besides: UUID) -> History:
    """Return the agent's newest closed escalations, at most `CLOSED`, in two queries."""
    closed = _CLOSED.rows(CLOSED, tenant=tenant, agent_id=agent_id, besides=besides)
    found = Recorded()
    streams = {str(row.flow_id) for row in closed}
    if streams:
        for kind, payload in queries.list_payloads_of_streams(tenant=tenant, streams=streams, kinds=_KINDS):
            found.take(kind, payload)
    cases, endings, stopped, deviating = [], dict[Ending, int](), dict[str, int](), 0
    seen: set[str] = set()
    for row in closed:
        decided = found.decision_on(str(row.pk))
        resolution = str(decided.get("action") or row.resolution or row.state)
        # An interrupted workflow that continues has run nothing yet.
        if row.family == contracts.Family.INTERRUPT or not lets_run(resolution):
            stopped[resolution] = stopped.get(resolution, 0) + 1
            cases.append(PastCase(row=row, resolution=resolution, ending=None, deviations=0))
            continue
        proposal_id = decided.get("proposal_id")
        intent_id = found.intents.get(proposal_id, "") if proposal_id else str(row.intent_id or "")
        ending = found.ending(intent_id)
        deviations = int(found.outcomes.get(intent_id, {}).get("deviations", 0))
        cases.append(PastCase(row=row, resolution=resolution, ending=ending, deviations=deviations))
        if not intent_id or intent_id not in seen:
            endings[ending] = endings.get(ending, 0) + 1
            deviating += ending is Ending.EXECUTED and deviations > 0
        seen.add(intent_id)
    return History(cases=cases, endings=endings, stopped=stopped, deviating=deviating)
