"""Notices of incidents: which are written with what happens to one, what they say, and which are not sent."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit import events
from audit.models import LedgerEntry
from escalations.contracts import Family, NoticeState, Occasion
from escalations.models import Notice, NotificationRoute
from escalations.services.notices import outbox, routes, sending
from runtime.contracts.incident import IncidentState, LinkKind, Severity
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.incidents.models import Incident
from runtime.incidents.services import incidents
from runtime.incidents.services.incidents import Wanted
from tests.escalations.conftest import SetClock
from tests.support import factories, incident_story, ledger_tampering, notice_receivers, racing
from tests.support.notice_receivers import Receiver

URL = "https://hooks.example.com/dir"
PUBLIC_URL = "https://console.example"
NEWS = (Occasion.INCIDENT_OPENED, Occasion.INCIDENT_RAISED, Occasion.INCIDENT_CLOSED)


@pytest.fixture(autouse=True)
def _loopback(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    settings.DIR_PUBLIC_URL = PUBLIC_URL


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with notice_receivers.receiver() as opened:
        yield opened


def add(url: str = URL, **fields: Any) -> NotificationRoute:
    return notice_receivers.add(url, **{"occasions": NEWS, **fields}).route


def told() -> list[tuple[str, str, str]]:
    """Occasion, severity and state of each notice, in order."""
    return list(Notice.objects.order_by("pk").values_list("occasion", "severity", "state"))


def edit(incident: Incident, severity: Severity, author: int, *, title: str = "") -> Incident:
    """Give an incident another severity, and another title where one is given."""
    answer = incidents.edit(
        tenant="default",
        incident_id=incident.pk,
        title=title or incident.title,
        severity=severity,
        lead=author,
        reason="As seen.",
        author=author,
    )
    assert not isinstance(answer, Problem), answer
    return answer


def close(incident: Incident, author: int) -> None:
    incident_story.save(incident, author)
    assert not isinstance(incident_story.close(incident, author), Problem)


def quiet_until(end: datetime, exempt: Severity | None = None) -> routes.QuietChoice:
    """Quiet hours of the three hours before `end`."""
    start = (end - timedelta(hours=3)).time()
    return routes.QuietChoice(start=start, end=end.time(), zone="UTC", exempt=None, exempt_severity=exempt)


@pytest.mark.django_db
def test_each_route_that_asks_for_incidents_is_told_of_one_that_opens(olivia: User) -> None:
    notice_receivers.add(URL, name="escalations alone")
    asked = [add(name=name) for name in ("a", "b")]
    incident = incident_story.open_by(olivia.pk)
    found = Notice.objects.order_by("route__name")
    assert [notice.route_id for notice in found] == [route.pk for route in asked]
    assert {(one.incident_id, one.escalation_id, one.next_at) for one in found} == {
        (incident.pk, None, incident.opened_at)
    }
    assert told() == [("INCIDENT_OPENED", "", "PENDING")] * 2


@pytest.mark.django_db
def test_an_incident_that_a_rule_opens_is_announced_once_and_what_joins_it_is_not() -> None:
    add()
    incident_story.activate(incident_story.rule())
    incident_story.refuse(times=2)
    assert incident_story.walk() == 1
    incident_story.refuse(times=2)
    incident_story.walk()
    assert told() == [("INCIDENT_OPENED", "", "PENDING")]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, True),
        ({"least_severity": Severity.SEV2}, True),
        ({"least_severity": Severity.SEV1}, False),
        ({"occasions": (Occasion.INCIDENT_CLOSED, Occasion.OPENED)}, False),
        ({"agent_id": "somebody-else"}, True),
    ],
    ids=str,
)
def test_a_route_is_told_of_incidents_from_its_least_severity_on(
    olivia: User, fields: dict[str, Any], is_told: bool
) -> None:
    add(**fields)
    incident_story.open_by(olivia.pk, severity=Severity.SEV2)
    assert Notice.objects.exists() is is_told


@pytest.mark.django_db
def test_an_incident_that_is_not_stored_is_not_announced(olivia: User) -> None:
    add()
    asked: dict[str, Any] = {"tenant": "default", "title": "x", "severity": Severity.SEV1, "lead": None}
    nothing = [Wanted(LinkKind.AGENT, "nobody")]
    refused = incidents.open_incident(author=olivia.pk, links=nothing, **asked)
    assert isinstance(refused, Problem)

    class Stop(Exception):
        pass

    def open_in_vain() -> None:
        with transaction.atomic():
            incident_story.open_by(olivia.pk)
            raise Stop

    with pytest.raises(Stop):
        open_in_vain()
    assert not Notice.objects.exists()


@pytest.mark.django_db
def test_a_raise_is_announced_once_for_each_severity_and_nothing_else_of_an_edit_is(
    olivia: User, receiver: Receiver
) -> None:
    add(receiver.url, occasions=(Occasion.INCIDENT_RAISED,), least_severity=Severity.SEV3)
    incident = incident_story.open_by(olivia.pk, severity=Severity.SEV4)
    for severity in (Severity.SEV3, Severity.SEV2, Severity.SEV3, Severity.SEV2, Severity.SEV4):
        edit(incident, severity, olivia.pk)
        edit(incident, severity, olivia.pk, title=f"Now {severity}")
        sending.send_due()
    assert told() == [("INCIDENT_RAISED", "SEV3", "SENT"), ("INCIDENT_RAISED", "SEV2", "SENT")]
    assert [body["type"] for body in receiver.bodies()] == ["incident.raised"] * 2


@pytest.mark.django_db
def test_a_severity_that_nobody_was_told_of_is_announced_anew(olivia: User, receiver: Receiver) -> None:
    add(receiver.url, occasions=(Occasion.INCIDENT_RAISED,))
    incident = incident_story.open_by(olivia.pk, severity=Severity.SEV3)
    for severity in (Severity.SEV2, Severity.SEV3):
        edit(incident, severity, olivia.pk)
    assert sending.send_due() == 0
    assert Notice.objects.get().error == "the severity was changed again before it was sent"
    edit(incident, Severity.SEV2, olivia.pk)
    assert sending.send_due() == 1
    assert [state for _, _, state in told()] == ["DROPPED", "SENT"]


@pytest.mark.django_db
def test_the_close_is_announced_and_what_was_not_sent_by_then_is_dropped(
    olivia: User, receiver: Receiver
) -> None:
    add(receiver.url)
    incident = incident_story.open_by(olivia.pk, severity=Severity.SEV3)
    edit(incident, Severity.SEV2, olivia.pk)
    close(incident, olivia.pk)
    assert sending.send_due() == 1
    assert told() == [
        ("INCIDENT_OPENED", "", "DROPPED"),
        ("INCIDENT_RAISED", "SEV2", "DROPPED"),
        ("INCIDENT_CLOSED", "", "SENT"),
    ]
    (body,) = receiver.bodies()
    assert (body["type"], body["data"]["state"]) == ("incident.closed", "CLOSED")
    assert set(Notice.objects.filter(state=NoticeState.DROPPED).values_list("error", flat=True)) == {
        "the incident was closed before it was sent"
    }


@pytest.mark.django_db
def test_an_incident_is_closed_by_moves_only(olivia: User) -> None:
    add(occasions=NEWS[2:])
    incident = incident_story.open_by(olivia.pk, severity=Severity.SEV4)
    for state in (IncidentState.MITIGATED, IncidentState.OPEN, IncidentState.RESOLVED):
        assert not isinstance(incident_story.move(incident, state, olivia.pk), Problem)
    assert told() == []
    assert not isinstance(incident_story.move(incident, IncidentState.CLOSED, olivia.pk), Problem)
    assert told() == [("INCIDENT_CLOSED", "", "PENDING")]


@pytest.mark.django_db
@pytest.mark.parametrize("why", ["severity", "occasion", "least"])
def test_what_a_route_no_longer_asks_for_is_not_sent(olivia: User, receiver: Receiver, why: str) -> None:
    route = add(receiver.url, occasions=NEWS[:1], least_severity=Severity.SEV2)
    incident = incident_story.open_by(olivia.pk, severity=Severity.SEV2)
    if why == "severity":
        edit(incident, Severity.SEV3, olivia.pk)
    else:
        least = Severity.SEV1 if why == "least" else Severity.SEV2
        occasions = NEWS[:1] if why == "least" else NEWS[2:]
        request = routes.RouteRequest(name="desk", url="", occasions=occasions, least_severity=least)
        changed = routes.change(tenant="default", route_id=route.pk, request=request, actor="user:1")
        assert isinstance(changed, routes.SavedRoute)
    assert sending.send_due() == 0
    assert (told()[0][2], receiver.ids) == ("DROPPED", [])


@pytest.mark.django_db
def test_quiet_hours_hold_back_what_is_not_bad_enough(
    olivia: User, receiver: Receiver, set_clock: SetClock
) -> None:
    night = clock.now().replace(hour=5, minute=0, second=0, microsecond=0) + timedelta(days=1)
    morning = night + timedelta(hours=2)
    add(receiver.url, quiet=quiet_until(morning, Severity.SEV1))
    set_clock(night)
    waits = incident_story.open_by(olivia.pk, severity=Severity.SEV2)
    raised = incident_story.open_by(olivia.pk, severity=Severity.SEV2, title="It spreads")
    assert {one.next_at for one in Notice.objects.all()} == {morning}
    edit(raised, Severity.SEV1, olivia.pk)
    assert sending.send_due() == 1
    set_clock(morning)
    assert sending.send_due() == 1, "of the one that was announced in the night its opening is not"
    assert [(body["type"], body["data"]["incident_id"]) for body in receiver.bodies()] == [
        ("incident.raised", str(raised.pk)),
        ("incident.opened", str(waits.pk)),
    ]


@pytest.mark.django_db
def test_an_opening_that_waits_is_sent_when_the_incident_becomes_bad_enough(
    olivia: User, receiver: Receiver, set_clock: SetClock
) -> None:
    """Of a route that asks for no raises."""
    night = clock.now().replace(hour=5, minute=0, second=0, microsecond=0) + timedelta(days=1)
    add(receiver.url, occasions=NEWS[:1], quiet=quiet_until(night + timedelta(hours=2), Severity.SEV1))
    set_clock(night)
    incident = incident_story.open_by(olivia.pk, severity=Severity.SEV3)
    edit(incident, Severity.SEV2, olivia.pk)
    assert sending.send_due() == 0
    edit(incident, Severity.SEV1, olivia.pk)
    assert sending.send_due() == 1
    assert receiver.bodies()[0]["data"]["severity"] == "SEV1"


@pytest.mark.django_db
def test_a_webhook_says_how_bad_it_is_and_who_leads(olivia: User, receiver: Receiver) -> None:
    added = notice_receivers.add(receiver.url, occasions=NEWS)
    incident = incident_story.open_by(olivia.pk)
    assert sending.send_due() == 1
    (body,) = receiver.bodies(added.secret)
    assert (body["type"], set(body)) == ("incident.opened", {"type", "timestamp", "data"})
    opened_at = body["data"].pop("opened_at")
    assert datetime.fromisoformat(opened_at) == incident.opened_at.replace(
        microsecond=incident.opened_at.microsecond // 1000 * 1000
    )
    assert body["data"] == {
        "incident_id": str(incident.pk),
        "title": "Orders go to the wrong account",
        "severity": "SEV2",
        "state": "OPEN",
        "lead": "olivia",
        "rule": "",
        "url": f"{PUBLIC_URL}/incidents/{incident.pk}/",
    }


@pytest.mark.django_db
def test_mail_of_a_rule_is_plain_text_in_which_its_title_leads_nowhere() -> None:
    evil = "See https://evil.example or www.evil.example, @channel <b>now</b>"
    incident_story.activate(incident_story.rule(title=evil, severity=Severity.SEV1))
    with notice_receivers.mail_server() as mail:
        add(mail.url)
        incident_story.refuse(times=2)
        assert incident_story.walk() == 1
        assert sending.send_due() == 1
        (message,) = mail.messages
    incident, text = Incident.objects.get(), message.get_content()
    assert message.get_content_type() == "text/plain"
    assert message["Subject"].startswith("SEV1 incident opened: See https[:]//evil.example or www[.]evil")
    for words in ("://evil", "www.", "@", "<b>"):
        assert words not in text
        assert words not in message["Subject"]
    for words in (
        "Severity: SEV1, critical: harm is being done, or nothing works",
        "Lead: nobody yet",
        "by the rule refusals",
        f"{PUBLIC_URL}/incidents/{incident.pk}/",
        "It decides nothing.",
    ):
        assert words in text
    assert text.count("://") == 1, "our own link"


@pytest.mark.django_db
def test_an_incident_that_the_ledger_did_not_record_so_is_not_repeated(
    olivia: User, receiver: Receiver
) -> None:
    add(receiver.url)
    incident = incident_story.open_by(olivia.pk)
    Incident.objects.filter(pk=incident.pk).update(title="Nothing to see here")
    assert sending.send_due() == 1
    (body,) = receiver.bodies()
    assert "does not match the ledger" in body["data"]["title"]
    assert body["data"]["lead"] is None


@pytest.mark.django_db
def test_without_routes_for_incidents_one_costs_one_query(olivia: User) -> None:
    notice_receivers.add(URL)
    incident = incident_story.open_by(olivia.pk)
    with CaptureQueriesContext(connection) as asked:
        outbox.queue_incident(incident=incident, news="OPENED", at=incident.opened_at)
    assert len(asked) == 1


@pytest.mark.django_db
def test_a_notice_is_of_one_thing_and_is_stored_once(olivia: User) -> None:
    route, row = add(), factories.desk().escalate()
    incident = incident_story.open_by(olivia.pk)
    at = clock.now()
    for fields in (
        {"occasion": "INCIDENT_OPENED", "incident": incident},
        {"occasion": "INCIDENT_OPENED"},
        {"occasion": "INCIDENT_CLOSED", "escalation": row},
        {"occasion": "INCIDENT_CLOSED", "incident": incident, "escalation": row},
        {"occasion": "INCIDENT_CLOSED", "incident": incident, "severity": "SEV1"},
        {"occasion": "INCIDENT_RAISED", "incident": incident},
        {"occasion": "INCIDENT_RAISED", "incident": incident, "severity": "SEV9"},
        {"occasion": "OPENED", "incident": incident},
        {"occasion": "OPENED", "escalation": row, "severity": "SEV1"},
        {"occasion": "TEST", "incident": incident},
        {"occasion": "ANOTHER", "incident": incident},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Notice.objects.create(route=route, queued_at=at, next_at=at, **fields)
    for wrong in ({"least_severity": "SEV9"}, {"quiet_exempt_severity": "SEV1"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            NotificationRoute.objects.filter(pk=route.pk).update(**wrong)


def test_people_who_raise_it_at_once_cause_one_notice(real_db: str) -> None:
    olivia = factories.user("olivia").pk
    add()
    incident = incident_story.open_by(olivia, severity=Severity.SEV4)
    racing.race(4, lambda number: edit(incident, Severity.SEV2, olivia, title=f"Seen by {number}"))
    assert told() == [("INCIDENT_OPENED", "", "PENDING"), ("INCIDENT_RAISED", "SEV2", "PENDING")]
    assert ledger_tampering.differences() == []


def test_walkers_that_race_announce_the_incident_of_a_rule_once(real_db: str) -> None:
    add()
    incident_story.activate(incident_story.rule())
    incident_story.refuse(times=2)
    assert sum(racing.race(4, lambda _: incident_story.walk())) == 1
    assert told() == [("INCIDENT_OPENED", "", "PENDING")]


def test_routes_from_before_keep_working_and_ask_for_no_incidents(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their entries have no severities, and a change of one in the row alone is found all the same."""
    payload = events.NotificationRouteAdded.payload
    before = {"least_severity", "quiet_exempt_severity"}
    monkeypatch.setattr(
        events.NotificationRouteAdded,
        "payload",
        lambda self: {name: value for name, value in payload(self).items() if name not in before},
    )
    olivia = factories.user("olivia").pk
    # Nor was there anything to be told of interrupted workflows.
    families = (Family.DECISION, Family.OPERATIONAL, Family.AGENT)
    route = notice_receivers.add(URL, families=families).route
    entry = LedgerEntry.objects.get(kind="notification_route:added")
    assert not before & set(entry.payload)
    row = factories.desk().escalate()
    routes.test(tenant="default", route_id=route.pk, actor="user:1")
    held = list(Notice.objects.order_by("pk").values())
    MigrationExecutor(connection).migrate([("escalations", "0015_what_auditors_search_by")])
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    assert list(Notice.objects.order_by("pk").values()) == held
    incident_story.open_by(olivia, severity=Severity.SEV1)
    assert [one.escalation_id for one in Notice.objects.order_by("pk")] == [row.pk, None]
    assert ledger_tampering.differences() == []
    for change in ({"least_severity": "SEV1"}, {"on_incident_opened": True}):
        with transaction.atomic():
            NotificationRoute.objects.filter(pk=route.pk).update(**change)
            assert "route." in str(ledger_tampering.differences())
            transaction.set_rollback(True)
