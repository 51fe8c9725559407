"""What the receipts of an execution come to in the words of its kind, and what is wrong with them."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.reasons import Reason
from runtime.kernel import outcomes
from runtime.kernel.rules import safety
from tests.support import gate_cases

NAMED: dict[str, Any] = {
    "allowed_outcomes": ["filled", "partly"],
    "outcome": "receipt.status",
    "outputs": {"order_id": "receipt.order_id"},
    "outputs_schema": {
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
    },
}
RECEIPT: dict[str, Any] = {"status": "filled", "order_id": "o1"}


def kind(**changes: Any) -> KindDocument:
    return gate_cases.kind(**{**NAMED, **changes})


def ask(document: KindDocument, **receipt: Any) -> outcomes.NamedOutcome:
    held = canonical.encode({**RECEIPT, **receipt})
    return outcomes.ask(document, names=outcomes.receipts_of(held, steps=["order"]))


def why(found: outcomes.NamedOutcome) -> list[tuple[str, str | None]]:
    return [(item.fact, item.why) for item in found.deviations]


def test_an_allowed_outcome_and_outputs_that_fit_are_named() -> None:
    found = ask(kind())
    assert (found.outcome, found.output_names, found.reason) == ("filled", ("order_id",), None)
    assert found.outputs == canonical.encode({"order_id": "o1"})


def test_a_kind_with_an_outcome_alone_names_no_outputs() -> None:
    found = ask(kind(outputs=None, outputs_schema=None))
    assert (found.outcome, found.outputs, found.output_names) == ("filled", None, ())


def test_a_kind_with_outputs_alone_names_no_outcome() -> None:
    found = ask(kind(outcome=None, allowed_outcomes=None))
    assert (found.outcome, found.output_names) == (None, ("order_id",))


def test_an_outcome_that_is_not_allowed_calls_a_person() -> None:
    found = ask(kind(), status="lost")
    assert (found.outcome, found.reason) == (None, Reason.OUTCOME_NOT_ALLOWED)
    (wrong,) = found.deviations
    assert (wrong.observed, wrong.expected) == ("lost", ["filled", "partly"])


def test_an_outcome_that_cannot_be_worked_out_calls_a_person() -> None:
    found = ask(kind(outcome="receipt.nothing"))
    assert (found.outcome, found.reason) == (None, Reason.OUTCOME_NOT_ALLOWED)


def test_outputs_that_do_not_fit_or_cannot_be_taken_call_a_person() -> None:
    for found in (ask(kind(), order_id=7), ask(kind(outputs={"order_id": "receipt.nothing"}))):
        assert (found.outputs, found.reason) == (None, Reason.OUTPUTS_INVALID)


def test_without_outputs_of_its_own_the_last_receipt_must_fit() -> None:
    assert ask(kind(outputs=None)).deviations == ()
    assert ask(kind(outputs=None), order_id=7).reason is Reason.OUTPUTS_INVALID


def test_outputs_that_are_too_long_together_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MAX_OUTPUT_BYTES", 10)
    found = ask(kind())
    assert (found.outputs, found.reason) == (None, Reason.OUTPUTS_INVALID)
    assert why(found) == [("outputs", "together they are longer than 10 bytes")]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({}, ["outcome", "outputs"]),
        ({"outputs": None, "outputs_schema": None}, ["outcome"]),
        ({"outcome": None, "allowed_outcomes": None}, ["outputs"]),
    ],
)
def test_a_kind_that_is_not_safe_to_ask_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], places: list[str]
) -> None:
    monkeypatch.setattr(safety, "why_unsafe", lambda document: "it may take too long")
    found = ask(kind(**changes))
    assert (found.outcome, found.outputs, found.output_names) == (None, None, ())
    assert why(found) == [(place, safety.NOT_ASKED) for place in places]


def test_the_last_step_that_has_a_receipt_gives_it() -> None:
    held = canonical.encode({"pay": {"n": 1}, "ship": {"n": 2}})
    assert outcomes.receipts_of(held, steps=["pay", "ship", "tell"]) == {
        "receipt": {"n": 2},
        "steps": {"pay": {"n": 1}, "ship": {"n": 2}},
    }
    assert outcomes.receipts_of(b"{}", steps=["pay", "ship"])["receipt"] == {}
