"""What a policy kind keeps out of the store: parts that are replaced before anything is written."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from runtime.contracts.document import Contract, Id, is_none

MOST_REDACTIONS = 20
FieldPath = Annotated[
    str, StringConstraints(pattern=r"^(\*|[^.*\s]{1,64})(\.(\*|[^.*\s]{1,64})){0,15}$", max_length=300)
]


class RedactedIn(StrEnum):
    """Where words come in that the runtime need not keep as they are to do its work."""

    RECEIPT = "receipt"
    EXPLANATION = "explain"
    ANSWER = "answer"


class TextPattern(StrEnum):
    """What is found by its form, wherever it stands in a text."""

    CARD_NUMBER = "card_number"
    IBAN = "iban"
    EMAIL = "email"
    US_SSN = "us_ssn"


class Kept(StrEnum):
    """What stays of the original, behind the marker."""

    NOTHING = "nothing"
    LAST_4 = "last_4"


class Redaction(Contract):
    """One rule: `field` is a place in a receipt, `pattern` is looked for in every text; exactly one of them.

    `field` is a path such as `payer.card.number`, where `*` stands for every member of a list or an object.
    `of` says where a pattern is looked for: without it, everywhere. Its id stands in the marker and in
    decision records.
    """

    id: Id
    field: FieldPath | None = Field(default=None, exclude_if=is_none)
    pattern: TextPattern | None = Field(default=None, exclude_if=is_none)
    of: Annotated[tuple[RedactedIn, ...], Field(min_length=1)] | None = Field(
        default=None, exclude_if=is_none
    )
    keep: Kept = Kept.NOTHING

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if (self.field is None) == (self.pattern is None):
            raise ValueError("give exactly one of field and pattern")
        if self.field is not None and self.of not in (None, (RedactedIn.RECEIPT,)):
            raise ValueError("a field is one of a receipt: texts have no fields, so `of` must be left out")
        return self

    def covers(self, source: RedactedIn) -> bool:
        """Whether the rule is asked of what comes in there."""
        if self.field is not None:
            return source is RedactedIn.RECEIPT
        return self.of is None or source in self.of
