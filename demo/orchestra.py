"""A conductor that hears three voices before it proposes, and the voices, of which one is careful."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

from demo import messages, proposals
from demo.agent_base import Persona
from demo.client import Context

CAPABILITY: Final = "orchestra-voice"
_VOICES_S: Final = 15
_ANSWERS_S: Final = 20
_POLL_S: Final = 5
_LISTEN_S: Final = 20
# Shares of the larger order; the careful voice agrees to the second.
_LARGE, _MODEST = 5, 2
_CAREFUL_SHARES: Final = 2
_STEADY_SHARES: Final = 8
_OBJECTIVES: Final = ({"id": "gain", "weight": 2}, {"id": "calm", "weight": 1})
_QUESTION: Final = "Which order in {symbol} fits the desk today?"


@dataclass(frozen=True)
class Opinion:
    """What a voice answers."""

    choice: str
    confidence: float
    reason: str


class Conductor(Persona):
    """Weighs two orders, lets the runtime ask the voices, and proposes what is recommended then."""

    pace_s: ClassVar[tuple[float, float]] = (20.0, 35.0)

    def turn(self) -> None:
        """A large order every other turn, about which the careful voice disagrees; else a modest one."""
        self.listen()
        if not self._find_voices():
            return
        dfid, context = self.begin(trigger="signal: ask the orchestra")
        if context.fact("market.state") == "CLOSED":
            self.client.close_flow(dfid, reason="The market is closed.")
            return
        is_large = self.turns % 2 == 1 and self.may_escalate(dfid)
        question = orders(context=context, symbol=self._symbol(), most=_LARGE if is_large else _MODEST)
        consult = {"capability_name": CAPABILITY, "question": question.pop("question"), "providers": 3}
        package = self.client.decide(dfid, {**question, "consult": {**consult, "time_s": _ANSWERS_S}})
        if package["method"] == "consult":
            self._hear_voices(dfid)
            package = self.client.decide(dfid, question)
        self.settle(self.propose(dfid, proposals.recommended(package, context=self.client.context(dfid))))

    def reply(self, proposal: Mapping[str, Any]) -> str | None:
        """The proposal once more, as figures."""
        return proposals.account(proposal) if proposal else None

    def _symbol(self) -> str:
        return self.rng.choice(("AAPL", "NVDA", "GOOG", "AMZN"))

    def _find_voices(self) -> bool:
        """Whether the registry names all three; they may come up after the conductor."""
        deadline = time.monotonic() + _VOICES_S
        while time.monotonic() < deadline and not self.stop.is_set():
            if len(self.client.capabilities(CAPABILITY)) >= len(VOICES):
                return True
            self.stop.wait(1.0)
        return False

    def _hear_voices(self, dfid: str) -> None:
        """Take answers from the mailbox until nobody is waited for, or their time is over."""
        deadline = time.monotonic() + _ANSWERS_S
        while time.monotonic() < deadline and not self.stop.is_set():
            if all(each["state"] != "ASKED" for each in self.client.consultations(dfid)):
                return
            for message in self.client.messages(wait_s=_POLL_S):
                self.client.acknowledge(message["headers"]["message_id"])


class Voice(Persona):
    """Offers its opinion, and answers whoever asks; proposes nothing."""

    pace_s: ClassVar[tuple[float, float]] = (0.1, 0.3)
    has_offered: bool = False

    def turn(self) -> None:
        """Wait for questions and answer each."""
        name = self.client.agent_id
        if not self.has_offered:
            self.client.send(messages.offer(sender=name, capability=CAPABILITY))
            self.has_offered = True
        for message in self.client.messages(wait_s=_LISTEN_S):
            if message["headers"]["message_type"] == "ConsultationRequest":
                found = VOICES[name](message["payload"]["constraints"]["options"])
                said = messages.answer(
                    message, choice=found.choice, confidence=found.confidence, reason=found.reason
                )
                self.client.send(said)
            self.client.acknowledge(message["headers"]["message_id"])


def orders(*, context: Context, symbol: str, most: int) -> dict[str, Any]:
    """Two orders to decide between: ``most`` shares, or half of them and calm."""
    sizes = {"whole": most, "half": max(1, most // 2)}
    utilities = {"whole": {"gain": 0.9, "calm": 0.4}, "half": {"gain": 0.4, "calm": 0.9}}
    return {
        "question": _QUESTION.format(symbol=symbol),
        "objectives": list(_OBJECTIVES),
        "options": [
            {
                "id": name,
                "action": {
                    "name": "ADJUST_POSITION",
                    "parameters": proposals.order(context=context, symbol=symbol, quantity=shares),
                },
                "utilities": utilities[name],
                "confidence": 0.9,
            }
            for name, shares in sizes.items()
        ],
    }


def _momentum(options: Sequence[Mapping[str, Any]]) -> Opinion:
    choice = max(options, key=_shares)
    return Opinion(str(choice["id"]), 0.85, "The trend is up, and the larger order follows it.")


def _value(options: Sequence[Mapping[str, Any]]) -> Opinion:
    choice = _largest_within(options, _STEADY_SHARES)
    return Opinion(str(choice["id"]), 0.75, "The price is fair; the position stays near its target weight.")


def _caution(options: Sequence[Mapping[str, Any]]) -> Opinion:
    choice = _largest_within(options, _CAREFUL_SHARES)
    words = f"More than {_CAREFUL_SHARES} shares at once move too much money for one signal."
    return Opinion(str(choice["id"]), 0.8, words)


def _largest_within(options: Sequence[Mapping[str, Any]], most: int) -> Mapping[str, Any]:
    """The largest order of at most so many shares; the smallest one where all are larger."""
    within = [each for each in options if _shares(each) <= most]
    return max(within, key=_shares) if within else min(options, key=_shares)


def _shares(option: Mapping[str, Any]) -> float:
    return float(option["action"]["parameters"]["quantity"])


# What each voice answers: always the same to the same question.
VOICES: Final[Mapping[str, Callable[[Sequence[Mapping[str, Any]]], Opinion]]] = MappingProxyType(
    {"voice-momentum": _momentum, "voice-value": _value, "voice-caution": _caution}
)
