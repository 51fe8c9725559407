"""The forms of agents. What a profile may hold is decided by `registration`, which gives the errors."""

from datetime import date
from typing import Any, ClassVar

from django import forms

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentRole, AgentStatus
from runtime.core.views.forms import ActionForm, ReasonField
from runtime.registry.models import Agent
from runtime.registry.services import registration

LONGEST_REASON = 200
_UNKNOWN_STATUS = "Choose one of the statuses listed on the page."
_UNREADABLE_DATE = "Enter the date as YYYY-MM-DD, or leave it empty."


class DayField(forms.DateField):
    """An ISO date, or nothing."""

    def __init__(self) -> None:
        super().__init__(required=False, error_messages={"invalid": _UNREADABLE_DATE})

    def strptime(self, value: str, format: str) -> date:
        return date.fromisoformat(value)


class LinesField(forms.CharField):
    """A text of several lines, which a browser sends with CRLF, whatever they were."""

    def to_python(self, value: Any) -> Any:
        return super().to_python(value and value.replace("\r\n", "\n"))


class ProfileForm(forms.Form):
    """Owner, mission and review date of an agent."""

    owner = forms.CharField(required=False)
    mission = LinesField(required=False)
    review_on = DayField()

    def profile(self) -> registration.Profile:
        """The profile that was entered."""
        given = self.cleaned_data
        return registration.Profile(
            owner=given["owner"], mission=given["mission"], review_on=given["review_on"]
        )

    def add_problem(self, problem: Problem) -> None:
        """Show a refusal: at its fields, or above the form if it names none."""
        for violation in problem.violations:
            self.add_error(violation.pointer, violation.message)
        if not problem.violations:
            self.add_error(None, problem.detail)


class RegistrationForm(ProfileForm):
    """A new agent: its id, its role and its profile."""

    agent_id = forms.CharField(required=False)
    role = forms.CharField(required=False, initial=AgentRole.EXECUTOR.value)


class EditForm(ProfileForm):
    """Another profile of an agent, with the one that its editor saw."""

    seen_owner = forms.CharField(required=False)
    seen_mission = LinesField(required=False)
    seen_review_on = DayField()

    @classmethod
    def of(cls, agent: Agent) -> "EditForm":
        """The form with the stored profile."""
        stored = registration.profile_of(agent)
        initial = {
            "owner": stored.owner,
            "mission": stored.mission,
            "review_on": stored.review_text or "",
        }
        return cls(initial=initial | {f"seen_{name}": value for name, value in initial.items()})

    def seen(self) -> registration.Profile:
        """The profile that the editor saw."""
        given = self.cleaned_data
        return registration.Profile(
            owner=given["seen_owner"], mission=given["seen_mission"], review_on=given["seen_review_on"]
        )

    def clean(self) -> None:
        if "seen_review_on" in self.errors and "review_on" not in self.errors:
            self.add_error("review_on", _UNREADABLE_DATE)


class StatusForm(ActionForm):
    """Another status of an agent; `seen` is the one that the page showed."""

    codes: ClassVar = {
        "seen": ProblemCode.STATUS_UNKNOWN,
        "status": ProblemCode.STATUS_UNKNOWN,
        "reason": ProblemCode.REASON_MISSING,
        "typed_id": ProblemCode.ID_NOT_TYPED,
    }

    seen = forms.ChoiceField(
        choices=AgentStatus.pairs(),
        error_messages={"required": _UNKNOWN_STATUS, "invalid_choice": _UNKNOWN_STATUS},
    )
    status = forms.ChoiceField(
        choices=AgentStatus.pairs(),
        error_messages={"required": _UNKNOWN_STATUS, "invalid_choice": _UNKNOWN_STATUS},
    )
    reason = ReasonField(LONGEST_REASON)
    typed_id = forms.CharField(required=False)

    def __init__(self, data: Any, *, agent_id: str) -> None:
        super().__init__(data)
        self.agent_id = agent_id

    def clean(self) -> None:
        given = self.cleaned_data
        if given.get("status") == AgentStatus.RETIRED and given.get("typed_id") != self.agent_id:
            self.add_error("typed_id", "Retiring is permanent. Type the exact agent ID to confirm.")
