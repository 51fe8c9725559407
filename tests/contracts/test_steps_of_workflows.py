"""The bounds of what an agent says of one step."""

import pytest
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.api_schemas import MAX_STEP_BYTES, InstructionCheck

pytestmark = pytest.mark.once


def asked(size: int) -> InstructionCheck:
    """A check whose input has so many bytes as canonical JSON."""
    given = {"text": "x" * (size - len(canonical.encode({"text": ""})))}
    return InstructionCheck.model_validate_json(canonical.encode({"instruction": "VERIFY", "input": given}))


def test_an_input_may_have_as_many_bytes_as_are_stored() -> None:
    assert len(canonical.encode(asked(MAX_STEP_BYTES).input)) == MAX_STEP_BYTES


def test_one_byte_more_is_refused_with_the_bound() -> None:
    with pytest.raises(ValidationError, match="at most 2048 bytes"):
        asked(MAX_STEP_BYTES + 1)
