"""What people send about incidents."""

import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import QueryDict
from pydantic import ValidationError

from runtime.contracts import incident as contract
from runtime.contracts.incident import IncidentRule, IncidentState, LinkKind, Severity
from runtime.contracts.post_mortem import LONGEST_PART, PostMortemBody
from runtime.core.views.forms import NOTHING_CHANGED, ActionForm, ReasonField, RequiredText
from runtime.incidents.queries import leads
from runtime.incidents.services import texts
from runtime.incidents.services.incidents import Wanted

LINK_FIELDS: dict[LinkKind, str] = {kind: kind.value.lower() for kind in LinkKind}
MOST_GIVEN = 20
_TITLE = f"Enter a title of one line, of at most {contract.LONGEST_TITLE} characters."
_SEVERITY = "Choose a severity from SEV1 to SEV4."
_LEAD = "Choose the lead from the list."


class PersonField(forms.TypedChoiceField):
    """A person who may work on incidents; nobody, where that is allowed."""

    def __init__(self, *, required: bool, refusal: str) -> None:
        errors = {"required": refusal, "invalid_choice": refusal}
        super().__init__(required=required, error_messages=errors, coerce=int, empty_value=None)


class _WithPeople(ActionForm):
    """A form whose field `person_field` offers the people who may work on incidents."""

    person_field = "lead"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        people = [(str(pk), name) for pk, name in leads.list_people()]
        field = self.fields[self.person_field]
        assert isinstance(field, PersonField)  # noqa: S101  # tells mypy what the class says
        field.choices = [("", "Nobody"), *people]


class OpenForm(_WithPeople):
    """A new incident, with what it links."""

    title = RequiredText(longest=contract.LONGEST_TITLE, refusal=_TITLE)
    severity = forms.ChoiceField(
        choices=Severity.pairs(), error_messages={"required": _SEVERITY, "invalid_choice": _SEVERITY}
    )
    lead = PersonField(required=False, refusal=_LEAD)
    note = forms.CharField(
        required=False,
        max_length=texts.LONGEST_NOTE,
        error_messages={"max_length": f"Write at most {texts.LONGEST_NOTE:,} characters."},
    )


class EditForm(_WithPeople):
    """Title, severity and lead."""

    title = RequiredText(longest=contract.LONGEST_TITLE, refusal=f"{_TITLE} {NOTHING_CHANGED}.")
    severity = forms.ChoiceField(
        choices=Severity.pairs(), error_messages={"required": _SEVERITY, "invalid_choice": _SEVERITY}
    )
    lead = PersonField(required=False, refusal=_LEAD)
    reason = ReasonField(suffix=f" {NOTHING_CHANGED}.")


class MoveForm(ActionForm):
    """The next state, and why."""

    to = forms.ChoiceField(choices=IncidentState.pairs())
    reason = ReasonField(suffix=f" {NOTHING_CHANGED}.")


class LinkForm(ActionForm):
    """One more thing to link."""

    kind = forms.ChoiceField(choices=LinkKind.pairs())
    ref = RequiredText(
        longest=contract.LONGEST_REF,
        refusal=f"Enter the id or the name of what to link, of at most {contract.LONGEST_REF} characters.",
    )


class NoteForm(ActionForm):
    """A note."""

    text = RequiredText(
        longest=texts.LONGEST_NOTE, refusal=f"Write a note of at most {texts.LONGEST_NOTE:,} characters."
    )


class TodoForm(_WithPeople):
    """Something to do, who does it, and until when."""

    person_field = "owner"

    text = RequiredText(
        longest=texts.LONGEST_ACTION,
        refusal=f"Write what is to be done, in at most {texts.LONGEST_ACTION} characters.",
    )
    owner = PersonField(required=True, refusal="Choose who does it.")
    due_on = forms.DateField(
        error_messages={"required": "Enter the due date.", "invalid": "Enter the due date as YYYY-MM-DD."}
    )


class PostMortemForm(ActionForm):
    """The parts of the template, and the version that the author has seen."""

    seen = forms.IntegerField(min_value=0)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        for name in PostMortemBody.model_fields:
            errors = {"max_length": f"A part has at most {LONGEST_PART:,} characters. Nothing was saved."}
            self.fields[name] = forms.CharField(
                required=False, max_length=LONGEST_PART, error_messages=errors
            )

    def body(self) -> PostMortemBody:
        """What was written, with line ends as one character."""
        given = {name: self.cleaned_data[name] for name in PostMortemBody.model_fields}
        return PostMortemBody(**{name: text.replace("\r\n", "\n") for name, text in given.items()})


class RuleForm(ActionForm):
    """A version of a rule; the contract checks it, so that page and pack agree."""

    name = forms.CharField(required=False)
    title = forms.CharField(required=False)
    severity = forms.CharField(required=False)
    kinds = forms.CharField(required=False)
    reason = forms.CharField(required=False)
    agent_id = forms.CharField(required=False)
    policy_kind = forms.CharField(required=False)
    impact = forms.CharField(required=False)
    where = forms.CharField(required=False)
    times = forms.CharField(required=False)
    within_s = forms.CharField(required=False)
    per = forms.CharField(required=False)

    document: IncidentRule | None = None

    def clean(self) -> dict[str, Any]:
        """Read the document; the first thing that is wrong is named with its field."""
        given = {name: (self.cleaned_data.get(name) or "").strip() for name in self.fields}
        body: dict[str, Any] = given | {
            "kinds": given["kinds"].replace(",", " ").split(),
            "where": given["where"].replace(",", " ").split(),
            "impact": given["impact"] or None,
            "times": _number(given["times"]),
            "within_s": _number(given["within_s"]),
        }
        try:
            self.document = IncidentRule.model_validate_json(json.dumps(body))
        except ValidationError as error:
            first = error.errors()[0]
            wrong = _FIELD_WORDS.get(str(first["loc"][0]), f"{first['loc'][0]} is not valid.")
            raise forms.ValidationError(f"{wrong} Nothing was drafted.") from error
        return given


_FIELD_WORDS = {
    "name": "The name is of lower-case letters, digits and hyphens, and begins with a letter.",
    "title": "The title has 1 to 120 characters.",
    "severity": _SEVERITY,
    "kinds": "Name one to ten kinds of ledger entries, and none of incidents themselves.",
    "impact": "The impact is LOW_IMPACT, HIGH_IMPACT or CRITICAL.",
    "where": "Name at most five fields, each as field or field=value.",
    "times": f"The number of times is from 1 to {contract.MOST_TIMES:,}.",
    "within_s": f"The period is from 1 to {contract.MOST_WITHIN_S:,} seconds.",
    "per": "Choose what is counted together.",
}


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < LONGEST_NUMBER else text


LONGEST_NUMBER = 10


def wanted_links(given: QueryDict) -> Sequence[Wanted]:
    """What an address or a form names to be linked, each once."""
    found = [
        Wanted(kind, text.strip())
        for kind, name in LINK_FIELDS.items()
        for text in given.getlist(name)[:MOST_GIVEN]
        if text.strip()
    ]
    return list(dict.fromkeys(found))
