"""Asking the agent, in the browser: the form, the wait, the answer as an unverified claim, and the queue."""

import pytest
from django.test import Client

from audit.access.roles import Role
from escalations import contracts, presenters
from escalations.models import Escalation, Question
from escalations.services import questions
from runtime.contracts import api_schemas
from runtime.core import clock
from runtime.registry.models import Agent
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db

HOSTILE = demo_scenes.HOSTILE


@pytest.fixture
def case() -> Escalation:
    demo_scenes.load_pack()
    said = demo_scenes.propose(
        demo_scenes.session_of("ambitious-trader"),
        "ADJUST_POSITION",
        demo_scenes.order("BUY", 12, "GOOG", 224_000),
    )
    return Escalation.objects.get(pk=said["escalation_id"])


def form(case: Escalation, **fields: str) -> dict[str, str]:
    """The fields as the page holds them now."""
    row = Escalation.objects.get(pk=case.pk)
    bound = {"evidence_hash": row.evidence_hash, "version": str(row.version), "impact": row.impact}
    return {"action": "REQUEST_INFO", **bound, **fields}


def ask(client: Client, case: Escalation, **fields: str) -> Question:
    """The question that stands after the form was posted."""
    answer = client.post(f"/escalations/{case.pk}/decision/", form(case, **fields))
    assert (answer.status_code, answer["Location"]) == (302, f"/escalations/{case.pk}/"), answer.content
    return Question.objects.latest("number")


def reply(case: Escalation, text: str, *, ref: str | None = None) -> None:
    """The agent's own answer."""
    agent = Agent.objects.get(agent_id="ambitious-trader")
    said = questions.answer(
        agent=agent, dfid=case.flow_id, asked=api_schemas.AnswerRequest(text=text, payload_ref=ref)
    )
    assert isinstance(said, api_schemas.AnswerView), said


def test_the_page_offers_to_ask_in_a_field_of_its_own(case: Escalation) -> None:
    page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
    assert 'name="action" value="REQUEST_INFO"' in page
    assert 'name="question"' in page
    assert "Ask a question first. The deadline pauses until the agent answers" in page


@pytest.mark.parametrize("field", ["question", "justification"])
def test_a_plain_post_asks_by_either_field(case: Escalation, field: str) -> None:
    client = sign_in(Role.OPERATOR)
    assert ask(client, case, **{field: " Why\r\ntwelve? "}).text == "Why\ntwelve?"
    page = text_of(client, f"/escalations/{case.pk}/")
    assert "Question sent. The deadline is paused until the agent answers." in page
    assert page.count("Waiting for the agent") >= 2
    assert "deadline paused, resumes in" in page
    assert "question 1 of 3" in page
    assert "A question is already open. Wait for the answer, or decide." in page


def test_the_words_of_a_reason_are_not_sent_when_a_question_is(case: Escalation) -> None:
    asked = ask(sign_in(Role.OPERATOR), case, question="Why twelve?", justification="I do not trust it.")
    assert asked.text == "Why twelve?"


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"question": ""}, 400, "JUSTIFICATION_MISSING"),
        ({"question": "x" * 4001}, 400, "TEXT_TOO_LONG"),
        ({"question": "Why?", "version": "7"}, 409, "VERSION_CHANGED"),
    ],
)
def test_a_question_that_cannot_go_out_keeps_what_was_typed(
    case: Escalation, fields: dict[str, str], status: int, code: str
) -> None:
    answer = sign_in(Role.OPERATOR).post(f"/escalations/{case.pk}/decision/", form(case, **fields))
    assert answer.status_code == status
    page = answer.content.decode()
    assert code in page
    assert "Nothing was decided." in page
    assert not Question.objects.exists()


def test_the_queue_says_who_is_waited_for(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    assert "Waiting for the agent" not in text_of(client, "/escalations/")
    ask(client, case, question="Why twelve?")
    page = text_of(client, "/escalations/")
    assert "Waiting for the agent" in page
    assert "deadline paused" in page


def test_an_answer_is_an_unverified_claim_and_escaped(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    ask(client, case, question=HOSTILE)
    reply(case, HOSTILE, ref="s3://notes/<17>")
    page = text_of(client, f"/escalations/{case.pk}/")
    assert "Unverified answer by the agent" in page
    assert "s3://notes/&lt;17&gt;" in page
    assert "answer to question 1, unverified" in page
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert page.index("What the agent says</h2>") < page.index("Unverified answer by the agent")


def test_live_parts_follow_the_question(case: Escalation) -> None:
    client = sign_in(Role.OPERATOR)
    at = f"/escalations/{case.pk}/questions/"
    assert text_of(client, at).strip() == ""
    assert "aborted unless decided in" in text_of(client, f"{at}?part=clock")
    ask(client, case, question="Why twelve?")
    assert "Why twelve?" in text_of(client, at)
    assert "deadline paused" in text_of(client, f"{at}?part=clock")
    reply(case, "Since ten were too few.")
    said = text_of(client, at)
    assert "Answered, not verified" in said
    assert f"/escalations/{case.pk}/#answer-1" in said
    assert "ten were too few" not in said  # an answer is shown with the evidence that it belongs to


def test_the_page_says_that_the_wait_is_over(case: Escalation, monkeypatch: pytest.MonkeyPatch) -> None:
    client = sign_in(Role.OPERATOR)
    until = ask(client, case, question="Why twelve?").wait_until
    late = until + (until - clock.now())
    monkeypatch.setattr(clock, "now", lambda: late)
    said = text_of(client, f"/escalations/{case.pk}/questions/")
    assert "No answer came in time, and the deadline is running again." in said
    assert "Waiting for the agent" not in said  # whether or not the sweeper has come by
    assert questions.stop_all_overdue() == 1
    said = text_of(client, f"/escalations/{case.pk}/questions/")
    assert "No answer in time" in said
    page = text_of(client, f"/escalations/{case.pk}/")
    assert "<b>Question 1.</b> Why twelve?" in page
    assert "Ask a question first." in page


def test_an_auditor_sees_the_wait_and_asks_nothing(case: Escalation) -> None:
    ask(sign_in(Role.OPERATOR), case, question="Why twelve?")
    auditor = sign_in(Role.AUDITOR, name="ada")
    assert "Why twelve?" in text_of(auditor, f"/escalations/{case.pk}/")
    answer = auditor.post(f"/escalations/{case.pk}/decision/", form(case, question="And why not?"))
    assert answer.status_code == 403
    assert Question.objects.count() == 1


def test_every_end_of_a_question_has_its_words() -> None:
    assert set(presenters.CLOSINGS) == {"", *contracts.Closing}
