"""The one list of places where a kind may hold an expression: nothing of the contract is left out."""

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, StringConstraints

from audit import canonical
from runtime.contracts.kind_types import MAX_EXPRESSION_CHARS
from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import kind_linter, kind_reads, sources
from tests.kernel import test_linter_kinds
from tests.support import gate_cases

# As long as an expression may be: words, and an effect's little language of its own, over parameters.
NO_EXPRESSION = {"description", "effect", "steps[].human.instructions", "steps[].human.undo"}
NOT_EVALUATED = {"subjects[]"}
_TOOL = {
    "name": "add",
    "arguments": "{'n': params.n}",
    "undo": {"name": "drop", "arguments": "{'n': params.n}"},
}
# With an outcome of its own, so that no field that may hold an expression is empty.
GOOD: dict[str, Any] = {
    **test_linter_kinds.GOOD,
    "allowed_outcomes": ["filled"],
    "outcome": "receipt.status",
    "good_when": "result.status == 'SUCCEEDED'",
    "outputs": {"filled": "receipt.filled"},
    "steps": [
        {
            **test_linter_kinds.GOOD["steps"][0],
            "preconditions": [{"id": "P", "require": "params.n > 0"}],
            "follow": {"deadline_s": 60, "done": "answer.body.ok", "failed": "answer.status_code == 410"},
            "meter": {"tokens": "answer.body.tokens", "cost_usd": "answer.body.cost"},
        },
        {"id": "noted", "executor": "mcp", "target": "notes", "tool": _TOOL},
        *test_linter_kinds.GOOD["steps"][1:],
    ],
    "safety_assertions": [
        {
            "invariant_id": "small",
            "with": {"most": "params.n"},
            "pinned": {"invariant_id": "small", "require": "params.n <= (params.n)"},
        }
    ],
}


def longest(annotation: Any) -> int | None:
    """The bound on the length of a text, wherever pydantic keeps it."""
    for one in getattr(annotation, "__metadata__", ()):
        if isinstance(one, StringConstraints):
            return one.max_length
    return None


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in typing.get_args(annotation):
        yield from models_in(one)


def places(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Every field of a contract that may hold CEL, as `steps[].request.path`."""
    hints = typing.get_type_hints(model, include_extras=True)
    for name in model.model_fields:
        hint = hints[name]
        is_list = any(typing.get_origin(one) is tuple for one in flat(hint))
        is_mapping = any(typing.get_origin(one) is dict for one in flat(hint))
        place = f"{before}{name}" + ("[]" if is_list else ".*" if is_mapping else "")
        if any(longest(one) == MAX_EXPRESSION_CHARS for one in flat(hint)):
            yield place
        for inner in dict.fromkeys(models_in(hint)):
            yield from places(inner, f"{place}.")


def flat(annotation: Any) -> Iterator[Any]:
    yield annotation
    for one in typing.get_args(annotation):
        yield from flat(one)


def written(place: tuple[str | int, ...]) -> str:
    if place[0] == "outputs":
        return "outputs.*"
    if "with" in place:
        # As a pack's author writes it; it is stored under another name.
        return "safety_assertions[].given.*"
    text = ""
    for one in place:
        text += "[]" if isinstance(one, int) else f".{one}" if text else str(one)
    return text


def kind(**changes: Any) -> KindDocument:
    return KindDocument.from_bytes(canonical.encode({**GOOD, **changes}))


def test_every_field_that_may_hold_an_expression_is_listed() -> None:
    """`GOOD` fills each of them, so a field that the list forgets is a field that is missing here."""
    listed = {
        written(standing.place)
        for list_some in (
            sources.list_expressions,
            sources.list_fact_templates,
            sources.list_path_templates,
            sources.list_subjects,
        )
        for standing in list_some(kind())
    }
    expected = set(places(KindDocument)) - NO_EXPRESSION
    assert len(expected) > 15
    assert listed == expected


@pytest.mark.parametrize("place", sorted(set(places(KindDocument)) - NO_EXPRESSION - NOT_EVALUATED))
def test_a_fact_that_is_read_at_one_place_only_is_loaded(place: str) -> None:
    """Whatever the place: what an expression reads there has been looked up when it is asked."""
    value = "${context.facts.lone.fact}" if is_template(place) else "context.facts.lone.fact"
    document = put(canonical.decode(kind().to_bytes()), place.split("."), value)
    made = KindDocument.from_bytes(canonical.encode(document))
    assert "lone.fact" in kind_reads.paths_read(made, {"symbol": "ABC", "n": 1})
    assert "lone.fact" not in kind_reads.paths_read(kind(), {"symbol": "ABC", "n": 1})


def is_template(place: str) -> bool:
    return place.endswith((".path", ".fact"))


def put(document: Any, steps: list[str], value: str) -> Any:
    """The document with `value` at a place: of each list in the first item that has such a part."""
    name, rest = steps[0].removesuffix("[]"), steps[1:]
    if name == "*":
        name = next(iter(document))
    held = document[name]
    is_list = steps[0].endswith("[]")
    if not rest:
        document[name] = f"/x/{value}" if name == "path" else f"ns.{value}" if name == "fact" else value
    elif is_list:
        held[0] = {"fact": held[0]} if isinstance(held[0], str) else held[0]
        part = rest[0].removesuffix("[]").removesuffix(".*")
        put(next((one for one in held if one.get(part) is not None), held[0]), rest, value)
    else:
        put(held, rest, value)
    return document


def test_a_limit_in_a_path_is_read_too() -> None:
    steps = [{"id": "a", "target": "broker", "request": {"path": "/x/${manifest.limits.lane}"}}]
    assert "lane" in kind_linter.limits_read(kind(steps=steps, routes=[]))


def test_a_template_that_cannot_be_read_holds_nothing_to_evaluate() -> None:
    broken = kind(steps=[{"id": "a", "target": "broker", "request": {"path": "/x/${"}}], routes=[])
    assert "x" not in "".join(sources.list_evaluated(broken)).split("/")


def test_a_namespace_and_everything_cover_more_than_one_path() -> None:
    covered = {"price.": True, kind_reads.EVERYTHING: True, "price.AAPL": False}
    assert {selector: kind_reads.is_namespace(selector) for selector in covered} == covered


def test_says_what_a_kind_reads_of_the_agents_past() -> None:
    plain = gate_cases.kind()
    counts = gate_cases.kind(rules=[{"id": "SLOW", "require": "history.rejected_24h < 9"}])
    steps = gate_cases.kind(rules=[{"id": "FEW", "require": "history.steps.size() < 9"}])
    assert [kind_reads.reads_history(kind) for kind in (plain, counts, steps)] == [False, True, True]
    assert [kind_reads.reads_steps(kind) for kind in (plain, counts, steps)] == [False, False, True]
    assert kind_reads.reads_steps(plain, ["history.last.instruction == 'VERIFY'"])
