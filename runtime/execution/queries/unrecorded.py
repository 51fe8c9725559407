"""Calls that may have been made, or have taken effect, though no row shows it.

In a restored database what ran in the lost time is missing, at every step of what was live. And a version
before `sent_at` was noted took a 5xx or a redirect for a refusal, which may have come after the effect.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from audit import statements
from runtime.contracts.receipt import FailureClass
from runtime.contracts.states import AttemptState, FlowState, IntentState, Purpose
from runtime.epochs.models import Epoch
from runtime.flows.models import Attempt, Intent
from runtime.kernel import answers

_LEFT_OPEN: Final = tuple(
    status for status in range(300, 600) if answers.class_of(status) is FailureClass.UNKNOWN
)
# A target that declares what it refuses was asked since the first byte of each call is noted.
_TAKEN_AS_REFUSED = Q(
    state=AttemptState.FAILED, purpose=Purpose.CALL, sent_at__isnull=True, status_code__in=_LEFT_OPEN
)


def may_have_happened(*, intent: Intent, key: str, restored_at: datetime | None) -> bool:
    """Whether the next call of an intent, under this key, has to be called in doubt before it is made.

    `restored_at` is of the epoch that ended last since the intent was made (`get_restored_at`).
    """
    if intent.purpose != Purpose.CALL or (restored_at is None and not intent.attempts):
        return False
    calls = Attempt.objects.filter(intent=intent, target_key=key)
    # All that was live is in doubt since the restore, so that a RESUME without a call after it is newer.
    is_resumed = 0 < intent.attempts == intent.answered
    if restored_at is not None and not is_resumed and not calls.filter(started_at__gte=restored_at).exists():
        return True
    if not intent.attempts:
        return False
    refused = calls.filter(_TAKEN_AS_REFUSED, number__gt=intent.answered).order_by("-number")
    number = refused.values_list("number", flat=True).first()
    return number is not None and not calls.filter(state=AttemptState.UNKNOWN, number__gt=number).exists()


def get_restored_at(intent: Intent) -> datetime | None:
    """When the epoch was restored that ended last since an intent was made; None where none has."""
    return _RESTORED_AT.first(since=intent.created_at)


def last_restored(*, since: datetime) -> QuerySet[Epoch, datetime | None]:
    """The same for a query."""
    ended = Epoch.objects.filter(ended_at__gt=since).order_by("-number")
    return ended.values_list("restored_at", flat=True)[:1]


_RESTORED_AT: Final = statements.Read(last_restored)


def list_taken_as_refused(*, tenant: str, limit: int) -> list[UUID]:
    """Intents that people are asked about as if their last call had been refused, which is unknown."""
    last = Attempt.objects.filter(intent=OuterRef("intent"), number=OuterRef("intent__attempts"))
    calls = Attempt.objects.filter(_TAKEN_AS_REFUSED, intent=OuterRef("pk"), number__gt=OuterRef("answered"))
    rows = Intent.objects.filter(flow__tenant=tenant, flow__state=FlowState.ESCALATED)
    rows = rows.filter(Exists(calls.filter(target_key=Subquery(last.values("target_key")))))
    return list(rows.filter(state=IntentState.WITH_PERSON).values_list("pk", flat=True)[:limit])
