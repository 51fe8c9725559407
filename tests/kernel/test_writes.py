"""Facts taken from a receipt: worked out whole, and never at the price of the outcome."""

from typing import Any

from audit import canonical
from runtime.contracts.kind_steps import Write
from runtime.kernel import writes
from runtime.kernel.writes import NewFact


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


NAMES: dict[str, Any] = {
    "params": {"symbol": "ABC", "dotted": "a.b"},
    "receipt": {"order_id": "o1", "status": "FILLED", "filled": 2.0, "deep": deep(canonical.MAX_DEPTH)},
}


def take(*given: tuple[str, str], longest_bytes: int = 100) -> writes.TakenFact:
    listed = [Write(fact=fact, value=value) for fact, value in given]
    return writes.take(listed, names=NAMES, longest_bytes=longest_bytes)


def test_facts_come_by_path_with_canonical_values() -> None:
    taken = take(("position.${params.symbol}", "receipt.filled"), ("order.status", "receipt.status"))
    assert taken.facts == (
        NewFact(path="order.status", value=b'"FILLED"'),
        NewFact(path="position.ABC", value=b"2"),
    )
    assert taken.deviations == ()


def test_of_two_writes_to_one_fact_the_later_counts() -> None:
    taken = take(("order.status", "'NEW'"), ("order.status", "receipt.status"))
    assert taken.facts == (NewFact(path="order.status", value=b'"FILLED"'),)


def test_what_gives_no_value_is_a_deviation_and_the_rest_is_written() -> None:
    taken = take(
        ("order.price", "receipt.price"),
        ("order.${params.dotted}", "1"),
        ("Order.price", "1"),
        ("order.deep", "[receipt.deep]"),
        ("order.status", "receipt.status"),
    )
    assert [fact.path for fact in taken.facts] == ["order.status"]
    assert [(one.fact, one.expected, one.observed) for one in taken.deviations] == [
        ("order.price", "receipt.price", None),
        ("order.${params.dotted}", "1", None),
        ("Order.price", "1", None),
        ("order.deep", "[receipt.deep]", None),
    ]
    assert taken.deviations[0].why == "the expression reads a field that is not there"


def test_a_value_that_is_too_long_is_a_deviation() -> None:
    taken = take(("order.status", "receipt.status"), longest_bytes=4)
    assert taken.facts == ()
    assert taken.deviations[0].why == "the value is longer than 4 bytes"
