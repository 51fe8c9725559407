"""The forms that refill a bucket and set a capacity."""

from django import forms

from runtime.core.views.forms import NOTHING_CHANGED, ActionForm, ReasonField, ReasonForm

LONGEST_REASON = 200
_REFUSAL = "Enter the capacity as a whole number in the resource's unit, without separators."


class RefillForm(ReasonForm):
    """Why an agent's escalation bucket is refilled."""

    reason = ReasonField(LONGEST_REASON, suffix=f" {NOTHING_CHANGED}.")


class CapacityForm(ActionForm):
    """Another capacity of a resource."""

    refused_title = "A number is required"

    name = forms.CharField(required=False, strip=False)
    capacity = forms.RegexField(
        r"^[0-9]{1,18}\Z", strip=True, error_messages={"required": _REFUSAL, "invalid": _REFUSAL}
    )
