"""The list of calls in doubt: everybody reads it, and who decides may settle one by a plain form."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import EffectStatement, Escalation
from runtime.flows.models import Attempt, Flow, Intent
from tests.support import demo_scenes, factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/escalations/in-doubt/"


@pytest.fixture
def left() -> Escalation:
    """A call that was aborted while nobody knew whether it took effect."""
    return demo_scenes.leave_in_doubt()


def words_of(page: str) -> str:
    """The page without the marks around each value."""
    return re.sub(r"</?(bdi|code)>", "", page)


def at(escalation: Escalation) -> str:
    return f"{PAGE}{escalation.intent_id}/1/"


def test_the_list_shows_the_call_its_key_and_the_form(left: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), PAGE)
    assert left.effect in words_of(page)
    assert demo_scenes.UNANSWERED in page
    assert Attempt.objects.get().target_key in page
    assert f'href="/flows/{left.flow_id}/"' in page
    assert f'action="{at(left)}"' in page
    assert 'name="effect" value="HAPPENED"' in page
    assert 'name="effect" value="NOT_HAPPENED"' in page
    assert 'value="UNKNOWN"' not in page


def test_everything_that_a_target_or_an_agent_wrote_is_escaped(left: Escalation) -> None:
    Attempt.objects.update(detail="<script>alert(1)</script>\u202e")
    Intent.objects.update(target="<b>bank</b>")
    page = text_of(sign_in(Role.OPERATOR), PAGE)
    for raw in ("<script>alert", "<b>bank", "\u202e"):
        assert raw not in page
    assert "&lt;script&gt;alert(1)" in page


def test_an_auditor_reads_and_is_offered_no_form(left: Escalation) -> None:
    client = sign_in(Role.AUDITOR)
    page = text_of(client, PAGE)
    assert left.effect in words_of(page)
    assert at(left) not in page
    assert client.post(at(left), {"effect": "HAPPENED", "reason": "It is there."}).status_code == 403
    assert not EffectStatement.objects.exists()


def test_who_is_not_signed_in_is_sent_to_sign_in(left: Escalation) -> None:
    for answer in (Client().get(PAGE), Client().post(at(left))):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/")


def test_a_statement_settles_it_and_the_list_is_empty_again(left: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    taken = client.post(at(left), {"effect": "NOT_HAPPENED", "reason": "Their book has nothing."})
    assert (taken.status_code, taken["Location"]) == (302, PAGE)
    page = text_of(client, PAGE)
    assert "Recorded and signed: the call did not take effect." in page
    assert "No calls in doubt" in page
    timeline = text_of(client, f"/flows/{left.flow_id}/")
    assert "Effect stated" in timeline
    assert "A person stated that the call in doubt of step order had no effect." in timeline


def test_of_two_people_the_second_is_told_that_it_is_stated(left: Escalation) -> None:
    first, second = sign_in(Role.OPERATOR), sign_in(Role.SENIOR, name="mara")
    assert first.post(at(left), {"effect": "HAPPENED", "reason": "It is there."}).status_code == 302
    late = second.post(at(left), {"effect": "NOT_HAPPENED", "reason": "I see nothing."})
    assert late.status_code == 409
    assert "ALREADY_STATED" in late.content.decode()
    assert EffectStatement.objects.get().effect == "HAPPENED"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"reason": "It is there."}, "STATEMENT_MISSING"),
        ({"effect": "UNKNOWN", "reason": "Who knows?"}, "STATEMENT_MISSING"),
        ({"effect": "MAYBE", "reason": "It is there."}, "EFFECT_UNREADABLE"),
        ({"effect": "HAPPENED"}, "JUSTIFICATION_MISSING"),
    ],
)
def test_what_is_refused_keeps_what_was_typed(left: Escalation, fields: dict[str, str], code: str) -> None:
    answer = sign_in(Role.OPERATOR).post(at(left), fields)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert code in page
    assert fields.get("reason", "") in page
    assert not EffectStatement.objects.exists()


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.AUDITOR])
def test_a_get_states_nothing_and_leads_to_the_list(left: Escalation, role: Role) -> None:
    answer = sign_in(role).get(at(left))
    assert (answer.status_code, answer["Location"]) == (302, f"{PAGE}#call-{left.intent_id}-1")
    assert not EffectStatement.objects.exists()


def test_what_was_typed_is_there_again_after_a_detour_until_it_is_recorded(left: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    client.post(at(left), {"reason": "Their book has nothing."})
    page = text_of(client, PAGE)
    assert "Their book has nothing.</textarea>" in page
    assert " checked" not in page.split('class="form decision"')[1].split("</form>")[0]
    assert "Their book" not in text_of(sign_in(Role.SENIOR, name="mara"), PAGE)
    client.post(at(left), {"effect": "NOT_HAPPENED", "reason": "Their book has nothing."})
    assert client.session["decision_drafts"] == {}


def test_whoever_was_signed_out_comes_back_to_the_list(left: Escalation) -> None:
    answer = Client().post(at(left), headers={"Referer": f"http://testserver{PAGE}"})
    assert answer["Location"] == f"/accounts/login/?next={PAGE}"
    foreign = Client().post(at(left), headers={"Referer": f"http://evil.example{PAGE}"})
    assert foreign["Location"] == "/accounts/login/?next=/"


def test_the_overview_and_the_queue_count_it(left: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    overview, queue = text_of(client, "/"), text_of(client, "/escalations/")
    assert 'href="/escalations/in-doubt/"' in overview
    assert "1 call in doubt." in overview
    assert '<bdi>Calls in doubt</bdi> <span class="n">1</span>' in queue
    client.post(at(left), {"effect": "HAPPENED", "reason": "It is there."})
    assert "/escalations/in-doubt/" not in text_of(client, "/")


def test_the_decision_says_what_is_not_known(left: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{left.pk}/")
    assert "Effect not known" in page
    assert Flow.objects.get(pk=left.flow_id).state == "ABORTED"


def test_an_abort_from_the_page_is_still_one_key() -> None:
    escalation = demo_scenes.put_in_doubt()
    client = sign_in(Role.OPERATOR)
    request = factories.decision_request(escalation, Action.ABORT)
    posted = client.post(
        f"/escalations/{escalation.pk}/decision/",
        {
            "action": "ABORT",
            "evidence_hash": request.evidence_hash,
            "version": str(request.version),
            "impact": request.impact,
        },
    )
    assert posted.status_code == 302
    assert escalation.effect in words_of(text_of(client, PAGE))
