"""What pages show of decisions that two people make: never what the first of them chose, until the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from audit import canonical
from escalations import policy, presenters
from escalations.contracts import DecisionState, FirstEnd, State
from escalations.models import Escalation
from escalations.policy import EscalationContext, Person
from escalations.services import comparing
from escalations.services.comparing import RecordedEscalation
from escalations.services.two_people import FirstOfTwo
from runtime.core.views import labels
from runtime.core.views.labels import Badge

FIRST_MADE = "Your decision is signed. Nothing runs until a second person has chosen the same."
FIRST_DIFFERED = (
    "The first person chose differently, so your decision took that place. It waits for another person; "
    "nothing runs."
)
FIRST_OF_TWO = Badge("idle", "user", "First of two")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a decision of two people stands. `by` made the first one; empty while nobody has.

    `differed`: the newest replaced another person's, who chose differently.
    """

    by: str
    at: datetime | None
    is_mine: bool
    differed: bool


def words_of_first(first: FirstOfTwo) -> str:
    """What a person is told who has made the first of two decisions."""
    return FIRST_DIFFERED if first.differed else FIRST_MADE


def standing(
    escalation: Escalation, person: Person, situation: EscalationContext, known: RecordedEscalation
) -> Standing | None:
    """Where it stands; None where one person decides."""
    if not policy.is_for_two(situation):
        return None
    first = escalation.first_decision
    if first is None:
        return Standing(by="", at=None, is_mine=False, differed=False)
    return Standing(
        by=first.approver.get_username(),
        at=first.decided_at,
        is_mine=first.approver_id == person.user_id,
        differed=known.first_ends.get(first.sequence - 1) == FirstEnd.DIFFERED,
    )


@dataclass(frozen=True, slots=True)
class FirstShown:
    """A first decision once the escalation has ended; `badge` is None where it does not match the ledger."""

    by: str
    at: datetime
    state: str
    badge: Badge | None
    reason: str
    digest: str
    signature: str


def list_ended(escalation: Escalation, known: RecordedEscalation) -> Sequence[FirstShown]:
    """The first decisions of an escalation that is no longer open, in order."""
    if escalation.state == State.OPEN:
        return []
    found = []
    for row in escalation.all_decisions:
        if row.state not in (DecisionState.CONFIRMED, DecisionState.SUPERSEDED):
            continue
        is_whole = not comparing.compare_signed(known.firsts.get(row.sequence, {}), row)
        found.append(
            FirstShown(
                by=row.approver.get_username(),
                at=row.decided_at,
                state=row.state,
                badge=labels.badge(presenters.RESOLUTIONS, row.action) if is_whole else None,
                reason=row.justification if is_whole else "",
                digest=canonical.digest(bytes(row.statement)),
                signature=bytes(row.signature).hex(),
            )
        )
    return found
