"""A desk that consults: the trader of the API's world, and three voices that offer their advice."""

from datetime import timedelta
from typing import Any

import yaml
from django.db.models import F

from runtime.advice.models import Consultation
from runtime.conversations.models import Message
from runtime.core import clock
from runtime.packs.services import packs
from tests.support import api_client, talking
from tests.support.api_client import TRADER, Caller

VOICES = ("voice-one", "voice-two", "voice-three")
CAPABILITY = "advice"
BUDGET = {"per_flow": 4, "cost_units": 10, "time_s": 60}
QUESTION = "How much should we buy?"
OBJECTIVES = [{"id": "gain", "weight": 1}, {"id": "calm", "weight": 1}]


def option(name: str, *, gain: float, calm: float, quantity: int, confidence: float = 0.9) -> dict[str, Any]:
    """A purchase, with its two utilities."""
    params = {"symbol": "AAPL", "action": "BUY", "quantity": quantity, "notional_cents": 18950 * quantity}
    return {
        "id": name,
        "action": {"name": "ADJUST_POSITION", "parameters": params},
        "utilities": {"gain": gain, "calm": calm},
        "confidence": confidence,
    }


# Neither is better in everything; the larger one has the greater sum.
OPTIONS = [
    option("large", gain=0.9, calm=0.4, quantity=3),
    option("small", gain=0.3, calm=0.8, quantity=1),
]
ASKED = [{"id": each["id"], "action": each["action"]} for each in OPTIONS]


def load(**budget: Any) -> None:
    """The pack: the trader may consult within BUDGET, and the voices only speak."""
    pack = yaml.safe_load(api_client.PACK)
    trader = {**pack["agents"][0]["manifest"], "consultations": {**BUDGET, **budget}}
    pack["agents"][0]["manifest"] = trader
    pack["agents"] += [
        {
            "agent_id": name,
            "role": "MONITOR",
            "owner": "research",
            "mission": "Say which option is better.",
            "manifest": {"version": "1.4.0", "policy_kinds": []},
        }
        for name in VOICES
    ]
    loaded = packs.load(text=yaml.safe_dump(pack), source="consulting.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


def advertise(voice: Caller, agent_id: str, **changes: Any) -> None:
    """Offer the advice of a voice; it costs two units, and a second of time."""
    offer = {
        "capability_name": CAPABILITY,
        "versions": ["1.0"],
        "SLA": {"p95_ms": 1000},
        "cost_model": {"per_call": 2},
        **changes,
    }
    headers = {"message_type": "CapabilityAdvertise", "from_agent_id": agent_id, "to_agent_id": None}
    sent = talking.message(offer, conversation_id=f"registry-{agent_id}", **headers)
    voice.post("/messages", sent).ok(201)


def voices() -> dict[str, Caller]:
    """Sessions of the three, which have offered their advice."""
    found = {name: api_client.session(name) for name in VOICES}
    for name, voice in found.items():
        advertise(voice, name)
    return found


def decide(trader: Caller, dfid: str, *, consult: bool = False, **changes: Any) -> dict[str, Any]:
    """The package on OPTIONS; with `consult`, others may be asked."""
    body: dict[str, Any] = {"objectives": OBJECTIVES, "options": OPTIONS, **changes}
    if consult:
        body["consult"] = {"capability_name": CAPABILITY, "question": QUESTION}
    answer: dict[str, Any] = trader.post(f"/flows/{dfid}/decide", body).ok()
    return answer


def ask(trader: Caller, dfid: str, **changes: Any) -> Any:
    """A question of the trader itself."""
    body = {"capability_name": CAPABILITY, "question": QUESTION, "options": ASKED, **changes}
    return trader.post(f"/flows/{dfid}/consultations", body)


def question_to(voice: Caller) -> dict[str, Any]:
    """The newest message that waits for a voice."""
    found: list[dict[str, Any]] = voice.get("/messages").ok()["messages"]
    return found[-1]


def answer(question: dict[str, Any], choice: Any, **changes: Any) -> dict[str, Any]:
    """What a voice sends: `payload` and headers can be changed."""
    payload = {"answer": {"choice": choice, "confidence": 0.8, "reason": f"I would take {choice}."}}
    sent = talking.answer_to(question, **{"to_agent_id": TRADER, **changes.pop("headers", {})})
    return {**sent, "payload": {**payload, **changes}}


def say(voice: Caller, choice: str) -> dict[str, Any]:
    """A voice answers the question that waits for it."""
    sent = answer(question_to(voice), choice)
    voice.post("/messages", sent).ok(201)
    return sent


def pass_deadlines() -> None:
    """Move what was asked into the past with its deadlines, in the rows alone."""
    ago = timedelta(hours=1)
    past = clock.now() - timedelta(seconds=1)
    Consultation.objects.update(asked_at=F("asked_at") - ago, deadline=F("deadline") - ago)
    Message.objects.filter(consultation__isnull=False).update(expires_at=past)
