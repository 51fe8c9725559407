"""Which class an answer has, by its status and by what its target declares."""

import pytest

from runtime.contracts.receipt import FailureClass
from runtime.kernel import answers

TRANSIENT, TERMINAL, UNKNOWN = FailureClass.TRANSIENT, FailureClass.TERMINAL, FailureClass.UNKNOWN


def test_every_status_has_one_class() -> None:
    for status in range(100, 1000):
        found = answers.class_of(status)
        if status in {425, 429}:
            assert found is TRANSIENT, status
        elif 200 <= status < 300:
            assert found is None, status
        elif 400 <= status < 500 and status not in {408, 499}:
            assert found is TERMINAL, status
        else:
            assert found is UNKNOWN, status


@pytest.mark.parametrize("status", [404, 408, 409, 499, 500, 503, 504])
def test_what_a_target_declares_as_a_refusal_is_one(status: int) -> None:
    assert answers.class_of(status, refuses=(status,)) is TRANSIENT
    assert answers.class_of(status, refuses=(status + 1,)) is not TRANSIENT
