"""Four characters that drive the demo: how each chooses, and how it takes an answer."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from demo import proposals
from demo.agent_base import Persona
from demo.client import Context

_WATCHLIST_SHARE: Final = 0.3
_LARGE_SHARE: Final = 0.35
_TRANSFER_SHARE: Final = 0.15
_CONFIDENT_SHARE: Final = 0.55
_ATTEMPTS: Final = 3
_BEYOND_EVERY: Final = 15
# A transfer in such a turn is one for two people: one of some thirty turns.
_CRITICAL_EVERY: Final = 4
# Every third turn from the second on it thinks in circles, until its flow's compute budget is used up.
_CIRCLES_EVERY, _CIRCLES_FROM = 3, 2
# The second turn is within two minutes of the start.
_CONTRARY_EVERY, _CONTRARY_FROM = 5, 2
_THOUGHT_TOKENS, _CIRCLE_TOKENS = 900, 4_000
_LIMIT_CENTS: Final = 100_000  # what its manifest allows without a person


class Steady(Persona):
    """Small valid steps, most of which run by themselves."""

    pace_s = (3.5, 7.0)

    def turn(self) -> None:
        """A routine adjustment, or a look at the watchlist."""
        dfid, context = self.begin(trigger="schedule: portfolio check")
        wants_watchlist = self.rng.random() < _WATCHLIST_SHARE or context.fact("market.state") == "CLOSED"
        make = proposals.watch if wants_watchlist else proposals.small
        verdict = self.propose(dfid, make(context=context, rng=self.rng))
        if verdict.verdict == "REJECT" and verdict.state != "ABORTED" and "STALE_CONTEXT" in verdict.codes():
            verdict = self.propose(dfid, make(context=self.client.context(dfid), rng=self.rng))
        self.settle(verdict)


class Ambitious(Persona):
    """Crosses its own bound now and then, moves money, and answers who asks why."""

    pace_s = (8.0, 13.0)

    def turn(self) -> None:
        """A small step, a large one, a transfer, some of them for two people, or more than the desk has."""
        self.listen()
        dfid, context = self.begin(trigger="signal: momentum")
        draw = self.rng.random()
        if self.turns % _BEYOND_EVERY == 0:
            body = proposals.beyond(context=context, rng=self.thoughts)
        elif draw < _LARGE_SHARE and self.may_escalate(dfid):
            body = proposals.large(context=context, rng=self.rng, above_cents=_LIMIT_CENTS)
        elif draw < _LARGE_SHARE + _TRANSFER_SHARE and self.may_escalate(dfid):
            make = proposals.critical if self.turns % _CRITICAL_EVERY == 0 else proposals.transfer
            body = make(context=context, rng=self.rng)
        else:
            body = proposals.small(context=context, rng=self.rng)
        self.settle(self.propose(dfid, body))

    def reply(self, proposal: Mapping[str, Any]) -> str | None:
        """The proposal once more, as figures."""
        return proposals.account(proposal) if proposal else None


class Unsure(Persona):
    """Often not confident enough to act alone."""

    pace_s = (9.0, 15.0)

    def turn(self) -> None:
        """A modest step, with more or less conviction; now and then its story tells the opposite."""
        self.listen()
        dfid, context = self.begin(trigger="news: analyst note")
        confident = self.rng.random() < _CONFIDENT_SHARE or not self.may_escalate(dfid)
        body = proposals.doubtful(context=context, rng=self.rng, confident=confident)
        if self.turns % _CONTRARY_EVERY == _CONTRARY_FROM:
            body = proposals.contrary(body, rng=self.thoughts)
        self.settle(self.propose(dfid, body))

    def reply(self, proposal: Mapping[str, Any]) -> str | None:
        """The proposal once more, as figures."""
        return proposals.account(proposal) if proposal else None


class Confused(Persona):
    """Repeats itself against stale or malformed input until the runtime ends the flow."""

    pace_s = (45.0, 70.0)
    retry_s: ClassVar[tuple[float, float]] = (3.0, 5.0)

    def turn(self) -> None:
        """Three attempts, a few seconds apart, each wrong in its own way."""
        dfid, context = self.begin(trigger="retry: earlier idea")
        in_circles = self.turns % _CIRCLES_EVERY == _CIRCLES_FROM
        for attempt in range(_ATTEMPTS):
            if not self.think(dfid, tokens=_CIRCLE_TOKENS if in_circles else _THOUGHT_TOKENS):
                return
            symbol = self._moved(dfid, context)
            body = proposals.muddled(context=context, rng=self.rng, symbol=symbol, attempt=attempt)
            verdict = self.propose(dfid, body)
            if verdict.verdict != "REJECT":
                self.settle(verdict)
                return
            if verdict.state == "ABORTED":
                return
            self.stop.wait(self.rng.uniform(*self.retry_s))

    def _moved(self, dfid: str, seen: Context) -> str:
        """The symbol whose price left the old view the most."""
        now = self.client.context(dfid)

        def distance(symbol: str) -> int:
            then, there = seen.fact(f"price.{symbol}"), now.fact(f"price.{symbol}")
            return abs(there - then) if isinstance(then, int) and isinstance(there, int) else 0

        return max(proposals.SYMBOLS, key=distance)
