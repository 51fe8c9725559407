"""What the page of demo scenarios says: what each does and what to watch, and what plays by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page to watch: its words, the name of its address, and what is asked of it.

    `of` is the agent, workflow or ruleset that it is the page of.
    """

    words: str
    url_name: str
    query: str = ""
    of: str = ""

    @property
    def url(self) -> str:
        """The address."""
        page = reverse(self.url_name, args=[self.of] if self.of else [])
        return f"{page}?{self.query}" if self.query else page


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioWords:
    """What a scenario does, maybe to one symbol, and what to watch; `links` lead to pages that show it."""

    title: str
    does: str
    watch: str
    links: tuple[PageLink, ...]
    has_symbol: bool = False


# By the name that the demo knows it under.
SCENARIOS: Mapping[str, ScenarioWords] = {
    "drop-answers": ScenarioWords(
        title="Drop the broker's answers",
        does="The broker carries out every order and hangs up before it answers. It also hangs up when it is "
        "asked what became of an order.",
        watch="Calls become in doubt: nothing is assumed, and nothing is repeated blindly. Repeated failures "
        "open the circuit of the broker, and a call that stays in doubt is handed to a person. When the "
        "scenario ends, probes find the other orders in the broker's book, and their intents end with "
        "receipts.",
        links=(
            PageLink("Flows in execution", "flows", query="state=EXECUTING"),
            PageLink("Targets", "targets"),
            PageLink("Operational escalations", "escalations", query="family=OPERATIONAL"),
        ),
    ),
    "close-market": ScenarioWords(
        title="Close the market",
        does="The price feed reports the market as CLOSED.",
        watch="Orders and switches are rejected by the rule that wants an open market; updates of the "
        "watchlist go on. Open escalations about orders get a new revision.",
        links=(
            PageLink("Rejections by reason", "overview"),
            PageLink("Aborted flows", "flows", query="state=ABORTED"),
            PageLink("Escalations", "escalations", query="kind=ADJUST_POSITION"),
        ),
    ),
    "spend-budget": ScenarioWords(
        title="Run a budget out",
        does="momentum-trader thinks in circles and reports the tokens, in one flow after the other.",
        watch="When a flow has used more than its compute budget, the report is answered with "
        "BUDGET_EXCEEDED and the flow is aborted. The agent stays active.",
        links=(
            PageLink("Flows over budget", "flows", query="reason=BUDGET_EXCEEDED"),
            PageLink("Budgets", "budgets"),
            PageLink("momentum-trader", "agent", of="momentum-trader"),
        ),
    ),
    "silence-monitor": ScenarioWords(
        title="Silence the monitor",
        does="risk-monitor makes no call. Its manifest expects one at least every 60 seconds.",
        watch="About 60 seconds after its last call an escalation opens: the agent is silent. It closes by "
        "itself when the agent calls again.",
        links=(
            PageLink("Silent agents", "escalations", query="family=AGENT"),
            PageLink("risk-monitor", "agent", of="risk-monitor"),
        ),
    ),
    "move-price": ScenarioWords(
        title="Move a price by 30 %",
        does="One price is reported 30 % higher until the scenario ends.",
        watch="Open escalations about this symbol drift: their evidence gets a new revision that shows what "
        "changed, and a decision on the revision before is refused. New orders for it cost more and may "
        "exceed a limit.",
        links=(
            PageLink("Escalations about orders", "escalations", query="kind=ADJUST_POSITION"),
            PageLink("Ledger", "ledger"),
        ),
        has_symbol=True,
    ),
    "crash-broker": ScenarioWords(
        title="Crash the broker in a call",
        does="The process of the broker carries out the next order and ends itself before it answers; the "
        "demo starts it again. It is the broker that dies here, not a worker of the console. Other scenarios "
        "end with it.",
        watch="One call becomes in doubt. The broker is probed with the key of that call and finds it in its "
        "book, and the intent ends with its receipt: the order was carried out once.",
        links=(
            PageLink("Flows in execution", "flows", query="state=EXECUTING"),
            PageLink("Targets", "targets"),
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneWords:
    """What an agent of the demo does by itself, again and again: what happens and why, and where."""

    title: str
    happens: str
    links: tuple[PageLink, ...]


_WORKFLOW = PageLink("Workflow desk-research", "workflow", of="desk-research")
_RESEARCH = PageLink("Flows of careless-researcher", "flows", query="agent=careless-researcher")
_RULES = PageLink("Ruleset order-routing", "ruleset", of="order-routing")

# Each plays within ten minutes of the start, over and over.
SCENES: Mapping[str, SceneWords] = {
    "skipped-step": SceneWords(
        title="An agent skips verification",
        happens="careless-researcher thinks and wants to fetch at once. Its workflow requires a "
        "verification between the two, so the step is refused with the names of the policies "
        "that it breaks. The agent verifies, and its note is filed.",
        links=(_WORKFLOW, _RESEARCH),
    ),
    "rate-hit": SceneWords(
        title="A step exceeds its rate",
        happens="careless-researcher fetches twice within a minute, and the workflow allows one fetch "
        "in that time. The second is refused as RATE_LIMITED, the flow stays where it was, and "
        "the agent files its note without it.",
        links=(_WORKFLOW, _RESEARCH),
    ),
    "fallback": SceneWords(
        title="A failed check leads to a fallback",
        happens="The verification of careless-researcher reports FAIL. A router of the workflow demands "
        "GET_CACHED next, and every other step would be refused until the agent has taken it.",
        links=(_WORKFLOW, _RESEARCH),
    ),
    "replan": SceneWords(
        title="No progress leads to a new plan",
        happens="A fetch of careless-researcher reports a progress below 0.2. A router demands REPLAN, "
        "the agent plans anew, and from there it works its way to its note.",
        links=(_WORKFLOW, _RESEARCH),
    ),
    "rule-conflict": SceneWords(
        title="Rules in conflict are decided by priority",
        happens="Three rules match what rulebook-trader asks about. The decision table takes one of its "
        "two by the hit policy PRIORITY; a rule of a higher priority contradicts it and wins. "
        "The agent proposes what the rules decide, and the gate accepts it.",
        links=(
            _RULES,
            PageLink("Rule coverage", "rule-coverage"),
            PageLink("Flows of rulebook-trader", "flows", query="agent=rulebook-trader"),
        ),
    ),
    "abstention": SceneWords(
        title="The recommender abstains",
        happens="For small orders at a wide spread one rule matches, with a certainty of 0.55. That is "
        "too little to adopt, so the decision package abstains, and the proposal of "
        "rulebook-trader goes to a person together with the package.",
        links=(
            PageLink("Escalations of rulebook-trader", "escalations", query="agent=rulebook-trader"),
            _RULES,
        ),
    ),
    "overconfidence": SceneWords(
        title="An over-confident agent calls a person",
        happens="overconfident-trader states 0.95 every time, and one in five of its proposals fails. "
        "From 30 ends on, which takes some minutes, an admin can draft a calibration map and "
        "activate it. Then its confidence counts as about 0.8, below the 0.9 of its manifest, "
        "and each proposal calls a person.",
        links=(
            PageLink(
                "Calibration of overconfident-trader",
                "agent-calibration",
                of="overconfident-trader",
                query="kind=LOCATE_BORROW",
            ),
            PageLink(
                "Escalations of overconfident-trader", "escalations", query="agent=overconfident-trader"
            ),
        ),
    ),
    "paused-action": SceneWords(
        title="An action of two steps pauses between them",
        happens="block-trader sells a block so large that the exchange halts the trade in blocks. An "
        "invariant is asked before the second step and does not hold: nothing is bought and "
        "nothing is undone. A person resumes the action once blocks are traded again, or has "
        "the sale undone.",
        links=(
            PageLink(
                "Escalations of block-trader", "escalations", query="agent=block-trader&family=OPERATIONAL"
            ),
            PageLink("Flows of block-trader", "flows", query="agent=block-trader"),
        ),
    ),
    "human-step": SceneWords(
        title="A person carries out a step",
        happens="Before listing-clerk lists an instrument, somebody must compare its data sheet with "
        "the source. That step is a task: the signed answer is its receipt, and then the "
        "listing goes on.",
        links=(
            PageLink("Tasks", "tasks"),
            PageLink("Flows of listing-clerk", "flows", query="agent=listing-clerk"),
        ),
    ),
}
