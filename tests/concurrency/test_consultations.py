"""Consultations under real threads: asked once, answered once, and ended once."""

from typing import Any
from uuid import UUID

import pytest

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.advice.models import Consultation
from runtime.advice.services import consultations
from runtime.contracts.advice import ConsultRequest
from runtime.contracts.message_answers import MessageAnswer
from runtime.contracts.problem import Problem
from runtime.conversations.models import Capability
from runtime.conversations.services import capabilities, consulting, sending
from runtime.core import transactions
from runtime.registry.models import Session
from tests.support import api_client, consulting_desk, racing, talking
from tests.support.api_client import TRADER, Caller
from tests.support.consulting_desk import VOICES

RACERS = 6
DEADLOCK = "40P01"


@pytest.fixture
def voices(real_db: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Caller]:
    # A deadlock is an error here, where otherwise the loser would try again a second later.
    monkeypatch.setattr(transactions, "RACE_CODES", transactions.RACE_CODES - {DEADLOCK})
    consulting_desk.load()
    return consulting_desk.voices()


@pytest.fixture
def trader(voices: Any) -> Caller:
    return api_client.session(TRADER)


def session(agent_id: str) -> Session:
    return Session.objects.select_related("agent").filter(agent__agent_id=agent_id).latest("pk")


def ask(dfid: str) -> Any:
    body = {"capability_name": "advice", "question": "Which?", "options": consulting_desk.ASKED}
    asked = ConsultRequest.model_validate(body, strict=False)
    return consulting.consult(agent=session(TRADER).agent, dfid=UUID(dfid), asked=asked)


def post(agent_id: str, sent: dict[str, Any]) -> Any:
    return sending.send(session=session(agent_id), received=talking.received(sent))


def ends(dfid: str) -> int:
    return LedgerEntry.objects.filter(stream=dfid, kind="consultation:ended").count()


def test_of_many_at_once_one_asks(trader: Caller) -> None:
    dfid = trader.open_flow()
    answers = racing.race(RACERS, lambda _: ask(dfid))
    refused = [each.code for each in answers if isinstance(each, Problem)]
    assert refused == ["NOT_CONSULTED"] * (RACERS - 1)
    assert Consultation.objects.count() == len(VOICES)
    assert findings.verify_all().findings == []


def test_many_flows_ask_the_same_voices_at_once(trader: Caller) -> None:
    flows = [trader.open_flow() for _ in range(RACERS)]
    answers = racing.race(RACERS, lambda number: ask(flows[number]))
    assert not any(isinstance(each, Problem) for each in answers)
    assert Consultation.objects.count() == len(VOICES) * RACERS
    assert findings.verify_all().findings == []


def test_all_voices_answer_at_once(trader: Caller, voices: dict[str, Caller]) -> None:
    dfid = trader.open_flow()
    ask(dfid)
    said = {
        name: consulting_desk.answer(consulting_desk.question_to(voices[name]), "small") for name in VOICES
    }
    answers = racing.race(len(VOICES), lambda number: post(VOICES[number], said[VOICES[number]]))
    assert all(isinstance(each, MessageAnswer) for each in answers)
    assert ends(dfid) == len(VOICES)
    assert findings.verify_all().findings == []


def test_of_several_answers_at_once_one_is_taken(trader: Caller, voices: dict[str, Caller]) -> None:
    dfid = trader.open_flow()
    ask(dfid)
    question = consulting_desk.question_to(voices["voice-one"])
    said = [consulting_desk.answer(question, "small") for _ in range(RACERS)]
    answers = racing.race(RACERS, lambda number: post("voice-one", said[number]))
    assert sorted(each.code for each in answers if isinstance(each, Problem)) == ["CONSULTATION_ENDED"] * (
        RACERS - 1
    )
    assert ends(dfid) == 1
    assert findings.verify_all().findings == []


def test_a_deadline_is_passed_once(trader: Caller) -> None:
    dfid = trader.open_flow()
    ask(dfid)
    consulting_desk.pass_deadlines()
    row = Consultation.objects.filter(provider__agent_id="voice-one").get()
    ended = racing.race(RACERS, lambda _: consultations.expire(row.pk))
    assert sorted(ended) == [False] * (RACERS - 1) + [True]
    assert ends(dfid) == 1


def test_a_silence_counts_once(trader: Caller) -> None:
    ask(trader.open_flow())
    consulting_desk.pass_deadlines()
    rows = list(Consultation.objects.filter(provider__agent_id="voice-one"))
    rows += Consultation.objects.filter(provider__agent_id="voice-two")
    for row in rows:
        consultations.expire(row.pk)
    counted = racing.race(RACERS, lambda number: capabilities.count_result(rows[number % 2].pk))
    assert sorted(counted) == [False] * (RACERS - 2) + [True] * 2
    named = Capability.objects.filter(provider__agent_id__in=["voice-one", "voice-two"])
    assert set(named.values_list("failures", flat=True)) == {1}
