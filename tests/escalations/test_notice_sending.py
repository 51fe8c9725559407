"""Sending notices to real receivers: what arrives, what is tried again, and what is no longer sent."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import LedgerEntry
from escalations import notice_message
from escalations.contracts import Action, Family, NoticeState, Occasion
from escalations.models import Escalation, Evidence, Notice, NotificationRoute
from escalations.services.notices import outbox, routes, sealing, sending
from runtime.contracts.verdict import Segment
from runtime.core import clock
from runtime.execution.services import notice_delivery
from tests.escalations.conftest import SetClock
from tests.support import factories, misbehaving_targets, notice_receivers, racing
from tests.support.notice_receivers import Receiver

PUBLIC_URL = "https://console.example"


@pytest.fixture(autouse=True)
def _loopback(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    settings.DIR_PUBLIC_URL = PUBLIC_URL


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with notice_receivers.receiver() as opened:
        yield opened


def only() -> Notice:
    return Notice.objects.get()


def quiet_around(at: datetime) -> routes.QuietChoice:
    """Quiet hours from an hour before to an hour after."""
    times = [(at + timedelta(hours=shift)).time().replace(microsecond=0) for shift in (-1, 1)]
    return routes.QuietChoice(start=times[0], end=times[1], zone="UTC", exempt=None)


def due_again(set_clock: SetClock) -> None:
    """Let the pause after a failure, or a lease, pass."""
    set_clock(only().next_at)


@pytest.mark.django_db
def test_a_webhook_arrives_once_signed_and_names_the_escalation(
    desk: factories.Desk, receiver: Receiver
) -> None:
    added = notice_receivers.add(receiver.url)
    row = desk.escalate()
    assert sending.send_due() == 1
    assert sending.send_due() == 0
    (body,) = receiver.bodies(added.secret)
    assert (body["type"], set(body)) == ("escalation.opened", {"type", "timestamp", "data"})
    shown = "".join(part.text for part in factories.read_shown(row).effect)
    assert body["data"] == {
        "escalation_id": str(row.pk),
        "dfid": str(row.flow_id),
        "agent_id": "trader",
        "policy_kind": "ADJUST_POSITION",
        "impact": "LOW_IMPACT",
        "reason": row.reason,
        "effect": shown,
        "deadline_at": body["data"]["deadline_at"],
        "url": f"{PUBLIC_URL}/escalations/{row.pk}/",
        "family": "DECISION",
        "state": "OPEN",
        "resolution": "",
    }
    assert datetime.fromisoformat(body["data"]["deadline_at"]) == row.deadline_at
    assert receiver.ids == [f"msg_{only().pk.hex}"]
    assert (only().state, only().tries, only().error) == (NoticeState.SENT, 1, "")


@pytest.mark.django_db
def test_an_outage_of_the_receiver_delays_a_notice(
    desk: factories.Desk, receiver: Receiver, set_clock: SetClock
) -> None:
    notice_receivers.add(receiver.url)
    desk.escalate()
    receiver.status = 503
    failed_at = clock.now()
    assert sending.send_due() == 0
    assert (only().state, only().tries, only().error) == ("PENDING", 1, "the receiver answered 503")
    assert timedelta(seconds=2) < only().next_at - failed_at < timedelta(seconds=10)
    assert sending.send_due() == 0, "not before its pause has passed"
    due_again(set_clock)
    sending.send_due()
    receiver.status = 200
    due_again(set_clock)
    assert sending.send_due() == 1
    assert len(receiver.ids) == 3
    assert len(set(receiver.ids)) == 1, "the same notice has the same id at every try"
    assert (only().state, only().tries, only().error) == (NoticeState.SENT, 3, "")


@pytest.mark.django_db
def test_a_notice_is_given_up_after_the_last_try(
    desk: factories.Desk, receiver: Receiver, set_clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    notice_receivers.add(receiver.url)
    desk.escalate()
    receiver.status = 500
    for _ in range(sending.MAX_TRIES):
        sending.send_due()
        due_again(set_clock)
    sending.send_due()
    assert len(receiver.ids) == sending.MAX_TRIES
    assert (only().state, only().error) == (NoticeState.FAILED, "the receiver answered 500")
    assert "was given up" in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answering", "words"),
    [
        (misbehaving_targets.drop, "closed before the answer"),
        (misbehaving_targets.answer(302, headers={"Location": "/other"}), "answered 302"),
        (misbehaving_targets.trickle, "no answer arrived in time"),
    ],
)
def test_what_is_no_acceptance_is_a_failure(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch, answering: Any, words: str
) -> None:
    monkeypatch.setattr(notice_delivery, "SEND_S", 0.5)
    with misbehaving_targets.stand_in(answering) as target:
        notice_receivers.add(f"{target.base_url}/hook")
        desk.escalate()
        assert sending.send_due() == 0
        assert len(target.seen) == 1
    assert words in only().error


@pytest.mark.django_db
def test_one_dead_receiver_does_not_hold_up_the_others(desk: factories.Desk, receiver: Receiver) -> None:
    with notice_receivers.receiver() as dead:
        dead.status = 503
        notice_receivers.add(dead.url, name="dead")
        notice_receivers.add(receiver.url, name="alive")
        for _ in range(3):
            desk.escalate()
        assert sending.send_due() == 3
        assert len(dead.ids) == 1, "the rest of its notices wait with the first"
    assert len(receiver.ids) == 3


@pytest.mark.django_db
def test_a_lease_that_ended_is_sent_again_with_the_same_id(
    desk: factories.Desk, receiver: Receiver, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender dies after the receiver has taken the notice: it arrives twice, and can be told."""
    notice_receivers.add(receiver.url)
    desk.escalate()
    with monkeypatch.context() as patch:
        patch.setattr(sending, "_record_sent", lambda notice_id: None)
        sending.send_due()
    assert (only().state, len(receiver.ids)) == ("PENDING", 1)
    assert sending.send_due() == 0, "it is leased"
    due_again(set_clock)
    assert sending.send_due() == 1
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1


@pytest.mark.django_db
def test_a_sender_that_was_overtaken_sends_nothing(
    desk: factories.Desk, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one claims the notice between this one's look and its claim."""
    notice_receivers.add(receiver.url)
    desk.escalate()
    unseal = sealing.unseal

    def overtaken(stored: bytes, *, route_id: UUID) -> sealing.SealedAddress:
        Notice.objects.update(tries=1, next_at=clock.now() + timedelta(minutes=1))
        return unseal(stored, route_id=route_id)

    monkeypatch.setattr(sealing, "unseal", overtaken)
    assert sending.send_due() == 0
    assert (only().tries, receiver.ids) == (1, [])


@pytest.mark.django_db
def test_a_notice_that_cannot_be_written_is_given_up_too(
    desk: factories.Desk, receiver: Receiver, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("a bug")

    notice_receivers.add(receiver.url)
    desk.escalate()
    monkeypatch.setattr(notice_message, "of_escalation", fail)
    for _ in range(sending.MAX_TRIES + 1):
        assert sending.send_due() == 0
        due_again(set_clock)
    assert (only().state, only().tries) == (NoticeState.FAILED, sending.MAX_TRIES)


def test_two_senders_that_race_send_once(real_db: str, receiver: Receiver) -> None:
    notice_receivers.add(receiver.url)
    factories.desk().escalate()
    assert sorted(racing.race(4, lambda _: sending.send_due())) == [0, 0, 0, 1]
    assert len(receiver.ids) == 1
    assert only().state == NoticeState.SENT


def test_two_sweepers_that_race_remind_once(real_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    notice_receivers.add("https://hooks.example.com/dir", occasions=(Occasion.HALF_TIME,))
    row = factories.desk().escalate()
    assert row.deadline_at is not None
    late = row.opened_at + 0.6 * (row.deadline_at - row.opened_at)
    monkeypatch.setattr(clock, "now", lambda: late)
    racing.race(4, lambda _: outbox.queue_due())
    assert only().occasion == Occasion.HALF_TIME


@pytest.mark.django_db
def test_what_was_closed_meanwhile_is_not_announced(
    desk: factories.Desk, olivia: User, receiver: Receiver
) -> None:
    notice_receivers.add(receiver.url, occasions=(Occasion.OPENED, Occasion.CLOSED))
    row = desk.escalate()
    factories.decide(row, olivia, Action.ABORT)
    assert sending.send_due() == 1
    (body,) = receiver.bodies()
    assert (body["type"], body["data"]["resolution"]) == ("escalation.decided", "ABORT")
    states = dict(Notice.objects.values_list("occasion", "state"))
    assert states == {"OPENED": "DROPPED", "CLOSED": "SENT"}


@pytest.mark.django_db
@pytest.mark.parametrize("ends", ["deleted", "off"])
def test_a_route_that_is_gone_gets_nothing(desk: factories.Desk, receiver: Receiver, ends: str) -> None:
    added = notice_receivers.add(receiver.url)
    desk.escalate()
    if ends == "deleted":
        routes.delete(tenant="default", route_id=added.route.pk, actor="user:1")
        assert bytes(notice_receivers.again(added.route).address) == b""
    else:
        routes.switch(tenant="default", route_id=added.route.pk, enabled=False, actor="user:1")
    assert only().state == NoticeState.DROPPED
    desk.escalate()
    assert Notice.objects.count() == 1
    assert sending.send_due() == 0
    assert receiver.ids == []


@pytest.mark.django_db
def test_what_waits_follows_a_change_of_its_route(
    desk: factories.Desk, receiver: Receiver, set_clock: SetClock
) -> None:
    now = clock.now()
    hours = quiet_around(now)
    added = notice_receivers.add(receiver.url, quiet=hours)
    desk.escalate()
    assert sending.send_due() == 0
    _change(added.route, families=(Family.AGENT,), quiet=hours)
    set_clock(now + timedelta(hours=2))
    assert sending.send_due() == 0
    assert (only().state, only().error) == ("DROPPED", "the route was changed and no longer covers it")
    assert receiver.ids == []


@pytest.mark.django_db
def test_without_its_quiet_hours_a_route_gets_what_waited_at_once(
    desk: factories.Desk, receiver: Receiver
) -> None:
    added = notice_receivers.add("https://hooks.example.com/dir", quiet=quiet_around(clock.now()))
    desk.escalate()
    assert sending.send_due() == 0
    _change(added.route, url=receiver.url)
    assert sending.send_due() == 1
    assert len(receiver.ids) == 1


def _change(route: NotificationRoute, **fields: Any) -> None:
    request = routes.RouteRequest(**{"name": "desk", "url": "", **fields})
    saved = routes.change(tenant=factories.TENANT, route_id=route.pk, request=request, actor="user:1")
    assert isinstance(saved, routes.SavedRoute), saved


@pytest.mark.django_db
def test_a_notice_that_a_deletion_overtook_is_not_sent(desk: factories.Desk, receiver: Receiver) -> None:
    """The row came in the transaction that the deletion did not see."""
    added = notice_receivers.add(receiver.url)
    routes.delete(tenant="default", route_id=added.route.pk, actor="user:1")
    row = desk.escalate()
    at = clock.now()
    Notice.objects.create(
        route=added.route, escalation=row, occasion=Occasion.OPENED, queued_at=at, next_at=at
    )
    assert sending.send_due() == 0
    assert (only().state, receiver.ids) == ("DROPPED", [])


@pytest.mark.django_db
def test_quiet_hours_hold_for_tries_after_a_failure(
    desk: factories.Desk, receiver: Receiver, set_clock: SetClock
) -> None:
    noon = clock.now().replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=1)
    evening = routes.QuietChoice(
        start=noon.replace(hour=18).time(), end=noon.replace(hour=20).time(), zone="UTC", exempt=None
    )
    notice_receivers.add(receiver.url, quiet=evening)
    row = desk.escalate()
    Escalation.objects.filter(pk=row.pk).update(deadline_at=noon + timedelta(days=1))
    Notice.objects.update(next_at=noon.replace(hour=18, minute=30))
    set_clock(noon.replace(hour=18, minute=30))
    assert sending.send_due() == 0
    assert (only().next_at, only().tries, receiver.ids) == (noon.replace(hour=20), 0, [])
    set_clock(noon.replace(hour=20))
    assert sending.send_due() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["webhook", "mail"])
def test_a_private_address_is_refused_unless_it_is_allowed(
    desk: factories.Desk, settings: Settings, set_clock: SetClock, kind: str
) -> None:
    with notice_receivers.receiver() as hook, notice_receivers.mail_server() as mail:
        notice_receivers.add(hook.url if kind == "webhook" else mail.url)
        desk.escalate()
        settings.DIR_EGRESS_ALLOW = []
        assert sending.send_due() == 0
        assert only().error == "the address is not public and not in DIR_EGRESS_ALLOW"
        port = hook.target.port if kind == "webhook" else mail.port
        settings.DIR_EGRESS_ALLOW = [f"127.0.0.1:{port}"]
        due_again(set_clock)
        assert sending.send_due() == 1
        assert (len(hook.ids), len(mail.messages)) == ((1, 0) if kind == "webhook" else (0, 1))


@pytest.mark.django_db
def test_mail_is_plain_text_with_what_a_person_needs(desk: factories.Desk) -> None:
    with notice_receivers.mail_server() as mail:
        notice_receivers.add(mail.url)
        row = desk.escalate()
        assert sending.send_due() == 1
        (message,) = mail.messages
    assert message.get_content_type() == "text/plain"
    assert message["To"] == "desk@example.com"
    assert message["Message-ID"] == f"<msg_{only().pk.hex}@127.0.0.1>"
    assert message["Subject"] == "Decision needed: ADJUST_POSITION of trader, low impact"
    text = message.get_content()
    effect = "".join(part.text for part in factories.read_shown(row).effect)
    assert row.deadline_at is not None
    for words in (
        effect,
        "150,000; limit 100,000 (50 % above)",
        "low impact",
        f"{row.deadline_at:%Y-%m-%d %H:%M:%S} UTC",
        f"{PUBLIC_URL}/escalations/{row.pk}/",
    ):
        assert words.lower() in text.lower(), words


@pytest.mark.django_db
def test_chat_gets_the_text_and_is_not_led_to_a_private_address(
    desk: factories.Desk, settings: Settings
) -> None:
    """Apprise follows redirects by itself; each connection is vetted where it begins."""
    elsewhere = misbehaving_targets.answer(200)
    with misbehaving_targets.stand_in(elsewhere) as secret:
        leads = misbehaving_targets.answer(307, headers={"Location": f"{secret.base_url}/inside"})
        with misbehaving_targets.stand_in(leads) as chat:
            settings.DIR_EGRESS_ALLOW = [f"127.0.0.1:{chat.port}"]
            notice_receivers.add(f"mmost://127.0.0.1:{chat.port}/abcdefghijklmnopqrstuvwxyz")
            row = desk.escalate()
            assert sending.send_due() == 0
            assert len(chat.seen) == 1
            assert secret.seen == []
    assert f"/escalations/{row.pk}/" in chat.seen[0].body.decode()
    assert only().error == "the address is not public and not in DIR_EGRESS_ALLOW"


@pytest.mark.django_db
def test_mail_waits_for_its_server(desk: factories.Desk, set_clock: SetClock) -> None:
    with notice_receivers.mail_server() as gone:
        pass
    notice_receivers.add(gone.url)
    desk.escalate()
    assert sending.send_due() == 0
    assert only().error
    controller = notice_receivers.mail_server(gone.port)
    with controller as back:
        due_again(set_clock)
        assert sending.send_due() == 1
        assert len(back.messages) == 1


@pytest.mark.django_db
def test_values_of_agents_lead_nowhere_in_a_text(desk: factories.Desk) -> None:
    row = desk.escalate()
    evil = "See HTTPS://evil.example or www.evil.example, @channel <b>now</b>\r\nBcc: x@evil.example \u202e"
    shown = factories.read_shown(row).model_copy(update={"effect": (Segment(text=evil, value=True),)})
    made = notice_message.of_escalation(row=row, evidence=shown, occasion=Occasion.OPENED, at=row.opened_at)
    for words in ("HTTPS://", "www.", "@", "<b>", "\nBcc:", "\u202e"):
        assert words not in made.text
    assert "HTTPS[:]//evil.example" in made.text
    assert made.text.count("://") == 1, "our own link"
    assert "\n" not in made.title


def rewrite_effect(row: Escalation, text: str) -> None:
    """Let the evidence say something else, as if a kind had rendered it so."""
    body = canonical.decode(bytes(Evidence.objects.get(escalation=row).body))
    body["effect"] = [{"text": text, "value": True}]
    stored = canonical.encode(body)
    Evidence.objects.filter(escalation=row).update(body=stored, hash=canonical.digest(stored))


@pytest.mark.django_db
def test_evidence_that_the_ledger_did_not_record_is_not_repeated(
    desk: factories.Desk, receiver: Receiver
) -> None:
    notice_receivers.add(receiver.url)
    row = desk.escalate()
    rewrite_effect(row, "Nothing to see here")
    assert sending.send_due() == 1
    (body,) = receiver.bodies()
    assert "does not match the ledger" in body["data"]["effect"]


@pytest.mark.django_db
def test_an_address_sealed_with_another_key_is_said_to_be(
    desk: factories.Desk, receiver: Receiver, settings: Settings
) -> None:
    notice_receivers.add(receiver.url)
    desk.escalate()
    settings.SECRET_KEY = "another secret key of sufficient length"
    assert sending.send_due() == 0
    assert only().state == NoticeState.FAILED
    assert "DIR_SECRET_KEY" in only().error


@pytest.mark.django_db
def test_neither_url_nor_secret_is_written_anywhere(
    desk: factories.Desk, caplog: pytest.LogCaptureFixture, set_clock: SetClock
) -> None:
    caplog.set_level(logging.DEBUG)
    with notice_receivers.receiver() as receiver:
        added = notice_receivers.add(receiver.url)
        desk.escalate()
        receiver.status = 500
        sending.send_due()
    due_again(set_clock)
    sending.send_due()  # nobody listens any more
    ledger = b"".join(bytes(body) for body in LedgerEntry.objects.values_list("body", flat=True)).decode()
    for secret in (notice_receivers.TOKEN, added.secret, added.secret.removeprefix("whsec_")):
        assert secret not in ledger
        assert secret not in caplog.text
        assert secret not in only().error
        assert secret.encode() not in bytes(added.route.address)
    assert sealing.digest(receiver.url) in ledger
    assert "127.0.0.1" in ledger


@pytest.mark.django_db
def test_a_test_notice_looks_like_a_real_one(receiver: Receiver) -> None:
    added = notice_receivers.add(receiver.url)
    routes.test(tenant="default", route_id=added.route.pk, actor="user:1")
    routes.test(tenant="default", route_id=added.route.pk, actor="user:1")
    assert sending.send_due() == 2
    for body in receiver.bodies(added.secret):
        assert body["type"] == "notification.test"
        assert body["data"]["url"] == f"{PUBLIC_URL}/notifications/"
        assert {name for name, value in body["data"].items() if value is None} == {
            "escalation_id",
            "dfid",
            "agent_id",
            "policy_kind",
            "impact",
            "reason",
            "deadline_at",
            "family",
            "state",
            "resolution",
        }
