"""What forms of several pages share: one sentence for whatever is wrong with a text, and the reason form."""

from collections.abc import Mapping
from typing import ClassVar

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import given_reasons

NOTHING_CHANGED = "Nothing was changed"


class RequiredText(forms.CharField):
    """A text of at most `longest` characters; `refusal` is shown for whatever is wrong with it."""

    def __init__(self, *, longest: int, refusal: str) -> None:
        codes = ("required", "max_length", "null_characters_not_allowed")
        super().__init__(max_length=longest, error_messages=dict.fromkeys(codes, refusal))


class ReasonField(RequiredText):
    """Why a person does something, for the ledger."""

    def __init__(self, longest: int = given_reasons.LONGEST, *, suffix: str = "") -> None:
        sentence = f"Enter a reason of at most {longest} characters. It is recorded in the ledger."
        super().__init__(longest=longest, refusal=sentence + suffix)


class ActionForm(forms.Form):
    """The form of one button; where it is invalid, `error_page.invalid` shows its first error."""

    refused_title: ClassVar[str] = NOTHING_CHANGED

    # What a wrong value of a field is refused with, where the error itself has no code of a problem.
    codes: ClassVar[Mapping[str, ProblemCode]] = {}

    @property
    def first_error(self) -> str:
        """The error that a page shows of an invalid form."""
        return self.problem().detail

    def problem(self) -> Problem:
        """The refusal of an invalid form: of the form as a whole, else of its first field that is wrong."""
        found = self.errors.as_data()
        name = next(name for name in (NON_FIELD_ERRORS, *self.fields) if name in found)
        error = found[name][0]
        code: object = error.code
        if not isinstance(code, ProblemCode):
            code = self.codes.get(name)
        if code is None:
            return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=error.messages[0])
        return Problem(code=code, detail=error.messages[0])


class ReasonForm(ActionForm):
    """Why a person does something."""

    refused_title = "A reason is required"

    reason = ReasonField(suffix=f" {NOTHING_CHANGED}.")
