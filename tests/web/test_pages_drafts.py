"""Typed text survives a detour, claims are seen by others, and a late decision hears who was first."""

import re
from typing import Any

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations.models import Decision, Escalation
from runtime.state.services import facts
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db

TEXT = "Two thirds of the desk agree <b>today</b>"


@pytest.fixture
def case() -> Escalation:
    demo_scenes.load_pack()
    order = demo_scenes.order("BUY", 8, "AAPL", 151_600)
    said = demo_scenes.propose(demo_scenes.session_of("ambitious-trader"), "ADJUST_POSITION", order)
    return Escalation.objects.get(pk=said["escalation_id"])


def send(client: Client, case: Escalation, action: str, **fields: Any) -> Any:
    """Post the form as the page has it now."""
    case.refresh_from_db()
    shown = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    body = {**shown, "action": action, "justification": TEXT, "asks_claim": "1", **fields}
    return client.post(f"/escalations/{case.pk}/decision/", body)


def test_a_refused_form_is_there_again_after_a_detour_until_it_is_taken(case: Escalation) -> None:
    client, path = sign_in(Role.OPERATOR), f"/escalations/{case.pk}/"
    refused = send(client, case, "OVERRIDE", version=99, conditions="1 == 1")
    assert refused.status_code == 409
    page = text_of(client, path)
    assert "Two thirds of the desk agree &lt;b&gt;today&lt;/b&gt;" in page
    assert ">1 == 1</textarea>" in page
    assert not re.search(r'value="OVERRIDE"[^>]* checked', page)
    assert "Two thirds" not in text_of(sign_in(Role.OPERATOR, name="another"), path)
    assert send(client, case, "ABORT").status_code == 302
    assert client.session["decision_drafts"] == {}


def test_only_the_newest_drafts_are_kept(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    ids = []
    for _ in range(6):
        order = demo_scenes.order("BUY", 8, "AAPL", 151_600)
        said = demo_scenes.propose(demo_scenes.session_of("momentum-trader"), "ADJUST_POSITION", order)
        if "escalation_id" in said:
            ids.append(said["escalation_id"])
            send(client, Escalation.objects.get(pk=ids[-1]), "OVERRIDE", version=99)
    assert list(client.session["decision_drafts"]) == ids[-5:]


def test_a_claim_is_seen_by_others_and_deciding_over_it_asks_first(case: Escalation) -> None:
    olga, sam = sign_in(Role.OPERATOR, name="olga"), sign_in(Role.OPERATOR, name="sam")
    path = f"/escalations/{case.pk}/"
    assert "has claimed" not in text_of(sam, f"{path}questions/?part=claim")
    assert "over_claim" not in text_of(sam, f"{path}questions/?part=over")
    olga.post(f"{path}claim/")
    assert "Claimed by olga" in text_of(sam, f"{path}questions/?part=claim")
    assert "olga has claimed this. Decide anyway." in text_of(sam, f"{path}questions/?part=over")
    assert "over_claim" not in text_of(olga, f"{path}questions/?part=over")
    answer = send(sam, case, "OVERRIDE")
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "olga has claimed this. Tick Decide anyway, or abort." in page
    assert re.search(r'value="OVERRIDE"[^>]* checked', page)
    assert not Decision.objects.exists()
    assert send(sam, case, "OVERRIDE", over_claim="on").status_code == 302


@pytest.mark.parametrize(("who", "action"), [("sam", "ABORT"), ("olga", "OVERRIDE")])
def test_an_abort_and_the_holder_are_not_asked(case: Escalation, who: str, action: str) -> None:
    clients = {name: sign_in(Role.OPERATOR, name=name) for name in ("olga", "sam")}
    clients["olga"].post(f"/escalations/{case.pk}/claim/")
    assert send(clients[who], case, action).status_code == 302


def test_a_post_that_knows_of_no_claims_is_not_asked(case: Escalation) -> None:
    olga, sam = sign_in(Role.OPERATOR, name="olga"), sign_in(Role.OPERATOR, name="sam")
    olga.post(f"/escalations/{case.pk}/claim/")
    shown = {"evidence_hash": case.evidence_hash, "version": case.version, "impact": case.impact}
    body = {**shown, "action": "OVERRIDE", "justification": TEXT}
    assert sam.post(f"/escalations/{case.pk}/decision/", body).status_code == 302


def test_a_late_decision_hears_who_was_first_with_what_and_when(case: Escalation) -> None:
    olga, sam = sign_in(Role.OPERATOR, name="olga"), sign_in(Role.OPERATOR, name="sam")
    path = f"/escalations/{case.pk}/"
    assert send(sam, case, "ABORT").status_code == 302
    answer = send(olga, case, "OVERRIDE")
    assert answer.status_code == 409
    late = r"sam aborted this \d+ s before you, at \d\d:\d\d:\d\d UTC: &quot;Two thirds of .*&lt;b&gt;"
    assert re.search(late, answer.content.decode())
    state = text_of(olga, f"{path}state/?version=1&revision=1")
    assert "This has been closed: aborted by sam" in state
    assert "Two thirds of the desk agree &lt;b&gt;today&lt;/b&gt;" in state
    assert re.search(r"You aborted this \d+ s ago", send(sam, case, "OVERRIDE").content.decode())


def test_evidence_that_moved_keeps_the_text_in_the_answer_and_after_it(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    facts.write(tenant="default", path="price.AAPL", value=30_000, writer="feed:test", expected_version=None)
    assert send(client, case, "OVERRIDE").status_code == 409
    assert "Two thirds of the desk" in text_of(client, f"/escalations/{case.pk}/")


def test_what_no_form_takes_is_not_kept_in_the_session(case: Escalation) -> None:
    client = sign_in(Role.AUDITOR)
    many = {f"param:p{number}": "1" for number in range(500)}
    send(client, case, "OVERRIDE", version=99, params="x" * 5000, **many, **{"param:" + "n" * 300: "1"})
    kept = client.session["decision_drafts"][str(case.pk)]
    assert len(kept) == 100
    assert "params" not in kept
    assert kept["justification"] == TEXT
    assert max(len(name) for name in kept) < 200
