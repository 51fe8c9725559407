"""Predicted beside written: as predicted, the same change from elsewhere, a deviation, or not observed."""

from typing import Any

import pytest

from runtime.contracts.outcome import FactChange
from runtime.kernel import execution, predicted
from runtime.kernel.predicted import Standing


def expected(current: Any, proposed: Any) -> dict[str, Any]:
    return {"fact": "position.A", "current": current, "proposed": proposed}


def change(before: Any, after: Any, fact: str = "position.A") -> FactChange:
    return FactChange(fact=fact, version=2, before=before, after=after)


@pytest.mark.parametrize(
    ("effect", "written", "standing"),
    [
        (expected(94, 103), [change(94, 103)], Standing.AS_PREDICTED),
        (expected(94, 103), [change(94, 103.0)], Standing.AS_PREDICTED),
        (expected(94, 103), [change(112, 121)], Standing.SAME_CHANGE),
        (expected(0.1, 0.3), [change(0.2, 0.4)], Standing.SAME_CHANGE),
        (expected(94, 103), [change(112, 120)], Standing.DEVIATES),
        (expected(94, 103), [change(None, 121)], Standing.DEVIATES),
        (expected(None, 103), [change(None, 103)], Standing.AS_PREDICTED),
        (expected(False, True), [change(True, 2)], Standing.DEVIATES),
        (expected(0, 1), [change(0, True)], Standing.DEVIATES),
        (expected("a", "b"), [change("a", "c")], Standing.DEVIATES),
        (expected(94, 103), [change(94, 103, fact="position.B")], Standing.NOT_OBSERVED),
        (expected(94, 103), [], Standing.NOT_OBSERVED),
        (expected(94, 103), [change(94, 100), change(100, 103)], Standing.AS_PREDICTED),
    ],
)
def test_a_prediction_is_compared_with_what_was_written(
    effect: dict[str, Any], written: list[FactChange], standing: Standing
) -> None:
    (found,) = predicted.compare(expected=[effect], written=written)
    assert found.standing is standing
    deviates = execution.deviations(expected=[effect], receipt={}, written=written)
    assert [item.fact for item in deviates] == ["position.A"] * (standing is Standing.DEVIATES)


def test_of_several_writes_the_first_before_and_the_last_after_count() -> None:
    written = [change(94, 100), change(100, 103)]
    (found,) = predicted.compare(expected=[expected(94, 103)], written=written)
    assert (found.before, found.after) == (94, 103)


def test_what_an_agent_only_says_it_expects_is_left_out() -> None:
    assert predicted.compare(expected=["words", {"effect": "none"}, {"fact": 7}], written=[]) == ()


def test_a_fact_taken_from_the_receipt_outweighs_a_member_of_the_same_name() -> None:
    effect, receipt = expected(94, 103), {"A": 7}
    as_was = execution.deviations(expected=[effect], receipt=receipt, written=[change(94, 103)])
    assert as_was == ()
    (found,) = execution.deviations(expected=[effect], receipt=receipt)
    assert found.observed == 7
