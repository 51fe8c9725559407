"""How long a decision waits before it runs."""

import pytest

from runtime.contracts.states import Impact
from runtime.kernel import undo_window
from tests.support import gate_cases


@pytest.mark.parametrize(
    ("impact", "reversible", "undo_s", "window_s", "most_s", "length_s"),
    [
        (Impact.LOW_IMPACT, True, None, 3600, 60, 5),
        (Impact.HIGH_IMPACT, True, None, 3600, 60, 30),
        (Impact.LOW_IMPACT, False, None, 3600, 60, 60),
        (Impact.HIGH_IMPACT, False, None, 3600, 60, 60),
        (Impact.HIGH_IMPACT, False, 12, 3600, 60, 12),
        (Impact.HIGH_IMPACT, False, 0, 3600, 60, 0),
        # A quarter of the window at most, and none in a short one.
        (Impact.HIGH_IMPACT, False, None, 100, 60, 25),
        (Impact.LOW_IMPACT, True, None, 20, 60, 5),
        (Impact.LOW_IMPACT, True, 300, 20, 60, 5),
        (Impact.HIGH_IMPACT, True, None, 19, 60, 0),
        (Impact.HIGH_IMPACT, True, None, 3600, 10, 10),
        (Impact.HIGH_IMPACT, True, None, 3600, 0, 0),
    ],
)
def test_the_length(
    impact: Impact, reversible: bool, undo_s: int | None, window_s: int, most_s: int, length_s: int
) -> None:
    kind = gate_cases.kind(reversible=reversible, undo_s=undo_s)
    assert undo_window.length_s(kind, impact=impact, window_s=window_s, most_s=most_s) == length_s


@pytest.mark.parametrize(
    ("cooling_s", "undo_s", "length_s"), [(None, None, 60), (120, None, 120), (0, 3, 3), (10, 30, 30)]
)
def test_what_is_critical_cools(cooling_s: int | None, undo_s: int | None, length_s: int) -> None:
    kind = gate_cases.kind(reversible=True, undo_s=undo_s, cooling_s=cooling_s)
    found = undo_window.length_s(kind, impact=Impact.CRITICAL, window_s=3600, most_s=120)
    assert found == length_s


def test_a_kind_without_it_has_the_bytes_of_before() -> None:
    assert "undo_s" not in gate_cases.kind().model_dump(mode="json")
    assert gate_cases.kind(undo_s=0).model_dump(mode="json")["undo_s"] == 0
