"""Which notices are written, when, and how often: once, with what causes them or by the clock."""

from datetime import datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from escalations.contracts import Action, Family, NoticeState, Occasion
from escalations.models import Escalation, Notice
from escalations.services import deadlines
from escalations.services.notices import outbox, routes
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact
from runtime.core import clock
from tests.escalations.conftest import SetClock
from tests.support import factories, fallen_silent, notice_receivers

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/dir"
TIMED = (Occasion.HALF_TIME, Occasion.HANDED_UP)


def add(**fields: Any) -> routes.SavedRoute:
    return notice_receivers.add(URL, **fields)


def occasions() -> list[str]:
    return list(Notice.objects.order_by("pk").values_list("occasion", flat=True))


def later(row: Escalation, share: float) -> datetime:
    """When this share of the time to the deadline has passed."""
    assert row.deadline_at is not None
    return row.opened_at + share * (row.deadline_at - row.opened_at)


def quiet_now() -> routes.QuietChoice:
    """Quiet hours that the present lies in."""
    now = clock.now()
    times = [(now + timedelta(hours=shift)).time().replace(microsecond=0) for shift in (-1, 1)]
    return routes.QuietChoice(start=times[0], end=times[1], zone="UTC", exempt=None)


def test_an_escalation_that_opens_queues_one_notice_for_each_route(desk: factories.Desk) -> None:
    added = [add(name=name).route for name in ("a", "b")]
    row = desk.escalate()
    found = Notice.objects.order_by("route__name")
    assert [notice.route_id for notice in found] == [route.pk for route in added]
    assert {(notice.escalation_id, notice.occasion, notice.state) for notice in found} == {
        (row.pk, "OPENED", "PENDING")
    }
    assert {notice.next_at for notice in found} == {row.opened_at}


def test_a_silent_agent_is_announced_too() -> None:
    add(families=(Family.AGENT,))
    desk = fallen_silent.desk()
    fallen_silent.hush(desk)
    row = fallen_silent.called(desk)
    assert Notice.objects.get().escalation_id == row.pk


def test_nothing_is_queued_when_the_escalation_is_not_stored(desk: factories.Desk) -> None:
    add()

    class Stop(Exception):
        pass

    def escalate_in_vain() -> None:
        with transaction.atomic():
            desk.escalate()
            raise Stop

    with pytest.raises(Stop):
        escalate_in_vain()
    assert not Notice.objects.exists()


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, True),
        ({"families": (Family.DECISION,)}, True),
        ({"families": (Family.OPERATIONAL, Family.AGENT)}, False),
        ({"least_impact": Impact.HIGH_IMPACT}, False),
        ({"agent_id": "trader"}, True),
        ({"agent_id": "somebody-else"}, False),
        ({"policy_kind": "ADJUST_POSITION"}, True),
        ({"policy_kind": "OTHER"}, False),
        ({"occasions": (Occasion.CLOSED,)}, False),
    ],
    ids=str,
)
def test_a_route_is_told_of_what_it_is_for(
    desk: factories.Desk, fields: dict[str, Any], is_told: bool
) -> None:
    add(**fields)
    desk.escalate()
    assert Notice.objects.exists() is is_told


def test_high_impact_reaches_a_route_for_high_impact(desk: factories.Desk) -> None:
    add(least_impact=Impact.HIGH_IMPACT)
    row = desk.escalate(params=factories.HIGH_IMPACT)
    assert row.impact == Impact.HIGH_IMPACT
    assert occasions() == ["OPENED"]


def test_the_same_occasion_is_stored_once(desk: factories.Desk) -> None:
    added = add()
    row = desk.escalate()
    outbox.queue(row, occasion=Occasion.OPENED, at=row.opened_at)
    assert Notice.objects.count() == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        Notice.objects.create(
            route=added.route,
            escalation=row,
            occasion=Occasion.OPENED,
            queued_at=row.opened_at,
            next_at=row.opened_at,
        )


def test_without_routes_an_escalation_costs_one_query(desk: factories.Desk) -> None:
    row = desk.escalate()
    with CaptureQueriesContext(
        connection,
    ) as asked:
        outbox.queue(row, occasion=Occasion.OPENED, at=row.opened_at)
        outbox.queue_due()
    assert len(asked) == 2


@pytest.mark.parametrize("ends", ["decided", "expired", "withdrawn"])
def test_the_end_is_announced_where_a_route_asks(
    desk: factories.Desk, olivia: User, set_clock: SetClock, ends: str
) -> None:
    add(occasions=(Occasion.CLOSED,))
    row = desk.escalate()
    if ends == "decided":
        factories.decide(row, olivia, Action.ABORT)
    elif ends == "expired":
        set_clock(later(row, 1) + timedelta(seconds=1))
        deadlines.sweep()
    else:
        factories.cancel(desk, row)
    assert occasions() == ["CLOSED"]


def test_half_time_and_the_hand_up_come_by_the_sweeper_once_each(
    desk: factories.Desk, set_clock: SetClock
) -> None:
    add(occasions=TIMED)
    row = desk.escalate()
    for share, expected in ((0.49, []), (0.5, TIMED[:1]), (0.74, TIMED[:1]), (0.75, TIMED), (0.99, TIMED)):
        set_clock(later(row, share))
        deadlines.sweep()
        deadlines.sweep()
        assert occasions() == list(expected), share


def test_of_two_occasions_that_were_missed_only_the_later_is_announced(
    desk: factories.Desk, set_clock: SetClock
) -> None:
    add(occasions=TIMED)
    row = desk.escalate()
    set_clock(later(row, 0.9))
    deadlines.sweep()
    assert occasions() == ["HANDED_UP"]


def test_who_has_claimed_it_is_not_reminded_but_seniors_are(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    add(occasions=TIMED)
    row = desk.escalate()
    claimed_until = later(row, 0.6)
    Escalation.objects.filter(pk=row.pk).update(claimed_by=olivia, claimed_until=claimed_until)
    set_clock(later(row, 0.55))
    assert outbox.queue_due() == 0
    set_clock(later(row, 0.65))
    assert outbox.queue_due() == 1, "the claim has ended, and nobody has decided"
    Escalation.objects.filter(pk=row.pk).update(claimed_until=later(row, 1))
    set_clock(later(row, 0.8))
    assert outbox.queue_due() == 1
    assert occasions() == list(TIMED)


def test_a_question_to_the_agent_pauses_reminders(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    add(occasions=TIMED)
    row = desk.escalate()
    factories.decide(row, olivia, Action.REQUEST_INFO, justification="Which signals?")
    waiting_until = Escalation.objects.get().waiting_until
    assert waiting_until is not None
    Escalation.objects.update(deadline_at=waiting_until)
    set_clock(waiting_until)
    assert outbox.queue_due() == 0
    set_clock(waiting_until + timedelta(milliseconds=1))
    assert outbox.queue_due() == 1


def test_what_has_no_deadline_is_reminded_of_after_the_time_of_one(
    settings: Settings, set_clock: SetClock
) -> None:
    settings.DIR_ESCALATION_SLA_S = 100
    add(occasions=TIMED)
    desk = fallen_silent.desk()
    fallen_silent.hush(desk)
    row = fallen_silent.called(desk)
    set_clock(row.opened_at + timedelta(seconds=50))
    assert outbox.queue_due() == 1
    assert occasions() == ["HALF_TIME"]


def test_a_new_route_is_not_told_of_what_passed_before_it(desk: factories.Desk, set_clock: SetClock) -> None:
    row = desk.escalate()
    set_clock(later(row, 0.6))
    added = add(occasions=TIMED)
    assert outbox.queue_due() == 0
    routes.switch(tenant="default", route_id=added.route.pk, enabled=False, actor="user:1")
    set_clock(later(row, 0.8))
    assert outbox.queue_due() == 0
    routes.switch(tenant="default", route_id=added.route.pk, enabled=True, actor="user:1")
    assert outbox.queue_due() == 0, "it was off when the time passed"


def test_a_changed_route_is_not_told_of_what_passed_before(desk: factories.Desk, set_clock: SetClock) -> None:
    route = add(occasions=(Occasion.CLOSED,)).route
    row = desk.escalate()
    set_clock(later(row, 0.6))
    request = routes.RouteRequest(name="desk", url="", occasions=TIMED)
    assert not isinstance(
        routes.change(tenant=factories.TENANT, route_id=route.pk, request=request, actor="user:1"),
        Problem,
    )
    assert outbox.queue_due() == 0
    set_clock(later(row, 0.8))
    assert outbox.queue_due() == 1
    assert occasions() == ["HANDED_UP"]


def test_quiet_hours_postpone_to_their_end(desk: factories.Desk, set_clock: SetClock) -> None:
    now = clock.now()
    add(quiet=quiet_now())
    set_clock(now)
    desk.escalate()
    found = Notice.objects.get()
    assert found.state == NoticeState.PENDING
    assert timedelta(minutes=59) < found.next_at - now <= timedelta(hours=1)


def test_quiet_hours_spare_what_weighs_enough(desk: factories.Desk) -> None:
    quiet = quiet_now()
    high = routes.QuietChoice(start=quiet.start, end=quiet.end, zone="UTC", exempt=Impact.HIGH_IMPACT)
    add(quiet=high)
    low, heavy = desk.escalate(), desk.escalate(params=factories.HIGH_IMPACT)
    waits = {notice.escalation_id: notice.next_at > notice.queued_at for notice in Notice.objects.all()}
    assert waits == {low.pk: True, heavy.pk: False}


@pytest.mark.parametrize(
    ("quiet", "field"),
    [
        (routes.QuietChoice(start=time(7), end=time(7), zone="UTC", exempt=None), "quiet_to"),
        (routes.QuietChoice(start=time(7), end=time(8), zone="Mars/Base", exempt=None), "quiet_zone"),
        (routes.QuietChoice(start=time(7), end=time(8), zone="../../etc", exempt=None), "quiet_zone"),
    ],
)
def test_quiet_hours_that_cannot_be_kept_are_refused(quiet: routes.QuietChoice, field: str) -> None:
    refused = routes.add(
        tenant="default", request=routes.RouteRequest(name="x", url=URL, quiet=quiet), actor="user:1"
    )
    assert not isinstance(refused, routes.SavedRoute)
    assert [item.pointer for item in refused.violations] == [field]
