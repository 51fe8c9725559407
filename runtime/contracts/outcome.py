"""Stored forms of execution: an intent's rendered requests, and where an outcome departs from them."""

from typing import Annotated, Any

from pydantic import Field

from runtime.contracts.document import Contract, is_empty, is_false, is_none
from runtime.contracts.kind_types import Severity
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.reasons import Reason
from runtime.contracts.redaction import Redaction
from runtime.contracts.verdict import StepRequest


def is_person(value: OnUnknown) -> bool:
    """For `Field(exclude_if=...)`: without the field, the bytes are those of before."""
    return value is OnUnknown.PERSON


class RenderedIntent(Contract):
    """What an intent holds since its ACCEPT: its rendered steps, and the effects that were expected of it.

    `on_unknown` is the kind's at that moment: a later version of the kind changes nothing for the intent.
    `followed` says that the kind has routes, writes, or an outcome of its own: without them no result costs a
    look at the kind.
    """

    steps: Annotated[tuple[StepRequest, ...], Field(min_length=1)]
    expected: tuple[Any, ...] = ()
    on_unknown: OnUnknown = Field(default=OnUnknown.PERSON, exclude_if=is_person)
    followed: bool = Field(default=False, exclude_if=is_false)
    # The kind's rules for what of a receipt is stored.
    redact: tuple[Redaction, ...] = Field(default=(), exclude_if=is_empty)
    salt: str | None = Field(default=None, exclude_if=is_none)
    # What its results are labelled with, as the kind said then.
    labels: tuple[str, ...] = Field(default=(), exclude_if=is_empty)


class Deviation(Contract):
    """An expected effect that the receipt contradicts, or a write for which it gave no value (then `why`).

    With a `code` it is about the outcome as a whole, or about the receipt of a step: `fact` says which part
    of the kind was asked of it. `severity` and `remediation` are the kind's own.
    """

    fact: str
    expected: Any
    observed: Any
    why: str | None = Field(default=None, exclude_if=is_none)
    code: Reason | None = Field(default=None, exclude_if=is_none)
    severity: Severity | None = Field(default=None, exclude_if=is_none)
    remediation: str | None = Field(default=None, exclude_if=is_none)

    @property
    def calls_person(self) -> bool:
        """Whether a person is asked what becomes of it: where it is about the whole, unless it is minor."""
        return self.code is not None and self.severity not in {Severity.LOW, Severity.MEDIUM}


class FactChange(Contract):
    """A fact that a step wrote from its receipt: the version it made, and the value before (None: none)."""

    fact: str
    version: int
    before: Any
    after: Any
