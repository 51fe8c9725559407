"""What consultations say of a provider's health: silence counts against it, and an answer for it."""

from datetime import timedelta
from typing import Any

import pytest

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.advice.models import Consultation
from runtime.contracts.problem import Problem
from runtime.conversations.models import Capability
from runtime.conversations.services import capabilities
from runtime.core import clock
from runtime.maintenance.services import sweeper
from runtime.stops.services import stops
from tests.support import api_client, consulting_desk, worlds
from tests.support.api_client import TRADER, Caller
from tests.support.consulting_desk import VOICES, answer, ask, question_to, say

pytestmark = pytest.mark.django_db
_loaded = worlds.shared(consulting_desk.load)


@pytest.fixture
def trader(_loaded: None, db: None) -> Caller:
    return api_client.session(TRADER)


@pytest.fixture
def voices(trader: Caller) -> dict[str, Caller]:
    return consulting_desk.voices()


def row_of(name: str) -> Capability:
    return Capability.objects.get(provider__agent_id=name)


def ask_anew(trader: Caller, **changes: Any) -> None:
    """A question in a flow of its own."""
    ask(trader, trader.open_flow(), **changes).ok(201)


def let_pass(seconds: float = 61) -> sweeper.SweepResult:
    """What the sweeper does once the deadlines have passed."""
    moment = clock.now() + timedelta(seconds=seconds)
    with pytest.MonkeyPatch.context() as patch:
        # The one port of time: the clock of PostgreSQL cannot be moved.
        patch.setattr(clock, "now", lambda: moment)
        return sweeper.sweep()


def test_three_silences_in_a_row_lead_to_a_quarantine(trader: Caller, voices: dict[str, Caller]) -> None:
    for silences in (1, 2, 3):
        ask_anew(trader)
        say(voices["voice-one"], "large")
        assert let_pass().results == len(VOICES)
        assert row_of("voice-one").failures == 0
        assert row_of("voice-two").failures == silences % 3
    assert [row_of(name).state for name in VOICES] == ["LISTED", "QUARANTINED", "QUARANTINED"]
    ask_anew(trader)
    newest = Consultation.objects.order_by("-asked_at")[:1]
    assert [row.provider.agent_id for row in newest] == ["voice-one"]
    changed = LedgerEntry.objects.filter(stream="agent:voice-two", kind="capability:health_changed")
    assert [each.payload["because"] for each in changed] == ["CONSULTATION_OVERDUE"] * 3
    assert findings.verify_all().findings == []


def test_an_answer_ends_a_row_of_silences(trader: Caller, voices: dict[str, Caller]) -> None:
    ask_anew(trader)
    let_pass()
    assert row_of("voice-one").failures == 1
    ask_anew(trader)
    say(voices["voice-one"], "none of them")
    let_pass(0)
    assert row_of("voice-one").failures == 0
    last = LedgerEntry.objects.filter(stream="agent:voice-one").latest("seq")
    assert (last.payload["because"], last.payload["failures"]) == ("CONSULTATION_ANSWERED", 0)


def test_who_says_that_it_cannot_has_not_failed(trader: Caller, voices: dict[str, Caller]) -> None:
    ask_anew(trader)
    said = answer(question_to(voices["voice-one"]), None, headers={"message_type": "Error"})
    said["payload"] = {"code": "TEMPORARILY_UNAVAILABLE", "message": "Not today.", "retriable": True}
    voices["voice-one"].post("/messages", said).ok(201)
    let_pass()
    assert Consultation.objects.get(provider__agent_id="voice-one").state == "DECLINED"
    assert [row_of(name).failures for name in VOICES] == [0, 1, 1]


@pytest.mark.parametrize(
    ("promised", "seconds", "failures"),
    [({"p95_ms": 60_000}, 60, 1), ({"p95_ms": 60_000}, 30, 0), (None, 10, 1), (None, 9, 0)],
)
def test_silence_counts_only_where_there_was_time(
    trader: Caller, voices: dict[str, Caller], promised: Any, seconds: int, failures: int
) -> None:
    consulting_desk.advertise(voices["voice-one"], "voice-one", SLA={"p95_ms": 1})
    ask_anew(trader, time_s=seconds)
    # What it promises when the deadline has passed is what it is held to.
    consulting_desk.advertise(voices["voice-one"], "voice-one", SLA=promised)
    let_pass()
    assert row_of("voice-one").failures == failures


@pytest.mark.parametrize("everything", [True, False])
def test_who_was_stopped_has_not_failed(trader: Caller, voices: dict[str, Caller], everything: bool) -> None:
    ask_anew(trader)
    if everything:
        stops.stop_all(tenant="default", actor="user:1", reason="drill")
    else:
        stopped = stops.stop_agent(tenant="default", agent_id="voice-one", actor="user:1", reason="drill")
        assert not isinstance(stopped, Problem)
    assert let_pass().results == len(VOICES)
    assert row_of("voice-one").failures == 0
    assert row_of("voice-two").failures == (not everything)


def test_what_ended_counts_once(trader: Caller, voices: Any) -> None:
    ask_anew(trader)
    let_pass()
    asked = Consultation.objects.first()
    assert asked is not None
    assert sweeper.sweep().results == 0
    assert not capabilities.count_result(asked.pk)
    assert row_of(asked.provider.agent_id).failures == 1


def test_an_offer_that_is_gone_has_no_health(trader: Caller, voices: Any) -> None:
    ask_anew(trader)
    Capability.objects.all().delete()
    assert let_pass().results == len(VOICES)
