"""The context compiler: the same inputs give the same bytes, and nothing more than was selected."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from audit import canonical
from runtime.contracts.context import ContextBudget, SchemaRef, SeenFact
from runtime.kernel import context

BUDGET = ContextBudget(attempts_left=3, escalation_tokens=2)
FACTS = [
    SeenFact(path="price.MSFT", version=2, value=41620),
    SeenFact(path="price.AAPL", version=3, value={"bid": 1}),
    SeenFact(path="market.state", version=1, value="OPEN"),
]
SCHEMAS = [
    SchemaRef(kind="B", version="1.0.0", digest="b", schema_url="/b"),
    SchemaRef(kind="A", version="1.0.0", digest="a", schema_url="/a"),
]


def compiled(**changes: Any) -> context.Compiled:
    named: dict[str, Any] = {
        "selected": ("price.", "market.state"),
        "facts": FACTS,
        "history": [],
        "mission": "Watch.",
        "schemas": SCHEMAS,
        "budget": BUDGET,
        **changes,
    }
    return context.compile_context(**named)


def content(**changes: Any) -> Any:
    return canonical.decode(compiled(**changes).body)


def test_nests_facts_and_keeps_their_versions() -> None:
    body = content()
    assert body["facts"] == {"market": {"state": "OPEN"}, "price": {"AAPL": {"bid": 1}, "MSFT": 41620}}
    assert body["versions"] == {"market.state": 1, "price.AAPL": 3, "price.MSFT": 2}
    assert [schema["kind"] for schema in body["schemas"]] == ["A", "B"]
    assert (body["memory"], body["artifacts"]) == ([], [])


def test_leaves_out_what_was_not_selected() -> None:
    assert content(selected=("price.AAPL",))["versions"] == {"price.AAPL": 3}
    assert content(selected=())["facts"] == {}


def test_is_named_by_its_content() -> None:
    whole = compiled()
    assert whole.context_ref == canonical.digest(whole.body)
    assert compiled(mission="Trade.").context_ref != whole.context_ref


def test_keeps_the_last_events_only() -> None:
    history = [{"seq": number} for number in range(context.RECENT_EVENTS + 5)]
    kept = content(history=history)["recent_history"]
    assert [event["seq"] for event in kept] == list(range(5, context.RECENT_EVENTS + 5))


@given(st.randoms(use_true_random=False))
def test_does_not_depend_on_the_order_of_rows(order: random.Random) -> None:
    facts, schemas = list(FACTS), list(SCHEMAS)
    order.shuffle(facts)
    order.shuffle(schemas)
    assert compiled(facts=facts, schemas=schemas) == compiled()
