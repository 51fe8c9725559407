"""The page of receivers: everybody sees where events go, admins change it with plain forms."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.receiver import ReceiverState
from runtime.core import clock
from runtime.outward.models import Receiver
from runtime.outward.queries import receiver_list
from runtime.outward.services import sending
from tests.support import event_receivers, ledger_tampering
from tests.support.event_receivers import again, hook, seal
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PLACE = "https://hooks.example.com/events"
FORM: dict[str, Any] = {
    "name": "hook",
    "way": "WEBHOOK as CLOUDEVENTS",
    "place": PLACE,
    "secret_env": event_receivers.SECRET_ENV,
    "patterns": "escalation:*, flow:opened",
    "begin": "now",
}


@pytest.fixture(autouse=True)
def _allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    event_receivers.allow(settings, monkeypatch)


@pytest.fixture
def admin() -> Client:
    return sign_in(Role.ADMIN, name="ada")


def test_an_admin_adds_a_receiver_and_changes_it(admin: Client) -> None:
    assert "Nothing is sent out" in text_of(admin, "/outward/")
    assert admin.post("/outward/", FORM).status_code == 302
    row = Receiver.objects.get()
    assert (row.wants, row.next_leaf) == (["escalation:*", "flow:opened"], 0)
    page = text_of(admin, "/outward/")
    assert PLACE in page
    assert "escalation:* flow:opened" in page
    edit = f"/outward/{row.pk}/"
    assert f'value="{PLACE}"' in text_of(admin, edit)
    changed = FORM | {"place": f"{PLACE}/2", "patterns": "*", "name": "other"}
    assert admin.post(edit, changed).status_code == 302
    row = again(row)
    assert (row.name, row.place, row.wants) == ("hook", f"{PLACE}/2", ["*"])
    entries = LedgerEntry.objects.filter(kind__startswith="receiver:").order_by("id")
    assert list(entries.values_list("kind", flat=True)) == ["receiver:added", "receiver:changed"]
    assert ledger_tampering.differences() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "Enter a name."),
        ({"way": "PIGEON as CSV"}, "Choose a kind."),
        ({"place": "http://example.com"}, "must begin with https"),
        ({"patterns": "nothing:*"}, "No kind of event is nothing:*"),
        ({"secret_env": ""}, "Enter the environment variable"),
    ],
)
def test_a_wrong_field_is_shown_at_the_field_and_keeps_the_rest(
    admin: Client, changes: dict[str, str], said: str
) -> None:
    answer = admin.post("/outward/", FORM | changes)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert said in page
    assert f'value="{event_receivers.SECRET_ENV}"' in page or "secret_env" in changes
    assert not Receiver.objects.exists()


def test_pause_resume_move_and_test_from_the_page(admin: Client) -> None:
    with hook() as (place, row):
        seal("ONE")
        sending.send_due()
        at = again(row).next_leaf
        base = f"/outward/{row.pk}"
        assert admin.post(f"{base}/pause/", {"reason": ""}).status_code == 400
        assert admin.post(f"{base}/pause/", {"reason": "Maintenance"}).status_code == 302
        assert "Maintenance" in text_of(admin, "/outward/")
        assert admin.post(f"{base}/pause/", {"reason": "Twice"}).status_code == 409
        moved = {"from_leaf": at, "to_leaf": 0, "reason": "Again"}
        assert admin.post(f"{base}/move/", moved).status_code == 302
        assert admin.post(f"{base}/move/", moved).status_code == 409
        assert f"leaf 0, {at}" in text_of(admin, "/outward/")
        assert admin.post(f"{base}/resume/", {"reason": "Done"}).status_code == 302
        assert again(row).state == ReceiverState.ACTIVE
        assert "The test event was taken" in admin.post(f"{base}/test/", follow=True).content.decode()
        place.status = 500
        shown = admin.post(f"{base}/test/", follow=True).content.decode()
        assert "The test event was not taken: the receiver answered 500." in shown
    assert ledger_tampering.differences() == []


def test_one_that_fails_for_an_hour_waits_in_the_inbox(admin: Client) -> None:
    with hook() as (place, row):
        place.status = 503
        seal("ONE")
        sending.send_due()
        assert "the receiver answered 503" in text_of(admin, "/outward/")
        assert "taken nothing for an hour" not in text_of(admin, "/inbox/")
        long_ago = clock.now() - 2 * timedelta(seconds=receiver_list.LATE_S)
        Receiver.objects.filter(pk=row.pk).update(failing_since=long_ago)
        assert "hook: the receiver answered 503" in text_of(admin, "/inbox/")


def test_others_read_and_cannot_change(admin: Client) -> None:
    row = event_receivers.add(PLACE)
    auditor = sign_in(Role.AUDITOR, name="otto")
    page = text_of(auditor, "/outward/")
    assert PLACE in page
    assert '<button type="submit" class="btn">' not in page.partition("<main")[2].partition("</main>")[0]
    assert auditor.post("/outward/", FORM | {"name": "two"}).status_code == 403
    assert auditor.get(f"/outward/{row.pk}/").status_code == 403
    assert admin.get("/outward/01890000-0000-7000-8000-000000000000/").status_code == 404
