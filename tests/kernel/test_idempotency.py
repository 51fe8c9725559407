import hashlib
from typing import Any

import pytest

from runtime.contracts.states import Direction
from runtime.kernel.gate.calls import target_key

CALL: dict[str, Any] = {"tenant": "default", "dfid": "d", "intent_id": "i", "step": "order"}


def test_the_key_of_a_step_is_the_same_for_ever() -> None:
    hashed = hashlib.sha256(b'["default","d","i","order","FORWARD"]').hexdigest()
    assert target_key(**CALL) == hashed


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "other"},
        {"dfid": "e"},
        {"intent_id": "j"},
        {"step": "cancel"},
        {"direction": Direction.COMPENSATE},
        {"dfid": "di", "intent_id": ""},
    ],
)
def test_another_call_has_another_key(other: dict[str, Any]) -> None:
    assert target_key(**(CALL | other)) != target_key(**CALL)
