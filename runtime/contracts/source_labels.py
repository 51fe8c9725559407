"""Labels of where things come from (DARE, source_labels), and what is asked of an agent that has them."""

from typing import Annotated

from pydantic import Field, StringConstraints

from runtime.contracts.document import Contract, Id, Words, is_empty, is_none
from runtime.contracts.kind_types import KindName, OnFail
from runtime.contracts.states import Choice

MOST_LABELS = 20
# Of whoever passes something on whose labels cannot be read any more.
UNREADABLE = "unreadable"

Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@#-]*$", max_length=128)]
Labels = Annotated[tuple[Label, ...], Field(max_length=MOST_LABELS)]
# From a minute to a year.
LabelSeconds = Annotated[int, Field(ge=60, le=31_536_000)]


class LabelRule(Contract):
    """What is asked of an agent that has one of the labels `after`.

    It holds for the named `kinds`; without any, for every kind that has an effect.
    """

    id: Id
    after: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_LABELS)]
    kinds: Annotated[tuple[KindName, ...], Field(max_length=200)] = Field(default=(), exclude_if=is_empty)
    on_fail: OnFail = OnFail.ESCALATE
    message: Words | None = Field(default=None, exclude_if=is_none)


class LabelSource(Choice):
    """By what an agent gets a label, or loses it."""

    RESULT = "RESULT"
    STEP = "STEP"
    MESSAGE = "MESSAGE"
    PARENT = "PARENT"
    MEMORY = "MEMORY"
    PERSON = "PERSON"
