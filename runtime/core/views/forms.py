"""What forms of several pages share: one sentence for whatever is wrong with a text, and the reason form."""

from typing import ClassVar

from django import forms

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode

LONGEST_REASON = 500
NOTHING_CHANGED = "Nothing was changed"


class RequiredText(forms.CharField):
    """A text of at most `longest` characters; `refusal` is shown for whatever is wrong with it."""

    def __init__(self, *, longest: int, refusal: str) -> None:
        codes = ("required", "max_length", "null_characters_not_allowed")
        super().__init__(max_length=longest, error_messages=dict.fromkeys(codes, refusal))


class ReasonField(RequiredText):
    """Why a person does something, for the ledger."""

    def __init__(self, longest: int = LONGEST_REASON, *, suffix: str = "") -> None:
        sentence = f"Enter a reason of at most {longest} characters. It is recorded in the ledger."
        super().__init__(longest=longest, refusal=sentence + suffix)


class ActionForm(forms.Form):
    """The form of one button; where it is invalid, `error_page.invalid` shows its first error."""

    refused_title: ClassVar[str] = NOTHING_CHANGED

    @property
    def first_invalid(self) -> str:
        """The first field that is wrong, of a form that is invalid."""
        return next(name for name in self.fields if name in self.errors)

    @property
    def first_error(self) -> str:
        """The error that is shown: of the first field that is wrong."""
        return str(self.errors[self.first_invalid][0])

    def problem(self) -> Problem:
        """The refusal of the form."""
        return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=self.first_error)


class ReasonForm(ActionForm):
    """Why a person does something."""

    refused_title = "A reason is required"

    reason = ReasonField(suffix=f" {NOTHING_CHANGED}.")
