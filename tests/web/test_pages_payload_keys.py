"""The page of payload keys: who sees it, rotating, encrypting anew and destroying from it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.fixtures import Settings

from audit import ledger
from audit.access.roles import Role
from audit.models import ClassKey, LedgerEntry, Payload
from audit.verification import findings
from runtime.maintenance.models import PayloadRound
from runtime.maintenance.queries import payload_key_list
from runtime.maintenance.services import payload_rounds
from runtime.maintenance.views import payload_keys_page
from tests.support import erased_story, hold_story, key_story
from tests.support.erased_story import Story
from tests.web.test_pages import sign_in, text_of
from tests.web.test_pages_erased import admin

pytestmark = pytest.mark.django_db
PAGE = "/payload-keys/"
REASON = "the yearly rotation of Kowalczyk"


@pytest.fixture
def story(db: None) -> Story:
    return erased_story.told()


def in_use(data_class: str = "people") -> ClassKey:
    return ClassKey.objects.get(data_class=data_class, retired_at=None)


def rotate(client: Client, **changes: str) -> Any:
    given = {"data_class": "people", "older": "move", "reason": REASON}
    seen = {} if "seen" in changes else {"seen": str(in_use(changes.get("data_class", "people")).pk)}
    return client.post(reverse("rotate-payload-key"), {**given, **seen, **changes})


def path_of(key: ClassKey) -> str:
    return reverse("destroy-payload-key", args=[key.pk])


def shown(client: Client, key: ClassKey) -> str:
    """The digest in the form."""
    found = re.search(r'name="seen" value="([0-9a-f]{64})"', text_of(client, path_of(key)))
    assert found is not None
    return found[1]


def destroy(client: Client, key: ClassKey, **changes: str) -> Any:
    given = {"typed_id": str(key.pk)[:8], "reason": REASON}
    seen = {} if "seen" in changes else {"seen": shown(client, key)}
    return client.post(path_of(key), {**given, **seen, **changes})


def refused(answer: Any, code: str, status: int) -> bool:
    return answer.status_code == status and f'data-code="{code}"'.encode() in answer.content


def test_an_admin_rotates_a_class_and_the_rounds_do_the_rest() -> None:
    client, kept = admin(), key_story.commit(count=3)
    first = in_use()
    assert f'href="{PAGE}"' in text_of(client, "/retention/")
    assert rotate(client)["Location"] == PAGE
    second = in_use()
    assert set(Payload.objects.filter(commitment__in=kept).values_list("key", flat=True)) == {first.pk}
    page = text_of(client, PAGE)
    assert "Being encrypted anew: 0 done" in page
    assert REASON in page
    told = LedgerEntry.objects.get(kind="payload_key:rotated")
    assert reverse("entry", args=[told.stream, told.seq]) in page
    assert (told.actor, told.payload["key_id"]) == (f"user:{client.session['_auth_user_id']}", str(second.pk))
    assert b"Kowalczyk" not in bytes(told.body)
    assert payload_rounds.move_due(tenant="default") == 3
    assert set(Payload.objects.filter(commitment__in=kept).values_list("key", flat=True)) == {second.pk}
    assert "3 encrypted anew." in text_of(client, PAGE)
    for key in ClassKey.objects.all():
        assert key.wrapped is not None
        assert bytes(key.wrapped).hex() not in page
        assert key.master_id not in page
    assert key_story.list_faults() == []


def test_what_is_left_to_be_destroyed_is_not_moved_until_somebody_asks() -> None:
    client, (kept,) = admin(), key_story.commit()
    first = in_use()
    rotate(client, older="leave")
    assert payload_rounds.move_due(tenant="default") == 0
    assert Payload.objects.get(commitment=kept).key_id == first.pk
    assert client.post(reverse("encrypt-payloads"), {"key": str(first.pk)})["Location"] == PAGE
    payload_rounds.move_due(tenant="default")
    assert Payload.objects.get(commitment=kept).key_id == in_use().pk
    told = LedgerEntry.objects.get(kind="payload_key:reencryption_requested")
    assert told.payload == {"data_class": "people", "key_id": str(first.pk)}
    client.post(reverse("encrypt-payloads"), {"key": str(first.pk)})
    assert LedgerEntry.objects.filter(kind=told.kind).count() == 1  # it is under way


def test_what_is_in_clear_is_encrypted_on_request() -> None:
    client, (kept,) = admin(), key_story.commit("parameters")
    Payload.objects.filter(commitment=kept).update(key=None, nonce=None, content=key_story.WORDS)
    assert "<b>1</b> payload from before encryption is in clear" in text_of(client, PAGE)
    assert client.post(reverse("encrypt-payloads"))["Location"] == PAGE
    payload_rounds.move_due(tenant="default")
    assert Payload.objects.get(commitment=kept).key_id == in_use("parameters").pk
    assert "<b>0</b> payloads from before encryption are in clear" in text_of(client, PAGE)


def test_an_admin_destroys_a_key_with_just_what_was_shown(story: Story) -> None:
    client, key = admin(), key_story.retired("parameters")
    under = Payload.objects.filter(key=key, erased_at=None)
    count = under.count()
    page = text_of(client, path_of(key))
    assert f"<b>{count}</b> payloads can never be read again" in page
    assert re.search(r"<b>1</b> flow\b", page)
    assert reverse("flow", args=[story.dfid]) in page
    assert path_of(key) in text_of(client, PAGE)
    digest = shown(client, key)
    assert destroy(client, key, seen=digest)["Location"] == PAGE
    page = text_of(client, PAGE)
    assert f"{count} payloads are erased." in page
    assert f"{count} erased with the key" in page
    told = LedgerEntry.objects.get(kind="payload_key:destroyed")
    assert told.payload["commitments_digest"] == digest
    assert reverse("entry", args=[told.stream, told.seq]) in page
    assert REASON in page
    assert not under.exists()
    assert refused(destroy(client, key, seen=digest), "INVALID_REQUEST", 422)
    assert "was destroyed already" in text_of(client, path_of(key))
    assert findings.verify_all().findings == []


def test_what_has_changed_since_it_was_shown_is_not_destroyed() -> None:
    client, (gone, _) = admin(), key_story.commit(count=2)
    key = key_story.retired("people")
    digest = shown(client, key)
    ledger.erase_payload(tenant="default", commitment=gone, actor="system", at=key.created_at, reason="x")
    answer = destroy(client, key, seen=digest)
    assert refused(answer, "PAYLOAD_KEY_MOVED", 409)
    assert REASON in answer.content.decode()
    assert Payload.objects.filter(key=key, erased_at=None).count() == 1
    assert destroy(client, key).status_code == 302


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"typed_id": "people"}, "ID_NOT_TYPED", 422),
        ({"typed_id": ""}, "ID_NOT_TYPED", 422),
        ({"reason": " "}, "INVALID_REQUEST", 400),
        ({"reason": "x" * 501}, "INVALID_REQUEST", 400),
        ({"seen": "all of it"}, "INVALID_REQUEST", 400),
        ({"seen": "0" * 64}, "PAYLOAD_KEY_MOVED", 409),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_destroyed(
    changes: dict[str, str], code: str, status: int
) -> None:
    client = admin()
    key_story.commit()
    key = key_story.retired("people")
    assert refused(destroy(client, key, **changes), code, status)
    key.refresh_from_db()
    assert key.destroyed_at is None


def test_a_hold_a_young_key_and_too_many_payloads_are_refused(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, young = admin(), key_story.retired("people", ago=timedelta(minutes=59))
    page = text_of(client, path_of(young))
    assert "It can be destroyed from" in page
    assert "Destroy the key" not in page
    assert path_of(young) not in text_of(client, PAGE)
    assert refused(destroy(client, young, seen="0" * 64), "INVALID_REQUEST", 422)
    assert refused(destroy(client, in_use(), seen="0" * 64), "INVALID_REQUEST", 422)
    key = key_story.retired("parameters")
    digest = shown(client, key)
    hold = hold_story.place(story.dfid)
    page = text_of(client, path_of(key))
    assert f"The legal hold {hold_story.NAME}" in page
    assert reverse("flow", args=[story.dfid]) in page
    assert refused(destroy(client, key, seen=digest), "FLOW_KEPT", 409)
    hold_story.release(hold)
    monkeypatch.setattr(payload_keys_page, "MOST_AT_ONCE", 2)
    assert "manage.py payload_keys destroy parameters" in text_of(client, path_of(key))
    assert refused(destroy(client, key, seen=digest), "INVALID_REQUEST", 422)
    assert not LedgerEntry.objects.filter(kind="payload_key:destroyed").exists()


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"reason": ""}, "INVALID_REQUEST", 400),
        ({"older": "both"}, "INVALID_REQUEST", 400),
        ({"seen": "x"}, "INVALID_REQUEST", 400),
        ({"seen": "01890000-0000-7000-8000-000000000000"}, "PAYLOAD_KEY_MOVED", 409),
    ],
)
def test_a_wrong_form_rotates_nothing(changes: dict[str, str], code: str, status: int) -> None:
    client = admin()
    key_story.commit()
    answer = rotate(client, **changes)
    assert refused(answer, code, status)
    assert "reason" in changes or REASON in answer.content.decode()
    wrong = {"data_class": "secrets", "seen": str(in_use().pk)}
    assert refused(rotate(client, **wrong), "INVALID_REQUEST", 400)
    assert client.post(reverse("encrypt-payloads"), {"key": "x"}).status_code == 404
    assert refused(
        client.post(reverse("encrypt-payloads"), {"key": str(in_use().pk)}), "INVALID_REQUEST", 422
    )
    assert ClassKey.objects.count() == 1
    assert not PayloadRound.objects.exists()


def test_a_process_without_the_key_says_so_and_changes_nothing(settings: Settings) -> None:
    client = admin()
    key_story.commit()
    settings.DIR_PAYLOAD_KEY = ""
    page = text_of(client, PAGE)
    assert "This process has no payload key" in page
    assert "Rotate the key" not in page
    assert refused(rotate(client), "PAYLOAD_KEY_UNUSABLE", 409)
    assert ClassKey.objects.count() == 1


def test_an_old_password_changes_nothing() -> None:
    client = admin(fresh=False)
    key_story.commit()
    key = key_story.retired("people")
    for path in (PAGE, path_of(key)):
        assert "Confirm your password first" in text_of(client, path)
    answers = [
        rotate(client),
        destroy(client, key),
        client.post(reverse("encrypt-payloads"), {"key": str(key.pk)}),
    ]
    assert all(refused(answer, "STEP_UP", 401) for answer in answers)
    assert ClassKey.objects.count() == 2
    assert not PayloadRound.objects.exists()


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_others_read_the_list_and_change_nothing(role: Role) -> None:
    key_story.commit()
    key, client = key_story.retired("people"), sign_in(role)
    page = text_of(client, PAGE)
    assert str(key.pk) in page
    assert "<form" not in page.split("<main")[1].split("</main>")[0]
    assert client.get(path_of(key)).status_code == 403
    assert rotate(client).status_code == 403
    assert client.post(path_of(key), {"reason": "x"}).status_code == 403
    assert client.post(reverse("encrypt-payloads"), {"key": str(key.pk)}).status_code == 403
    assert ClassKey.objects.filter(destroyed_at=None).count() == 2


def test_payloads_whose_entries_are_further_back_are_said_to_be_more(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, key = admin(), key_story.retired("parameters")
    erased_story.propose(story.caller, number=2)
    monkeypatch.setattr(payload_key_list, "MOST_READ", 2)
    monkeypatch.setattr(payload_key_list, "_CHUNK", 2)
    assert "at least" in text_of(client, path_of(key))


def test_the_page_asks_a_bounded_number_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    client = admin()
    key_story.commit(count=12)
    text_of(client, PAGE)
    with CaptureQueriesContext(connection) as one:
        text_of(client, PAGE)
    for _ in range(4):
        key_story.retired("people")
    key_story.commit(count=12)
    monkeypatch.setattr(payload_key_list, "MOST_SHOWN", 3)
    monkeypatch.setattr(payload_key_list, "MOST_COUNTED", 5)
    with CaptureQueriesContext(connection) as many:
        page = text_of(client, PAGE)
    assert "5 or more" in page
    assert "The newest 3 keys are shown." in page
    assert len(many) <= len(one) + 2 + 4
