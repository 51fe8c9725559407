"""The form that closes a review."""

from django import forms

from runtime.contracts.guard import ReviewResult
from runtime.core.views.forms import ActionForm, RequiredText
from runtime.guards.services import reviews

_REFUSAL = f"Choose whether the guard was right, and say why in at most {reviews.MAX_NOTE_CHARS} characters."


class ReviewForm(ActionForm):
    """Whether the guard was right, and why."""

    result = forms.ChoiceField(
        choices=ReviewResult.pairs(), error_messages={"required": _REFUSAL, "invalid_choice": _REFUSAL}
    )
    note = RequiredText(longest=reviews.MAX_NOTE_CHARS, refusal=_REFUSAL)
