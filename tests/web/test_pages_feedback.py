"""Feedback on the page of a record: who may give it, what is shown, and what is refused."""

from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from audit.access.roles import Role
from audit.models import LedgerEntry, RecordFeedback
from runtime.maintenance.services import payloads
from tests.support import ledger_tampering, markup, recorded_flows, worlds
from tests.support.recorded_flows import Recorded
from tests.web.test_pages import code_in, sign_in, text_of

world = worlds.shared(recorded_flows.build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]
HOSTILE = "<script>alert(1)</script>\n\u202egnp.exe \"'><img src=x onerror=alert(2)>"


def page_of(world: Recorded, name: str) -> str:
    return reverse("record", args=[world.row(name).record_id])


def form(**said: str) -> dict[str, str]:
    return {"form_id": str(uuid4()), "assessment": "WRONG", "reason": "Too early.", **said}


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.ADMIN])
def test_people_at_work_give_feedback(world: Recorded, role: Role) -> None:
    client, page = sign_in(role, name="sam"), page_of(world, "overridden 2")
    answer = client.post(f"{page}feedback/", form(correction="REFUSE"))
    assert (answer.status_code, answer["Location"]) == (302, f"{page}#feedback")
    shown = markup.words(text_of(client, page))
    for words in ("Wrong", "sam", "Should have been: Refuse it", "Too early."):
        assert words in shown
    assert "who decided this" not in shown


def test_auditors_and_agents_and_strangers_give_none(world: Recorded) -> None:
    page = page_of(world, "overridden 2")
    auditor = sign_in(Role.AUDITOR)
    assert "Give feedback" not in text_of(auditor, page)
    assert auditor.post(f"{page}feedback/", form()).status_code == 403
    assert Client().post(f"{page}feedback/", form())["Location"].startswith("/accounts/login/")
    agent = Client().post(f"{page}feedback/", form(), headers={"Authorization": "Bearer dk_anything"})
    assert agent["Location"].startswith("/accounts/login/")
    assert Client(enforce_csrf_checks=True).post(f"{page}feedback/", form()).status_code == 403
    assert not RecordFeedback.objects.exists()


def test_what_was_entered_survives_a_refusal(world: Recorded) -> None:
    client, page = sign_in(Role.OPERATOR), page_of(world, "aborted 2")
    answer = client.post(f"{page}feedback/", form(assessment="UNSAFE", reason=" ", correction="ALLOW"))
    assert answer.status_code == 422
    text = answer.content.decode()
    assert "Write why." in text
    assert 'value="ALLOW" selected' in text
    assert not RecordFeedback.objects.exists()


def test_the_page_shows_hostile_words_as_words(world: Recorded) -> None:
    client, page = sign_in(Role.OPERATOR), page_of(world, "aborted 2")
    client.post(f"{page}feedback/", form(reason=HOSTILE))
    text = text_of(client, page)
    assert code_in(text) == []
    assert "&lt;script&gt;alert(1)" in text
    assert "\u202e" not in text


def test_the_record_is_found_by_it_and_the_flow_tells_it(world: Recorded) -> None:
    client, row = sign_in(Role.OPERATOR), world.row("overridden 2")
    client.post(f"{page_of(world, 'overridden 2')}feedback/", form(assessment="UNSAFE"))
    assert row.record_id in text_of(client, "/records/?feedback=UNSAFE")
    assert row.record_id not in text_of(client, "/records/?feedback=RIGHT")
    assert "is not a value of feedback" in text_of(client, "/records/?feedback=UNHEARD")
    assert f"Unsafe: record {row.record_id}" in text_of(client, f"/flows/{row.dfid}/")


def test_an_erased_or_changed_reason_is_not_shown(world: Recorded) -> None:
    client, page = sign_in(Role.OPERATOR), page_of(world, "overridden 2")
    client.post(f"{page}feedback/", form())
    commitment = RecordFeedback.objects.get().commitment
    ledger_tampering.quietly("UPDATE audit_recordfeedback SET correction = 'ALLOW'")
    assert "does not match the ledger. Its reason is not shown" in text_of(client, page)
    ledger_tampering.quietly("UPDATE audit_recordfeedback SET correction = ''")
    payloads.erase(tenant="default", commitment=commitment, actor="user:1", reason="asked for it")
    assert "The reason was erased." in text_of(client, page)


def test_no_feedback_on_what_is_not_shown(world: Recorded) -> None:
    client, page = sign_in(Role.OPERATOR), page_of(world, "overridden 2")
    assert client.post("/records/dr_00/feedback/", form()).status_code == 404
    trigger = LedgerEntry.objects.get(stream=str(world.flows["overridden"]), kind="flow:opened")
    commitment = trigger.payload["trigger_commitment"]
    payloads.erase(tenant="default", commitment=commitment, actor="user:1", reason="asked for it")
    assert client.post(f"{page}feedback/", form()).status_code == 404
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET status = 'CLOSED'")
    other = f"{reverse('record', args=[world.row('accepted 1').record_id])}feedback/"
    assert client.post(other, form()).status_code == 409
    assert not RecordFeedback.objects.exists()
