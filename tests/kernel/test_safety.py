"""How often expressions copy the facts of a case, which nobody can bound before they are loaded."""

from typing import Any

import pytest

from runtime.kernel.rules import safety, shapes
from tests.support import gate_cases

LEGS: dict[str, Any] = {
    "type": "array",
    "maxItems": 100,
    "items": {"type": "object", "properties": {"s": {"type": "string", "maxLength": 12}}},
}
SCHEMA = {
    **gate_cases.KIND["params_schema"],
    "properties": {**gate_cases.KIND["params_schema"]["properties"], "legs": LEGS},
}
KIND = gate_cases.kind(params_schema=SCHEMA)
OF_EACH_LEG = "params.legs.all(l, context.facts.price[l.s] >= 0)"
MANY = {f"price.S{number}": number for number in range(20_000)}


@pytest.mark.parametrize(
    ("condition", "reads"),
    [
        ("params.quantity == 1", 0),
        ("context.facts.price.AAPL == 1", 3),
        ("context.facts.price.AAPL + context.facts.price.MSFT == 1", 6),
        (OF_EACH_LEG, 300),
        ("a ~ b", 0),
    ],
)
def test_reads_are_counted_as_often_as_they_are_made(condition: str, reads: int) -> None:
    assert safety.reads_of((condition,), KIND) >= reads
    assert safety.reads_of((condition,), KIND) <= 3 * reads


def test_all_expressions_of_a_kind_count() -> None:
    few = safety.reads_of_kind(KIND)
    more = KIND.model_copy(update={"impact": f"{OF_EACH_LEG} ? 'LOW_IMPACT' : 'HIGH_IMPACT'"})
    assert safety.reads_of_kind(more) >= few + 300


def test_facts_may_be_too_many_for_a_kind_or_a_condition() -> None:
    slow = KIND.model_copy(update={"impact": f"{OF_EACH_LEG} ? 'LOW_IMPACT' : 'HIGH_IMPACT'"})
    assert safety.why_too_slow(slow, world=gate_cases.WORLD) == ""
    assert safety.why_too_slow(KIND, world=MANY) == ""
    found = safety.why_too_slow(slow, world=MANY)
    assert found.startswith("its expressions read facts ")
    assert "20000 that are loaded" in found
    assert safety.why_too_slow(KIND, world=MANY, conditions=(OF_EACH_LEG,)) != ""


def test_the_size_of_facts_counts_their_values_and_characters() -> None:
    assert shapes.copy_of({"a": 1, "b": [1, 2]}) == 5 * 400
    assert shapes.copy_of({"a": "x" * 1_600}) > 600
