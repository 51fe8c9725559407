"""Stored forms of execution: an intent's rendered requests, and where an outcome departs from them."""

from typing import Annotated, Any

from pydantic import Field

from runtime.contracts.policy_kind import Contract, OnUnknown
from runtime.contracts.verdict import StepRequest


def is_person(value: OnUnknown) -> bool:
    """For `Field(exclude_if=...)`: without the field, the bytes are those of before."""
    return value is OnUnknown.PERSON


class Rendered(Contract):
    """What an intent holds since its ACCEPT: its rendered steps, and the effects that were expected of it.

    `on_unknown` is the kind's at that moment: a later version of the kind changes nothing for the intent.
    """

    steps: Annotated[tuple[StepRequest, ...], Field(min_length=1)]
    expected: tuple[Any, ...] = ()
    on_unknown: OnUnknown = Field(default=OnUnknown.PERSON, exclude_if=is_person)


class Deviation(Contract):
    """An expected effect that the receipt contradicts."""

    fact: str
    expected: Any
    observed: Any
