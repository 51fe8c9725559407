"""Five agents under the rules of the house: each shows what one kind of rule does with what it proposes."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Any, ClassVar, Final

from demo import proposals
from demo.agent_base import Persona
from demo.client import Context
from demo.desk_services import LARGE_BLOCK_SHARES

RULESET: Final = "order-routing"
# What an agent leaves to people at a time: more of the same would teach nobody anything.
MOST_OPEN: Final = 2
_WINDOW: Final = MappingProxyType({"validity_window_sec": 120})
# Such an action may wait for a person between its steps, and its time goes on meanwhile.
_PATIENT_WINDOW: Final = MappingProxyType({"validity_window_sec": 3600})


@dataclass(frozen=True)
class Step:
    """An instruction of the workflow, and what the agent reports of it."""

    instruction: str
    output: Mapping[str, Any] | None = None


_THINK: Final = Step("GENERATE", {"confidence": 0.8})
_VERIFY: Final = Step("VERIFY", {"result": "PASS"})
_FETCH: Final = Step("TOOL_CALL", {"progress": 0.8})
# What a careless researcher does, way after way: the workflow refuses a step or demands another one.
WAYS: Final[Mapping[str, tuple[Step, ...]]] = MappingProxyType(
    {
        "skips the verification": (_THINK, _FETCH, _VERIFY),
        "fetches too often": (_THINK, _VERIFY, _FETCH, _THINK, _VERIFY, _FETCH),
        "fails a check": (_THINK, Step("VERIFY", {"result": "FAIL"}), Step("GET_CACHED"), _THINK, _VERIFY),
        "gets nowhere": (
            _THINK,
            _VERIFY,
            Step("TOOL_CALL", {"progress": 0.1}),
            Step("REPLAN"),
            _THINK,
            _VERIFY,
        ),
    }
)


class Researcher(Persona):
    """Breaks its workflow in one way after the other, and files its note all the same."""

    pace_s: ClassVar[tuple[float, float]] = (8.0, 14.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ways = cycle(WAYS.items())

    def turn(self) -> None:
        """Take one way to a note; a step that is refused is left out."""
        name, steps = next(self.ways)
        dfid, context = self.begin(trigger=f"research: {name}")
        for step in steps:
            self.client.take_step(dfid, instruction=step.instruction, output=step.output)
        self.settle(self.propose(dfid, note(context=context, symbol=self.rng.choice(proposals.SYMBOLS))))


def note(*, context: Context, symbol: str) -> dict[str, Any]:
    """A ``FILE_DESK_NOTE`` about a symbol."""
    return proposals.body_of(
        kind="FILE_DESK_NOTE",
        context=context,
        params={"subject": symbol, "text": f"Nothing in the filings of {symbol} calls for a change."},
        constraints=_WINDOW,
        explain=f"I have read the filings of {symbol}; the note keeps what I found.",
        confidence=0.85,
    )


# Three rules match of these orders: the hit policy of the table takes one of two, and then a rule of a higher
# priority contradicts it.
DISPUTED: Final = MappingProxyType({"size": "large", "spread": "tight"})
# The one rule that matches of these is not sure enough, so the decision package abstains.
UNCLEAR: Final = MappingProxyType({"size": "small", "spread": "wide"})


class Rulebook(Persona):
    """Asks the ruleset, has a decision package made of the answer, and proposes what that selects."""

    pace_s: ClassVar[tuple[float, float]] = (10.0, 16.0)
    person_s: ClassVar[float] = 2.0

    def turn(self) -> None:
        """A disputed case, then one on which the package abstains, unless people have enough of those."""
        dfid, context = self.begin(trigger="review: where orders are sent")
        is_unclear = self.turns % 2 == 0 and self.may_escalate(dfid, most=MOST_OPEN)
        features = UNCLEAR if is_unclear else DISPUTED
        output = self.client.ask_rules(dfid, ruleset=RULESET, features=dict(features))
        package = self.client.decide(dfid, {"rule_output_id": output["rule_output_id"]})
        self.settle(self.propose(dfid, route(package, context=context)))


def route(package: Mapping[str, Any], *, context: Context) -> dict[str, Any]:
    """The ``SET_ROUTE`` that a decision package selects, with the confidence that it leaves."""
    params = package["selected_action"]["parameters"]
    body = proposals.body_of(
        kind="SET_ROUTE",
        context=context,
        params=params,
        constraints=_WINDOW,
        explain="The rules of the desk say so for {size} orders at a {spread} spread.".format(**params),
        confidence=package["confidence_score"],
    )
    return {**body, "decision_id": package["decision_id"]}


# In each round it asks for these; the lenders have too few for the last.
SHARES_ASKED: Final = (200, 400, 600, 800, 1_000)
OVERCONFIDENT: Final = 0.95
# So many ends are enough for a calibration map; after them it asks less often.
_ENOUGH_ENDS: Final = 40
_CALM_S: Final = 20.0


class Overconfident(Persona):
    """Is as sure of what fails as of what succeeds."""

    pace_s: ClassVar[tuple[float, float]] = (2.5, 4.0)
    person_s: ClassVar[float] = 2.0

    def turn(self) -> None:
        """Ask for shares to borrow: one time out of five for more than there are."""
        if self.has_open(MOST_OPEN):
            return
        if self.turns >= _ENOUGH_ENDS:
            self.stop.wait(_CALM_S)
        dfid, context = self.begin(trigger="schedule: shares to borrow")
        if not self.may_escalate(dfid, most=MOST_OPEN):
            self.client.close_flow(dfid, reason="No question to people is left for now.")
            return
        shares = SHARES_ASKED[(self.turns - 1) % len(SHARES_ASKED)]
        self.settle(self.propose(dfid, borrow(context=context, rng=self.rng, shares=shares)))


def borrow(*, context: Context, rng: random.Random, shares: int) -> dict[str, Any]:
    """A ``LOCATE_BORROW`` of any symbol, as sure as ever."""
    symbol = rng.choice(proposals.SYMBOLS)
    return proposals.body_of(
        kind="LOCATE_BORROW",
        context=context,
        params={"symbol": symbol, "shares": shares},
        constraints=_WINDOW,
        explain=f"The lenders surely have {shares} shares of {symbol}.",
        confidence=OVERCONFIDENT,
    )


class BlockTrader(Persona):
    """Switches a small block, then one so large that its sale halts the trade in blocks."""

    pace_s: ClassVar[tuple[float, float]] = (20.0, 30.0)
    outcome_s: ClassVar[float] = 5.0

    def turn(self) -> None:
        """One switch, unless one is paused: until a person has decided about it the agent is locked."""
        if self.has_open(1):
            return
        dfid, context = self.begin(trigger="signal: a block is on offer")
        shares = LARGE_BLOCK_SHARES if self.turns % 2 == 0 else LARGE_BLOCK_SHARES // 5
        self.carry_out(dfid, block(context=context, rng=self.rng, shares=shares))


def block(*, context: Context, rng: random.Random, shares: int) -> dict[str, Any]:
    """A ``SWITCH_BLOCK`` between any two symbols."""
    sold, bought = rng.sample(proposals.SYMBOLS, 2)
    return proposals.body_of(
        kind="SWITCH_BLOCK",
        context=context,
        params={"sell_symbol": sold, "buy_symbol": bought, "shares": shares},
        constraints=_PATIENT_WINDOW,
        explain=f"A block of {shares} shares: {bought} is on offer below the price of {sold}.",
        confidence=0.9,
    )


_NEW_INSTRUMENTS: Final = (
    ("ORCL", "Oracle"),
    ("INTC", "Intel"),
    ("CSCO", "Cisco Systems"),
    ("IBM", "International Business Machines"),
)


class ListingClerk(Persona):
    """Prepares listings; a person compares each with its source before it is done."""

    pace_s: ClassVar[tuple[float, float]] = (30.0, 45.0)
    outcome_s: ClassVar[float] = 2.0

    def turn(self) -> None:
        """One listing, unless people have enough of them to compare."""
        if self.has_open(MOST_OPEN):
            return
        dfid, context = self.begin(trigger="request: list an instrument")
        self.carry_out(dfid, listing(context=context, number=self.turns - 1))


def listing(*, context: Context, number: int) -> dict[str, Any]:
    """A ``LIST_INSTRUMENT`` of the next of them, round after round."""
    ticker, name = _NEW_INSTRUMENTS[number % len(_NEW_INSTRUMENTS)]
    return proposals.body_of(
        kind="LIST_INSTRUMENT",
        context=context,
        params={"ticker": ticker, "name": name},
        constraints=_PATIENT_WINDOW,
        explain=f"Research asked for {ticker}. The data sheet is ready to be compared with its source.",
        confidence=0.92,
    )
