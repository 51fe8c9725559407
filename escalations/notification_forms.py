"""The form of a notification route. What an address may be is decided by `services.notices.routes`."""

from collections.abc import Sequence
from typing import Any

from django import forms

from escalations.contracts import Family, Occasion
from escalations.models import NotificationRoute
from escalations.services.notices.routes import LONGEST_NAME, QuietChoice, RouteRequest
from runtime.contracts.incident import Severity
from runtime.contracts.problem import Problem
from runtime.contracts.states import Impact

LONGEST_AUDIENCE = 150
LONGEST_GROUP = 150
_CHOSEN = [(value, value) for value in Occasion.values() if value != Occasion.TEST]


class PlainText(forms.CharField):
    """An optional text without characters that cannot be seen."""

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text.isprintable():
            raise forms.ValidationError("Use visible characters only.")
        return text


class RouteForm(forms.Form):
    """A route. Only `url` is required, and only of a new one: without it an existing route keeps its own."""

    name = PlainText(required=False, max_length=LONGEST_NAME)
    url = forms.CharField(
        error_messages={"required": "Enter the URL that notices are sent to."}, max_length=None
    )
    audience = PlainText(required=False, max_length=LONGEST_AUDIENCE)
    occasions = forms.MultipleChoiceField(required=False, choices=_CHOSEN, initial=[Occasion.OPENED.value])
    families = forms.MultipleChoiceField(required=False, choices=Family.pairs(), initial=Family.values())
    least_impact = forms.ChoiceField(required=False, choices=Impact.pairs())
    agent_id = forms.ChoiceField(required=False)
    policy_kind = forms.ChoiceField(required=False)
    least_severity = forms.ChoiceField(required=False, choices=Severity.pairs(), initial=Severity.SEV4.value)
    task_group = PlainText(required=False, max_length=LONGEST_GROUP)
    quiet_from = forms.TimeField(required=False)
    quiet_to = forms.TimeField(required=False)
    quiet_zone = forms.CharField(required=False, max_length=64, empty_value="UTC", initial="UTC")
    quiet_exempt = forms.ChoiceField(required=False, choices=Impact.pairs(), initial=Impact.HIGH_IMPACT.value)
    quiet_exempt_severity = forms.ChoiceField(
        required=False, choices=Severity.pairs(), initial=Severity.SEV2.value
    )

    def __init__(
        self,
        data: Any = None,
        *,
        agents: Sequence[str],
        kinds: Sequence[str],
        route: NotificationRoute | None = None,
    ) -> None:
        super().__init__(data, initial=None if route is None else _chosen(route))
        self.fields["url"].required = route is None
        for name, values in (("agent_id", agents), ("policy_kind", kinds)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101  # declared above
            field.choices = [(value, value) for value in values]

    def clean(self) -> None:
        """Quiet hours have a beginning and an end, or neither."""
        given = self.cleaned_data
        if (given.get("quiet_from") is None) == (given.get("quiet_to") is None):
            return
        missing = "quiet_from" if given.get("quiet_from") is None else "quiet_to"
        if missing not in self.errors:
            self.add_error(missing, "Enter both times, or neither.")

    def request(self) -> RouteRequest:
        """The route that was entered."""
        given = self.cleaned_data
        quiet = None
        if given["quiet_from"] is not None:
            quiet = QuietChoice(
                start=given["quiet_from"],
                end=given["quiet_to"],
                zone=given["quiet_zone"],
                exempt=Impact(given["quiet_exempt"]) if given["quiet_exempt"] else None,
                exempt_severity=_severity(given["quiet_exempt_severity"]),
            )
        return RouteRequest(
            name=given["name"],
            url=given["url"],
            audience=given["audience"],
            occasions=tuple(Occasion(value) for value in given["occasions"]),
            families=tuple(Family(value) for value in given["families"]),
            least_impact=Impact(given["least_impact"]) if given["least_impact"] else next(iter(Impact)),
            agent_id=given["agent_id"],
            policy_kind=given["policy_kind"],
            least_severity=_severity(given["least_severity"]) or Severity.SEV4,
            task_group=given["task_group"],
            quiet=quiet,
        )

    def add_problem(self, problem: Problem) -> None:
        """Show a refusal: at its fields, or above the form if it names none."""
        for violation in problem.violations:
            self.add_error(violation.pointer, violation.message)
        if not problem.violations:
            self.add_error(None, problem.detail)


def _chosen(route: NotificationRoute) -> dict[str, Any]:
    """What was chosen for a route, its address left out: nobody reads that again."""
    return {
        "name": route.name,
        "audience": route.audience,
        "occasions": [occasion.value for occasion in route.occasions],
        "families": [family.value for family in route.families],
        "least_impact": route.least_impact,
        "agent_id": route.agent_id,
        "policy_kind": route.policy_kind,
        "least_severity": route.least_severity,
        "task_group": route.task_group,
        "quiet_from": "" if route.quiet_from is None else f"{route.quiet_from:%H:%M}",
        "quiet_to": "" if route.quiet_to is None else f"{route.quiet_to:%H:%M}",
        "quiet_zone": route.quiet_zone or "UTC",
        "quiet_exempt": route.quiet_exempt if route.quiet_from else Impact.HIGH_IMPACT.value,
        "quiet_exempt_severity": (route.quiet_exempt_severity if route.quiet_from else Severity.SEV2.value),
    }


def _severity(given: str) -> Severity | None:
    return Severity(given) if given else None
