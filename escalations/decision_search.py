"""Decisions by person, action, subject, words and time, newest first, for auditors."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q, QuerySet

from escalations import contracts
from escalations.models import Decision, Escalation
from runtime.contracts import timestamps
from runtime.core.views import query_params

MOST_NAMES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """What is asked; empty fields ask nothing. `text` looks in the reasons that people wrote.

    `rule` is a reason code, or the id of a rule or limit, that the signed evidence shows as exceeded. Names
    are whole. `since` is included, `until` is not.
    """

    person: str = ""
    action: str = ""
    agent: str = ""
    kind: str = ""
    rule: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    solo: bool = False


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a decision in the list."""

    decided_at: datetime
    pk: str

    @classmethod
    def of(cls, row: Decision) -> "Cursor":
        """The place of a row."""
        return cls(decided_at=row.decided_at, pk=str(row.pk))

    @classmethod
    def read(cls, text: str) -> "Cursor | None":
        """The cursor that `str` wrote; None for any other text."""
        at, _, pk = text.partition("_")
        decided_at = query_params.moment(at)
        try:
            Decision._meta.pk.to_python(pk)
        except ValidationError:
            return None
        return None if decided_at is None else cls(decided_at=decided_at, pk=pk)

    def __str__(self) -> str:
        return f"{self.decided_at:%Y-%m-%dT%H:%M:%S.%fZ}_{self.pk}"


def list_decisions(
    *, tenant: str, wanted: DecisionFilter, before: Cursor | None, size: int
) -> Sequence[Decision]:
    """The newest decisions that match everything but `rule`, which is in their evidence.

    The escalation is asked for each decision in turn: joined, a database may sort all of them first.
    """
    about = {"agent_id__iexact": wanted.agent, "policy_kind__iexact": wanted.kind}
    asked = {name: value for name, value in about.items() if value}
    rows = shown_of(Escalation.objects.of(tenant).filter(**asked)).prefetch_related("approver", "escalation")
    if wanted.person:
        people = get_user_model().objects.filter(username__iexact=wanted.person)
        rows = rows.filter(approver__in=list(people.values_list("pk", flat=True)))
    exact = {
        "action": wanted.action,
        "justification__icontains": wanted.text,
        "decided_at__gte": wanted.since,
        "decided_at__lt": wanted.until,
        "solo": wanted.solo,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if before is not None:
        # The first condition alone is one that an index answers.
        rows = rows.filter(decided_at__lte=before.decided_at)
        rows = rows.exclude(decided_at=before.decided_at, pk__gte=before.pk)
    return list(rows.order_by("-decided_at", "-pk")[:size])


def list_of_escalation(*, tenant: str, escalation_id: UUID) -> Sequence[Decision]:
    """Every decision on one escalation that may be shown, in the order in which they were made."""
    rows = shown_of(Escalation.objects.of(tenant).filter(pk=escalation_id))
    return list(rows.select_related("approver", "escalation").order_by("decided_at", "pk"))


def shown_of(escalations: QuerySet[Escalation]) -> QuerySet[Decision]:
    """Decisions on these: of an open one, whoever still has to decide it sees no choice of another."""
    about = escalations.filter(pk=OuterRef("escalation_id"))
    closed = Exists(about.exclude(state=contracts.State.OPEN))
    return Decision.objects.filter(closed | Q(Exists(about), state=contracts.DecisionState.TAKEN_BACK))


def list_people() -> Sequence[str]:
    """Names for the filter: whoever has left has decided, too."""
    people = get_user_model().objects.order_by("username")
    return list(people.values_list("username", flat=True)[:MOST_NAMES])


def is_of_time(row: Decision, decided_at: str) -> bool:
    """Whether the column, by which the list is sorted, has the time of the signed statement."""
    return timestamps.iso(row.decided_at) == decided_at
