"""The context compiler: the same inputs give the same bytes, and nothing more than was selected."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from audit import canonical
from runtime.contracts.context import ArtifactRef, ContextBudget, Remembered, SchemaRef, SeenFact
from runtime.kernel import context

BUDGET = ContextBudget(attempts_left=3, escalation_tokens=2)
BOUNDS = context.Bounds(since="2026-01-01T00:00:00.000Z", tokens=16_000)
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
        "bounds": BOUNDS,
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
    history = [happened(number) for number in range(context.RECENT_EVENTS + 5)]
    kept = content(history=history)["recent_history"]
    assert [event["seq"] for event in kept] == list(range(5, context.RECENT_EVENTS + 5))


def happened(seq: int, *, at: str = "2026-01-02T00:00:00.000Z", words: str = "") -> dict[str, Any]:
    return {"seq": seq, "at": at, "data": words}


def remembered(key: str, *, written_at: str = "2026-01-01T00:00:00.000Z", value: Any = 1) -> Remembered:
    return Remembered(
        scope="desk",
        key=key,
        version=1,
        value=value,
        source="agent",
        writer="trader",
        written_at=written_at,
        expires_at=None,
    )


def artifact(title: str) -> ArtifactRef:
    return ArtifactRef(digest="a" * 64, media_type="text/plain", size_bytes=1, location="s3://x", title=title)


def test_shows_the_session_no_further_back_than_its_window() -> None:
    history = [happened(1, at="2025-12-31T23:59:59.999Z"), happened(2, at="2026-01-01T00:00:00.000Z")]
    assert [event["seq"] for event in content(history=history)["recent_history"]] == [2]


def test_shows_memory_by_name_and_artifacts_by_age() -> None:
    body = content(memory=[remembered("b"), remembered("a")], artifacts=[artifact("old"), artifact("new")])
    assert [item["key"] for item in body["memory"]] == ["a", "b"]
    assert [item["title"] for item in body["artifacts"]] == ["old", "new"]
    assert body["trimmed"] == []


def test_keeps_bounded_numbers_the_newest_ones() -> None:
    memory = [
        remembered(f"k{number:03}", written_at=f"2026-01-01T00:00:00.{number:03}Z")
        for number in range(context.MAX_REMEMBERED + 2)
    ]
    artifacts = [artifact(str(number)) for number in range(context.MAX_ARTIFACTS + 3)]
    body = content(memory=memory, artifacts=artifacts)
    assert (body["memory"][0]["key"], len(body["memory"])) == ("k002", context.MAX_REMEMBERED)
    assert (body["artifacts"][0]["title"], len(body["artifacts"])) == ("3", context.MAX_ARTIFACTS)


LAYERS: dict[str, Any] = {
    "artifacts": [artifact("old"), artifact("new")],
    "memory": [
        remembered("new", written_at="2026-01-02T00:00:00.000Z", value="n" * 100),
        remembered("old", value="o" * 100),
    ],
    "history": [happened(1, words="1" * 100), happened(2, words="2" * 100)],
}
# What is left as the budget shrinks: titles, keys, numbers.
STAGES = [
    (["old", "new"], ["new", "old"], [1, 2]),
    (["new"], ["new", "old"], [1, 2]),
    ([], ["new", "old"], [1, 2]),
    ([], ["new"], [1, 2]),
    ([], [], [1, 2]),
    ([], [], [2]),
    ([], [], []),
]


def tokens_of(body: bytes) -> int:
    """The estimate that the budget is kept by."""
    return -(-len(body) // context.BYTES_PER_TOKEN)


def test_what_does_not_fit_is_left_out_in_a_fixed_order_and_said() -> None:
    seen = []
    for tokens in range(tokens_of(compiled(**LAYERS).body), 0, -1):
        body = content(**LAYERS, bounds=context.Bounds(since="", tokens=tokens))
        left = (
            [item["title"] for item in body["artifacts"]],
            [item["key"] for item in body["memory"]],
            [event["seq"] for event in body["recent_history"]],
        )
        if left not in seen:
            seen.append(left)
        cuts = {cut["layer"]: cut["left_out"] for cut in body["trimmed"]}
        missing = {name: 2 - len(items) for name, items in zip(CUT, left, strict=True) if len(items) < 2}
        assert cuts == missing
        # Facts, schemas, mission and budget stay whole, whatever the budget.
        assert len(body["versions"]) == 3
    assert seen == STAGES


CUT = ("artifacts", "memory", "recent_history")


@given(st.integers(min_value=1, max_value=700))
def test_a_trimmed_context_fits_unless_only_facts_are_left(tokens: int) -> None:
    body = content(**LAYERS, bounds=context.Bounds(since="", tokens=tokens))
    cut = body.pop("trimmed")
    size = tokens_of(canonical.encode(body | {"trimmed": []}))
    assert size <= tokens or sum(item["left_out"] for item in cut) == 6


@given(st.randoms(use_true_random=False))
def test_does_not_depend_on_the_order_of_rows(order: random.Random) -> None:
    facts, schemas = list(FACTS), list(SCHEMAS)
    order.shuffle(facts)
    order.shuffle(schemas)
    memory = [remembered("a"), remembered("b"), remembered("c", written_at="2026-01-02T00:00:00.000Z")]
    ordered = compiled(memory=memory)
    order.shuffle(memory)
    assert compiled(facts=facts, schemas=schemas, memory=memory) == ordered
