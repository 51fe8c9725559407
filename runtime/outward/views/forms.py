"""The forms of receivers. What a place and a choice of events may be is decided by the service."""

from typing import Final

from django import forms

from runtime.contracts import receiver as contract
from runtime.contracts.problem import Problem
from runtime.contracts.receiver import EventFormat, ReceiverKind
from runtime.core.views.forms import NOTHING_CHANGED, ActionForm, ReasonField
from runtime.outward.models import Receiver
from runtime.outward.services.receivers import Wanted

NOW, BEGINNING = "now", "beginning"
LONGEST_CHOICE: Final = 2000
_LEAF: Final = "Enter the number of a leaf."
_SEPARATOR: Final = " as "


def ways() -> list[tuple[str, str]]:
    """The kinds of receivers, each with the forms that it takes."""
    return [
        (f"{kind}{_SEPARATOR}{form}", f"{kind}{_SEPARATOR}{form}")
        for kind, forms_of_kind in contract.FORMATS.items()
        for form in forms_of_kind
    ]


class ReceiverForm(forms.Form):
    """A receiver. One that exists keeps its name and its kind."""

    name = forms.CharField(
        max_length=contract.LONGEST_NAME,
        error_messages={"required": "Enter a name.", "max_length": "Enter a shorter name."},
    )
    way = forms.ChoiceField(
        choices=ways, error_messages={"required": "Choose a kind.", "invalid_choice": "Choose a kind."}
    )
    place = forms.CharField(
        max_length=contract.LONGEST_PLACE, error_messages={"required": "Enter where events are sent."}
    )
    secret_env = forms.CharField(required=False, max_length=64)
    patterns = forms.CharField(
        max_length=LONGEST_CHOICE, error_messages={"required": "Enter kinds of events, or * for all."}
    )
    begin = forms.ChoiceField(choices=[(NOW, NOW), (BEGINNING, BEGINNING)], required=False)

    def wanted(self, row: Receiver | None = None) -> Wanted:
        """What was entered, for a new receiver or for `row`."""
        given = self.cleaned_data
        kind, _, form = given["way"].partition(_SEPARATOR)
        return Wanted(
            name=given["name"] if row is None else row.name,
            kind=ReceiverKind(kind if row is None else row.kind),
            format=EventFormat(form),
            patterns=tuple(dict.fromkeys(given["patterns"].replace(",", " ").split())),
            place=given["place"],
            secret_env=given["secret_env"],
        )

    def add_problem(self, problem: Problem) -> None:
        """Show a refusal: at its fields, or above the form if it names none."""
        for violation in problem.violations:
            name = violation.pointer if violation.pointer in self.fields else "way"
            self.add_error(name, violation.message)
        if not problem.violations:
            self.add_error(None, problem.detail)


class MoveForm(ActionForm):
    """Where the position was when it was shown, where it should be, and why."""

    from_leaf = forms.IntegerField(min_value=0, error_messages={"required": _LEAF, "invalid": _LEAF})
    to_leaf = forms.IntegerField(
        min_value=0, max_value=2**62, error_messages={"required": _LEAF, "invalid": _LEAF}
    )
    reason = ReasonField(suffix=f" {NOTHING_CHANGED}.")


def held(row: Receiver) -> dict[str, str]:
    """What was chosen for a receiver, as its form shows it."""
    return {
        "name": row.name,
        "way": f"{row.kind}{_SEPARATOR}{row.format}",
        "place": row.place,
        "secret_env": row.secret_env,
        "patterns": row.patterns,
    }
