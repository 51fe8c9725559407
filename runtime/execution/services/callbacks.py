"""Calls that a target takes on with 202 and whose result it reports later, or is asked for.

The address is made with the attempt, before the call, since a target may report before its 202 is recorded.
What it reports is in `callback_reports`; targets that are asked are in `result_asking`. While the target is
awaited the intent is AWAITING: no lease, no window, nothing that ends it but the result or the deadline.
"""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from audit import canonical, events
from runtime.contracts.receipt import CallResult, FailureClass, Receipt
from runtime.contracts.states import AttemptState, CallbackState, Direction, IntentState
from runtime.contracts.verdict import StepRequest
from runtime.core import transactions
from runtime.execution.models import TargetCallback
from runtime.flows.models import Attempt, Intent
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.queries.target_endpoints import TargetEndpoint

# The member of a call's body that holds the address.
MEMBER = "callback_url"
ACCEPTED = 202
_TOKEN_BYTES = 32


@dataclass(frozen=True)
class Awaited:
    """The target has taken the call on: its intent waits for the report."""


@dataclass(frozen=True, kw_only=True)
class Later:
    """How a target that takes a call on comes to its result: it reports to `url`, or is asked where it says.

    `url` is secret, and `locations`, the place that it has named, may be: neither is in any log.
    """

    url: str = field(default="", repr=False)
    locations: list[str] = field(default_factory=list, repr=False)

    @property
    def is_asked_for(self) -> bool:
        """Whether the target is asked; else it reports."""
        return not self.url


def is_asked(step: StepRequest, direction: Direction) -> bool:
    """Whether the target of this call may report the result later."""
    return step.callback_s is not None and direction is Direction.FORWARD


def can_be_later(step: StepRequest, direction: Direction, place: TargetEndpoint | None) -> bool:
    """Whether this call may be answered with 202, its result to come: reported, or asked for."""
    if direction is not Direction.FORWARD:
        return False
    return step.follow is not None or (is_asked(step, direction) and can_be_given(place))


def can_be_given(place: TargetEndpoint | None) -> bool:
    """Whether a report could come and be believed: an address to send it to, and a secret that signs it."""
    return bool(settings.DIR_PUBLIC_URL) and place is not None and bool(place.secret_env)


def open_later(journal: Journal, intent: Intent, step: StepRequest, *, number: int) -> Later:
    """Make the address for the result of attempt `number`; nobody but the target ever sees it.

    Of a target that is asked for the result nobody sees it at all.
    """
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    lasts_s = step.callback_s if step.follow is None else step.follow.deadline_s
    deadline_at = journal.at + timedelta(seconds=lasts_s or 0)
    row = TargetCallback.objects.create(
        tenant=intent.tenant,
        intent=intent,
        number=number,
        target=step.target,
        token_hash=hash_of(token),
        opened_at=journal.at,
        deadline_at=deadline_at,
    )
    journal.add(
        events.CallbackOpened(
            intent_id=str(intent.pk),
            number=number,
            target=row.target,
            token_hash=row.token_hash,
            deadline_at=deadline_at,
        )
    )
    if step.follow is not None:
        return Later()
    return Later(url=f"{settings.DIR_PUBLIC_URL}{reverse('callback', args=[token])}")


def hash_of(token: str) -> str:
    """What is recorded of a token, or of the path where a target is asked."""
    return canonical.digest(token.encode())


def await_report(
    journal: Journal, intent: Intent, attempt: Attempt, *, step: StepRequest, location: str
) -> Awaited:
    """The 202 of a claim: the intent waits without a lease. The caller holds the locks and the claim.

    `location` is the path where the target is asked for the result; empty where it reports.
    """
    claimed = Intent.objects.filter(
        pk=intent.pk, state=IntentState.CLAIMED, lease_owner=intent.lease_owner, attempts=attempt.number
    )
    waiting = {"state": IntentState.AWAITING, "lease_owner": "", "lease_until": None}
    started = Attempt.objects.filter(pk=attempt.pk, state=AttemptState.STARTED)
    changed = claimed.update(**waiting), started.update(state=AttemptState.AWAITING)
    if changed != (1, 1):
        raise transactions.ConcurrentUpdateError
    if step.follow is not None:
        first_at = journal.at + timedelta(seconds=step.follow.every_s)
        opened = TargetCallback.objects.filter(intent=intent.pk, number=attempt.number)
        placed = opened.filter(state=CallbackState.OPEN)
        if placed.update(location=location, next_ask_at=first_at) != 1:
            raise transactions.ConcurrentUpdateError
    journal.add(
        events.CallbackAwaited(
            intent_id=str(intent.pk),
            number=attempt.number,
            location_hash=hash_of(location) if location else None,
        )
    )
    return Awaited()


def close(journal: Journal, intent: Intent, *, number: int, result: CallResult | None) -> None:
    """The call has ended by itself: nothing is reported later, unless nobody knows what it came to."""
    if result is not None and not _is_settled(result):
        return
    changed = TargetCallback.objects.filter(intent=intent.pk, number=number, state=CallbackState.OPEN).update(
        state=CallbackState.CLOSED, ended_at=journal.at, next_ask_at=None
    )
    if changed:
        journal.add(events.CallbackClosed(intent_id=str(intent.pk), number=number))


def _is_settled(result: CallResult) -> bool:
    return isinstance(result, Receipt) or result.failure_class is not FailureClass.UNKNOWN


def list_overdue(*, at: datetime, limit: int) -> list[int]:
    """Callbacks that are open after their deadline, the oldest first."""
    rows = TargetCallback.objects.filter(state=CallbackState.OPEN, deadline_at__lt=at)
    return list(rows.order_by("deadline_at").values_list("pk", flat=True)[:limit])


def list_askable(*, tenant: str, at: datetime, limit: int) -> list[TargetCallback]:
    """Callbacks whose target is to be asked for the result now, those that wait longest first."""
    rows = TargetCallback.objects.of(tenant).filter(state=CallbackState.OPEN, next_ask_at__lte=at)
    return list(rows.order_by("next_ask_at", "pk")[:limit])


def get_open(intent_id: UUID) -> int | None:
    """The open callback of an intent's newest attempt; None where it has none."""
    rows = TargetCallback.objects.filter(intent=intent_id, state=CallbackState.OPEN)
    return rows.order_by("-number").values_list("pk", flat=True).first()
