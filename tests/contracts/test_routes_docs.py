"""docs/routes.md names every action, name and state, and draws the circuit as it moves."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.contracts import policy_kind, reasons, states
from runtime.kernel import breaker
from runtime.kernel.breaker import CircuitSnapshot, Settings, Signal, Trial
from runtime.kernel.rules import scope

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text()
NOW = datetime(2026, 1, 5, tzinfo=UTC)
BOUNDS = Settings(failures=1, first_s=5, longest_s=10, lease_s=30)


def test_every_action_and_every_field_of_an_outcome_is_described() -> None:
    assert [action for action in policy_kind.RouteAction if f"| `{action}` |" not in PAGE] == []
    assert [name for name in scope.FIELDS["outcome"] if f"`{name}`" not in PAGE] == []
    assert reasons.Reason.ROUTED in PAGE
    assert reasons.Reason.CLOSED_BY_ROUTE in PAGE
    assert states.FeedbackType.RE_ENGAGEMENT_ADVICE in PAGE


def test_the_picture_has_the_moves_that_a_circuit_makes() -> None:
    drawn = set(re.findall(r"^    ([A-Z_]+) --> ([A-Z_]+)", PAGE, re.MULTILINE))
    assert drawn == moves()


def moves() -> set[tuple[str, str]]:
    """Every change of state, found by giving each state each signal, and the time that ends a wait."""
    found, seen, ahead = set[tuple[str, str]](), set[CircuitSnapshot](), [breaker.CLOSED]
    while ahead:
        circuit = ahead.pop()
        if circuit.state in {one.state for one in seen}:
            continue
        seen.add(circuit)
        after = [breaker.on_result(circuit, one, probe="a/1", at=NOW, bounds=BOUNDS) for one in Signal]
        admitted = breaker.admit(circuit, probe="a/1", at=NOW + timedelta(minutes=1), bounds=BOUNDS)
        after += [admitted.circuit] if isinstance(admitted, Trial) else []
        found |= {(str(circuit.state), str(one.state)) for one in after if one.state != circuit.state}
        ahead += after
    assert {one.state for one in seen} == set(states.CircuitState)
    return found
