"""Calls in doubt: each ended without anybody knowing what it did, and nothing has settled it since.

The one definition: an attempt of a CALL that ended UNKNOWN and whose `effect` is empty. Only a receipt, a
probe or a person settles one (`runtime.execution.services.doubts`); the end of its intent or of its flow
does not.
"""

import heapq
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from audit.statements import Read, any_of, as_one
from runtime.contracts.states import LIVE_INTENTS, AttemptState, Direction, Effect, Purpose
from runtime.flows.models import Attempt, Flow, Intent, StepReceipt

IN_DOUBT = Q(state=AttemptState.UNKNOWN, purpose=Purpose.CALL, effect="")
# A receipt came after a person had stated that nothing happened.
CONTRADICTED = Q(contradicts__gt="")
# What became of a call is known: it took effect.
HAPPENED = Q(effect=Effect.HAPPENED) | Q(state=AttemptState.SUCCEEDED)
UNANSWERED = IN_DOUBT & Q(number__gt=F("intent__answered"))


def is_in_doubt(*, intent: Intent) -> bool:
    """Whether any call of it is in doubt, of whichever step."""
    return _IN_DOUBT.exists(intent=intent.pk)


def _in_doubt(*, intent: UUID) -> QuerySet[Attempt]:
    return any_of(Attempt.objects.filter(IN_DOUBT, intent=intent))


_IN_DOUBT: Final = Read(_in_doubt)


def is_call_in_doubt(*, intent: Intent, key: str) -> bool:
    """Whether a call of it under this key, so of one step in one direction, is in doubt."""
    return _CALL_IN_DOUBT.exists(intent=intent.pk, key=key)


def _call_in_doubt(*, intent: UUID, key: str) -> QuerySet[Attempt]:
    return any_of(Attempt.objects.filter(IN_DOUBT, intent=intent, target_key=key))


_CALL_IN_DOUBT: Final = Read(_call_in_doubt)


def get_newest(*, intent: Intent) -> Attempt | None:
    """The last of its calls that are in doubt, with the intent; None where none is."""
    rows = Attempt.objects.filter(IN_DOUBT, intent=intent).select_related("intent")
    return rows.order_by("-number").first()


def is_call_unanswered(*, intent: Intent, key: str) -> bool:
    """Whether a call under this key is in doubt that no person has answered for: RESUME is such an answer."""
    return _UNANSWERED.exists(intent=intent.pk, key=key)


def _unanswered(*, intent: UUID, key: str) -> QuerySet[Attempt]:
    return any_of(Attempt.objects.filter(UNANSWERED, intent=intent, target_key=key))


_UNANSWERED: Final = Read(_unanswered)


def is_done_unrecorded(*, intent: Intent, key: str) -> bool:
    """Whether a call under the key at hand is known to have happened: its receipt came too late.

    A person has yet to mark it done, so the walk is still before it. So is one whose receipt a person is to
    look at.
    """
    return _DONE.exists(intent=intent.pk, key=key)


def _done(*, intent: UUID, key: str) -> QuerySet[Attempt]:
    return any_of(Attempt.objects.filter(HAPPENED, intent=intent, target_key=key))


_DONE: Final = Read(_done)


def has_receipt(*, intent: Intent, key: str) -> bool:
    """Whether a call under the key at hand has its receipt in time, so that a person is asked about that."""
    return Attempt.objects.filter(intent=intent, target_key=key, state=AttemptState.SUCCEEDED).exists()


def is_replaced_known_done(*, intent: Intent, key: str) -> bool:
    """Whether a step is known to have happened in whose place the call under this key is to run.

    Its target had reported no such call, and then its receipt arrived. A person's RESUME answers for
    that as well.
    """
    return _REPLACED_DONE.exists(intent=intent.pk, answered=intent.answered, key=key)


def _replaced_done(*, intent: UUID, answered: int, key: str) -> QuerySet[Attempt]:
    unanswered = _known_done(intent, Direction.FORWARD).filter(number__gt=answered)
    return any_of(unanswered.exclude(target_key=key))


_REPLACED_DONE: Final = Read(_replaced_done)


def is_at_hand_known_done(*, intent: Intent) -> bool:
    """Whether the call that a person is asked about is known to have happened: its receipt came too late."""
    return _known_done(intent.pk, Direction(intent.direction)).exists()


def list_known_done(*, intent: Intent) -> frozenset[str]:
    """The ids of the forward steps that are known from late receipts alone to have happened.

    Without those of which a person had stated something else: that person, or another, is asked again.
    """
    rows = _known_done(intent.pk, Direction.FORWARD).exclude(CONTRADICTED)
    return frozenset(rows.values_list("step", flat=True))


def _known_done(intent: UUID, direction: Direction) -> QuerySet[Attempt]:
    recorded = StepReceipt.objects.filter(
        intent=OuterRef("intent"), step=OuterRef("step"), direction=OuterRef("direction")
    )
    done = Attempt.objects.filter(HAPPENED & ~Exists(recorded), intent=intent)
    return done.filter(direction=direction)


def needs_person(*, flow: Flow) -> bool:
    """Whether the flow may end by a person's word only: a call that its walk is at is in doubt.

    What a walk that turned back has left in doubt behind it was a person's decision.
    """
    return _NEEDS_PERSON.exists(dfid=flow.pk)


def needing_person(*, dfid: UUID) -> QuerySet[Attempt]:
    """For a query: one of the calls because of which a flow may end by a person's word only."""
    at_hand = Q(direction=F("intent__direction"))
    return any_of(Attempt.objects.filter(UNANSWERED & at_hand, intent__flow=dfid))


_NEEDS_PERSON: Final = Read(needing_person)


def is_flow_in_doubt(*, flow: Flow) -> bool:
    """Whether a call of any intent of the flow is in doubt, also of one that has ended."""
    return Attempt.objects.filter(IN_DOUBT, intent__flow=flow).exists()


def get_doubtful_since(*, intent: Intent, key: str) -> datetime | None:
    """When the last call in doubt under this key was begun; None where none is."""
    rows = Attempt.objects.filter(IN_DOUBT, intent=intent, target_key=key).order_by("-number")
    return rows.values_list("started_at", flat=True).first()


def list_calls(*, tenant: str) -> QuerySet[Attempt]:
    """All calls in doubt, oldest first, whether their flows have ended or not; with intent and flow."""
    rows = Attempt.objects.filter(IN_DOUBT, intent__tenant=tenant)
    return rows.select_related("intent__flow").order_by("started_at", "pk")


def list_left(*, tenant: str, most: int) -> Sequence[Attempt]:
    """Calls of which a person has yet to state what became of them, though nothing waits for the answer.

    Those that people left in doubt: their walk has ended, or turned back, and no escalation is open. And
    those whose receipt contradicts what a person has stated. Of a call that was made several times under its
    key, the last time. The `most` oldest.
    """
    ordered = (
        rows.select_related("intent__flow").order_by("started_at", "pk")[:most]
        for rows in (left_in_doubt(tenant), contradicted(tenant))
    )
    merged = heapq.merge(*ordered, key=lambda call: (call.started_at, call.pk))
    return list(islice(merged, most))


def get_left(*, intent: Intent, number: int) -> Attempt | None:
    """One of those calls, by its intent and its number; None where it is none of them."""
    for rows in (left_in_doubt(intent.tenant), contradicted(intent.tenant)):
        call = rows.select_related("intent__flow").filter(intent=intent, number=number).first()
        if call is not None:
            return call
    return None


def count_left(*, tenant: str) -> int:
    """How many such calls there are."""
    return count_left_in_doubt(tenant=tenant) + count_contradicted(tenant=tenant)


def count_left_in_doubt(*, tenant: str) -> int:
    """How many of them are in doubt."""
    return sum(_LEFT.first(tenant=tenant) or ())


def left_in_doubt(tenant: str) -> QuerySet[Attempt]:
    """Calls in doubt that people left so: nothing waits for the answer."""
    still_asked = Q(intent__state__in=LIVE_INTENTS, intent__direction=F("direction"))
    return _newest(Attempt.objects.filter(IN_DOUBT & ~still_asked, intent__tenant=tenant))


def contradicted(tenant: str) -> QuerySet[Attempt]:
    """Calls that took effect, of which a person had stated that they did not."""
    return _newest(Attempt.objects.filter(CONTRADICTED, intent__tenant=tenant))


def _newest(rows: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Of a call under one key, the last time.

    A call in doubt has no effect yet, and one that a receipt contradicts has: each has an index of its own,
    and a condition of both would have neither, so that every attempt there is would be read.
    """
    same = Attempt.objects.filter(
        intent=OuterRef("intent"), target_key=OuterRef("target_key"), number__gt=OuterRef("number")
    )
    return rows.exclude(Exists(same.filter(IN_DOUBT | CONTRADICTED)))


def _count_left(*, tenant: str) -> QuerySet[Attempt, tuple[int]]:
    return as_one(left_in_doubt(tenant), calls=Count("pk"))


def _count_contradicted(*, tenant: str) -> QuerySet[Attempt, tuple[int]]:
    return as_one(contradicted(tenant), calls=Count("pk"))


_LEFT: Final = Read(_count_left)
_CONTRADICTED: Final = Read(_count_contradicted)


def is_flow_contradicted(*, flow: Flow) -> bool:
    """Whether a call of the flow took effect of which a person had stated that it did not.

    No longer so once someone who has seen both has corrected the statement.
    """
    return _FLOW_CONTRADICTED.exists(dfid=flow.pk)


def contradicting(*, dfid: UUID) -> QuerySet[Attempt]:
    """For a query: one of those calls."""
    return any_of(Attempt.objects.filter(CONTRADICTED, intent__flow=dfid))


_FLOW_CONTRADICTED: Final = Read(contradicting)


def count_contradicted(*, tenant: str) -> int:
    """How many calls took effect of which a person had stated that they did not."""
    return sum(_CONTRADICTED.first(tenant=tenant) or ())


def in_doubt_since(at: datetime) -> Exists:
    """For a query over intents: whether a call of it has ended unknown since then, settled or not."""
    calls = Attempt.objects.filter(state=AttemptState.UNKNOWN, purpose=Purpose.CALL, finished_at__gte=at)
    return Exists(calls.filter(intent=OuterRef("pk")))
