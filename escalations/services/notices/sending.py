"""Sending what the outbox holds: claim with a lease, send outside every transaction, record.

At least once: a sender that dies between sending and recording leaves its notice to the next one, which sends
it again with the same id. Before each try it is checked that the notice is still wanted.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from escalations import incident_message, notice_message, queries, recorded_tasks, task_message
from escalations.contracts import NoticeState, Occasion, State
from escalations.models import Escalation, Notice
from escalations.services.notices import outbox, sealing
from runtime.contracts.incident import IncidentState
from runtime.contracts.states import TaskState
from runtime.core import clock, transactions
from runtime.execution.models import HumanTask
from runtime.execution.services import notice_delivery, undo_windows
from runtime.execution.services.notice_delivery import OutgoingNotice
from runtime.incidents.models import Incident
from runtime.incidents.queries import incident_detail
from runtime.kernel import backoff

BATCH: Final = 50
# Ten tries in about half an hour: longer than an outage of minutes, and not for ever.
MAX_TRIES: Final = 10
FIRST_S: Final = 5.0
LONGEST_S: Final = 600.0
LEASE_S: Final = 4 * notice_delivery.SEND_S
LONGEST_ERROR: Final = 200
_UNREADABLE: Final = (
    "the stored address cannot be read, since DIR_SECRET_KEY was changed: delete the route and add it again"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClaimedNotice:
    """A notice that this sender holds until its lease ends, as it was read, and where it goes."""

    row: Notice
    tries: int
    address: sealing.SealedAddress


def send_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Send what is due, one after the other; returns how many were taken by their receivers.

    Safe beside any number of other senders. What goes wrong with one notice is logged and costs no other.
    """
    due = Notice.objects.filter(state=NoticeState.PENDING, next_at__lte=clock.now()).order_by("next_at", "pk")
    sent = 0
    for notice_id in list(due.values_list("pk", flat=True)[:BATCH]):
        if is_stopping():
            break
        try:
            sent += send(notice_id)
        except transactions.BusyError:
            log.info("notice %s is contended; it waits for the next round", notice_id)
        except Exception:
            log.exception("notice %s could not be sent", notice_id)
    return sent


def send(notice_id: UUID) -> bool:
    """Send one notice if it is due and wanted; whether its receiver took it."""
    claimed = _claim(notice_id)
    if claimed is None:
        return False
    # Not in the claim: one that cannot be written uses up its tries, and is not tried for ever.
    message = _message(claimed.row)
    transactions.give_back_connection()
    why = notice_delivery.deliver(url=claimed.address.url, secret=claimed.address.secret, notice=message)
    if why is None:
        _record_sent(claimed.row.pk)
    else:
        _record_failure(claimed, why)
    return why is None


@transactions.retried
def _claim(notice_id: UUID) -> ClaimedNotice | None:
    at = clock.now()
    rows = Notice.objects.select_related(
        "route", "escalation__flow", "incident__lead", "task__intent__flow__agent", "task__intent__proposal"
    )
    row = rows.filter(pk=notice_id, state=NoticeState.PENDING, next_at__lte=at).first()
    if row is None:
        return None
    undo_ends = _undo_ends(row, at)
    if undo_ends is not None:
        _swap(row, next_at=undo_ends)
        return None
    if (unwanted := _unwanted(row)) is not None:
        _end(row.pk, NoticeState.DROPPED, at=at, error=unwanted)
        return None
    if row.tries >= MAX_TRIES:
        _end(row.pk, NoticeState.FAILED, at=at, error=row.error or "the process that sent it did not report")
        return None
    sendable_at = outbox.sendable_at(row.route, row.about, at=at)
    if sendable_at > at:
        _swap(row, next_at=sendable_at)
        return None
    try:
        address = sealing.unseal(bytes(row.route.address), route_id=row.route_id)
    except sealing.UnreadableError:
        _end(row.pk, NoticeState.FAILED, at=at, error=_UNREADABLE)
        return None
    if not _swap(row, tries=row.tries + 1, next_at=at + timedelta(seconds=LEASE_S)):
        return None
    return ClaimedNotice(row=row, tries=row.tries + 1, address=address)


def _undo_ends(row: Notice, at: datetime) -> datetime | None:
    """Until when the decision may still be taken back, and nobody knows whether the escalation has ended."""
    if row.escalation is None or row.escalation.state != State.RESOLVED:
        return None
    waiting = undo_windows.find_open(flow=row.escalation.flow, at=at)
    return None if waiting is None else waiting.not_before


def _unwanted(row: Notice) -> str | None:
    """Why a notice is no longer to be sent."""
    if row.route.deleted_at is not None:
        return "the route was deleted"
    if not row.route.enabled:
        return "the route was switched off"
    about, occasion = row.about, Occasion(row.occasion)
    if about is None:
        return None
    if occasion not in row.route.occasions:
        return "the route was changed and no longer covers it"
    if isinstance(about, Incident):
        return _unwanted_of_incident(row, about, occasion)
    if not outbox.concerns(row.route, about):
        return "the route was changed and no longer covers it"
    return _ended(about, occasion)


def _ended(about: Escalation | HumanTask, occasion: Occasion) -> str | None:
    """That what a notice tells of has ended, where that makes it unwanted."""
    if isinstance(about, HumanTask):
        return None if about.state == TaskState.OPEN else "the task ended before it was sent"
    if occasion is Occasion.CLOSED or about.state == State.OPEN:
        return None
    return "the escalation was closed before it was sent"


def _unwanted_of_incident(row: Notice, incident: Incident, occasion: Occasion) -> str | None:
    """The same for an incident, whose severity can change while the notice waits."""
    if not outbox.concerns(row.route, incident):
        return "the route is no longer told of incidents of this severity"
    if occasion is Occasion.INCIDENT_CLOSED:
        return None
    if incident.state == IncidentState.CLOSED:
        return "the incident was closed before it was sent"
    if occasion is Occasion.INCIDENT_RAISED:
        is_still = row.severity == incident.severity
        return None if is_still else "the severity was changed again before it was sent"
    # One that was raised in quiet hours may be announced in them, and its opening would be in the morning.
    raised = Notice.objects.filter(route=row.route_id, incident=incident, occasion=Occasion.INCIDENT_RAISED)
    is_known = raised.filter(state=NoticeState.SENT).exists()
    return "the route was told of it when its severity was raised" if is_known else None


def _message(row: Notice) -> OutgoingNotice:
    occasion, at = Occasion(row.occasion), row.queued_at
    match row.about:
        case None:
            made = notice_message.of_test(at=at)
        case Escalation() as escalation:
            shown = queries.get_evidence(tenant=row.route.tenant, escalations=[escalation])
            made = notice_message.of_escalation(
                row=escalation, evidence=shown.get(escalation.pk), occasion=occasion, at=at
            )
        case Incident() as incident:
            is_recorded = not incident_detail.compare(incident)
            made = incident_message.of_incident(
                row=incident, is_recorded=is_recorded, occasion=occasion, at=at
            )
        case HumanTask() as task:
            made = task_message.of_task(row=task, is_recorded=not recorded_tasks.compare(task), at=at)
    return OutgoingNotice(message_id=f"msg_{row.pk.hex}", title=made.title, text=made.text, body=made.body)


def _swap(row: Notice, **changes: object) -> bool:
    """Change a pending notice if nobody else has claimed it meanwhile."""
    rows = Notice.objects.filter(pk=row.pk, state=NoticeState.PENDING, tries=row.tries, next_at=row.next_at)
    return rows.update(**changes) == 1


@transactions.retried
def _record_sent(notice_id: UUID) -> None:
    """Whoever reports first: a sender that was slower than its lease has sent it all the same."""
    _end(notice_id, NoticeState.SENT, at=clock.now(), error="")


@transactions.retried
def _record_failure(claimed: ClaimedNotice, why: str) -> None:
    at, error = clock.now(), why[:LONGEST_ERROR]
    held = Notice.objects.filter(pk=claimed.row.pk, state=NoticeState.PENDING, tries=claimed.tries)
    if claimed.tries >= MAX_TRIES:
        log.warning("notice %s was given up after %d tries", claimed.row.pk, claimed.tries)
        held.update(state=NoticeState.FAILED, ended_at=at, error=error)
        return
    next_at = at + timedelta(seconds=_pause_s(claimed.tries))
    held.update(next_at=next_at, error=error)
    # One dead receiver must not hold up the others: the rest of its notices wait as long as this one.
    waiting = Notice.objects.filter(route=claimed.row.route_id, state=NoticeState.PENDING)
    waiting.filter(next_at__lt=next_at).update(next_at=next_at)


def _pause_s(tries: int) -> float:
    """Seconds until the next try, spread over their upper half."""
    full_s = backoff.doubled_s(times=tries, first_s=FIRST_S, longest_s=LONGEST_S)
    return full_s * random.uniform(0.5, 1.0)  # noqa: S311  # not a secret


def _end(notice_id: UUID, state: NoticeState, *, at: datetime, error: str) -> None:
    Notice.objects.filter(pk=notice_id, state=NoticeState.PENDING).update(
        state=state, ended_at=at, error=error
    )
