"""Stored forms of execution: an intent's rendered requests, and where an outcome departs from them."""

from typing import Annotated, Any

from pydantic import Field

from runtime.contracts.policy_kind import Contract
from runtime.contracts.verdict import StepRequest


class Rendered(Contract):
    """What an intent holds since its ACCEPT: one rendered step, and the effects that were expected of it."""

    steps: Annotated[tuple[StepRequest, ...], Field(min_length=1, max_length=1)]
    expected: tuple[Any, ...] = ()


class Deviation(Contract):
    """An expected effect that the receipt contradicts."""

    fact: str
    expected: Any
    observed: Any
