"""What the page of demo scenarios says of each: what it does, what to watch, and where."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page to watch: its words, the name of its address, and what is asked of it."""

    words: str
    url_name: str
    query: str = ""
    agent_id: str = ""

    @property
    def url(self) -> str:
        """The address."""
        page = reverse(self.url_name, args=[self.agent_id] if self.agent_id else [])
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
            PageLink("momentum-trader", "agent", agent_id="momentum-trader"),
        ),
    ),
    "silence-monitor": ScenarioWords(
        title="Silence the monitor",
        does="risk-monitor makes no call. Its manifest expects one at least every 60 seconds.",
        watch="About 60 seconds after its last call an escalation opens: the agent is silent. It closes by "
        "itself when the agent calls again.",
        links=(
            PageLink("Silent agents", "escalations", query="family=AGENT"),
            PageLink("risk-monitor", "agent", agent_id="risk-monitor"),
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
