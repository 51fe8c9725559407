"""Who was consulted, on the pages of the flow and the decision: claims, apart from the runtime's words."""

from typing import Any
from uuid import UUID

import pytest

from audit.access.roles import Role
from escalations import evidence_contracts
from escalations.models import Escalation, Evidence
from runtime.advice.models import DecisionPackageRow
from runtime.conversations.models import Conversation
from tests.support import api_client, consulting_desk, markup
from tests.support.api_client import Caller
from tests.support.consulting_desk import VOICES, decide
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def trader() -> Caller:
    consulting_desk.load()
    return api_client.session()


@pytest.fixture
def dfid(trader: Caller) -> str:
    return trader.open_flow()


def hear(trader: Caller, dfid: str, *, reason: str = "") -> None:
    """Two voices agree with the decider, and the third does not."""
    voices = consulting_desk.voices()
    decide(trader, dfid, consult=True)
    for name, choice in zip(VOICES, ("large", "large", "small"), strict=True):
        question = consulting_desk.question_to(voices[name])
        said = {"choice": choice, "confidence": 0.8, "reason": reason or f"I would take {choice}."}
        sent = consulting_desk.answer(question, choice, answer=said)
        voices[name].post("/messages", sent).ok(201)


def propose(trader: Caller, dfid: str) -> Escalation:
    package = decide(trader, dfid)
    body = api_client.proposal(
        trader.context(dfid),
        params=package["selected_action"]["parameters"],
        decision_id=package["decision_id"],
        confidence=package["confidence_score"],
        explain="I would like to.",
    )
    answer = trader.propose(dfid, body).ok()
    assert answer["verdict"] == "ESCALATE", answer
    return Escalation.objects.get(flow=UUID(dfid))


def test_the_page_of_a_flow_shows_them_as_claims(trader: Caller, dfid: str) -> None:
    operator = sign_in(Role.OPERATOR)
    hear(trader, dfid)
    waiting = markup.words(operator.get(f"/flows/{dfid}/").content.decode())
    assert "Other agents were consulted their claims, not findings" in waiting
    assert "67% of the answers" not in waiting, "no package has counted them yet"
    decide(trader, dfid)
    said = operator.get(f"/flows/{dfid}/").content.decode()
    words = markup.words(said)
    assert "3 asked, 3 answered, 0 abstained. 67% of the answers chose large ; 1 dissent." in words
    assert "Unverified claim by voice-three" in words
    assert "voice-three was asked, for its advice." in words
    assert "voice-three answered. What it says is its claim." in words
    assert "Other agents are heard first." in words
    assert "A person should decide: consult" not in words
    assert "Of 3 consulted, 3 answered and 2 agree: their claims." in words
    assert all(
        f"/conversations/{row.pk}/" in said for row in Conversation.objects.filter(name__contains="consul")
    )


def test_the_page_of_an_agent_shows_what_it_may_spend_on_them(trader: Caller) -> None:
    page = markup.words(sign_in(Role.OPERATOR).get(f"/agents/{api_client.TRADER}/").content.decode())
    for name in ("per_flow", "cost_units", "time_s"):
        assert f" {consulting_desk.BUDGET[name]} " in page
    assert "Consults other agents, times per flow" in page


def test_who_has_not_answered_is_shown_as_well(trader: Caller, dfid: str) -> None:
    consulting_desk.voices()
    decide(trader, dfid, consult=True)
    consulting_desk.pass_deadlines()
    decide(trader, dfid)
    words = markup.words(sign_in(Role.OPERATOR).get(f"/flows/{dfid}/").content.decode())
    assert "No answer in time" in words
    assert "voice-one did not answer in time, so it counts as abstained." in words


def test_the_decision_page_shows_them_apart_from_what_the_runtime_found(trader: Caller, dfid: str) -> None:
    hear(trader, dfid)
    escalation = propose(trader, dfid)
    words = markup.words(sign_in(Role.OPERATOR).get(f"/escalations/{escalation.pk}/").content.decode())
    assert "What the agents say that were consulted Unverified claims by other agents" in words
    assert "67% chose what was recommended" in words
    assert "voice-three Answered chose small dissents 0.8" in words
    assert words.index("What the runtime recommended") < words.index(
        "What the agents say that were consulted"
    )
    assert words.index("What the agent says") < words.index("What the agents say that were consulted")


def test_they_are_bound_into_the_evidence_hash(trader: Caller, dfid: str) -> None:
    hear(trader, dfid)
    escalation = propose(trader, dfid)
    row = Evidence.objects.filter(escalation=escalation).latest("revision")
    shown: Any = evidence_contracts.read_evidence(bytes(row.body))
    assert [each.provider for each in shown.advice.consulted] == sorted(VOICES)
    assert shown.to_bytes() == bytes(row.body)
    without = shown.advice.model_copy(update={"consulted": ()})
    assert shown.model_copy(update={"advice": without}).digest != escalation.evidence_hash


def test_words_of_providers_are_escaped(trader: Caller, dfid: str) -> None:
    hear(trader, dfid, reason=EVIL)
    escalation = propose(trader, dfid)
    operator = sign_in(Role.OPERATOR)
    for address in (f"/flows/{dfid}/", f"/escalations/{escalation.pk}/"):
        page = operator.get(address).content.decode()
        assert EVIL not in page
        assert "&lt;script&gt;" in page


def test_a_package_that_was_changed_counts_nothing(trader: Caller, dfid: str) -> None:
    hear(trader, dfid)
    decide(trader, dfid)
    row = DecisionPackageRow.objects.latest("decision_id")
    DecisionPackageRow.objects.filter(pk=row.pk).update(body=bytes(row.body).replace(b"0.6667", b"0.9999"))
    words = markup.words(sign_in(Role.OPERATOR).get(f"/flows/{dfid}/").content.decode())
    assert "Other agents were consulted" in words
    assert "of the answers chose" not in words


def test_a_flow_without_consultations_has_no_such_part(trader: Caller, dfid: str) -> None:
    consulting_desk.voices()
    decide(trader, dfid)
    assert "Other agents were consulted" not in sign_in(Role.OPERATOR).get(f"/flows/{dfid}/").content.decode()
