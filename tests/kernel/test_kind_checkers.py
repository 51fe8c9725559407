"""What checks values against the schemas of a kind: made once, and never of another kind."""

import pytest

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import kind_checkers
from tests.support import gate_cases


def test_is_made_once_of_a_kind_and_of_its_bytes() -> None:
    kind = gate_cases.kind()
    made = kind_checkers.of_params(kind)
    assert kind_checkers.of_params(kind) is made
    assert kind_checkers.of_params(KindDocument.from_bytes(kind.to_bytes())) is made
    assert kind_checkers.of_constraints(kind) is not made


def test_a_copy_with_another_schema_has_its_own() -> None:
    kind = gate_cases.kind()
    assert kind_checkers.of_params(kind).fits(gate_cases.proposal().params)
    changed = kind.model_copy(update={"params_schema": {"type": "string"}})
    assert not kind_checkers.of_params(changed).fits(gate_cases.proposal().params)
    assert kind_checkers.of_constraints(changed).fits(gate_cases.proposal().execution_constraints)


def test_a_schema_that_is_not_usable_is_refused_each_time() -> None:
    kind = gate_cases.kind().model_copy(update={"constraints_schema": {"type": "thing"}})
    for _ in range(2):
        with pytest.raises(ValueError, match="not usable"):
            kind_checkers.of_constraints(kind)
    assert kind_checkers.of_params(kind).fits(gate_cases.proposal().params)
