"""An agent's level of autonomy: its score with its parts, its changes, and the form that raises it."""

from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from audit.access.permissions import actor_of, require
from audit.access.roles import Permission
from audit.events import Kind
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, AutonomyLevel
from runtime.core.views import error_page, labels
from runtime.core.views.forms import ActionForm, ReasonField
from runtime.flows.queries import risk_signals
from runtime.kernel import autonomy as levels
from runtime.kernel.autonomy import Part
from runtime.registry.models import Agent
from runtime.registry.queries import agent_entries, autonomy_levels, granted_kinds, people
from runtime.registry.services import autonomy, separate_owners
from runtime.registry.views import agent_lookup

_UNKNOWN = "Choose one of the levels listed on the page."


class RaiseForm(ActionForm):
    """A higher level, why, and the digest of the last change that the page showed."""

    codes: ClassVar = {"level": ProblemCode.AUTONOMY_NOT_RAISED, "reason": ProblemCode.REASON_MISSING}

    level = forms.ChoiceField(
        choices=AutonomyLevel.pairs(), error_messages={"required": _UNKNOWN, "invalid_choice": _UNKNOWN}
    )
    shown = forms.CharField(required=False, max_length=64)
    reason = ReasonField()


@require_POST
@require(Permission.MANAGE_REGISTRY)
def raise_level(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Raise the level of an agent that the runtime has lowered."""
    agent = agent_lookup.get_or_404(request, agent_id)
    back = reverse("agent", args=[agent_id])
    form = RaiseForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    answer = autonomy.raise_level(
        tenant=agent.tenant,
        agent_id=agent_id,
        level=AutonomyLevel(form.cleaned_data["level"]),
        shown=form.cleaned_data["shown"],
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    word = labels.AUTONOMY_LEVELS[answer.autonomy].word.lower()
    messages.success(request, f"{agent_id} is now {word}. What it did until now does not count again.")
    return redirect(back)


def shown(agent: Agent, *, actor: str, at: datetime) -> dict[str, Any]:
    """What the page shows of an agent's level: as the ledger has it, and the score as it is now."""
    recorded = autonomy_levels.get_recorded(agent)
    assessed = risk_signals.assess(
        agent=agent, manifest=granted_kinds.manifest_of(agent), raised_at=recorded.counts_from, at=at
    )
    changes = agent_entries.list_newest(agent, Kind.AGENT_AUTONOMY_CHANGED)
    names = people.names_of(change.actor for change in changes)
    allowed = separate_owners.allow(agent=agent, actor=actor, at=at, task=autonomy.TASK)
    return {
        "level": labels.badge(labels.AUTONOMY_LEVELS, recorded.level),
        "recorded": recorded,
        "differs": bool(autonomy_levels.list_unlike(agent, recorded.level)),
        "score": assessed.score.total,
        "rule": assessed.rule,
        "since": assessed.since,
        "parts": [_part(part) for part in assessed.score.parts],
        "changes": [
            {
                "at": change.at,
                "by": labels.actor_words(change.actor, names),
                "from": labels.badge(labels.AUTONOMY_LEVELS, change.payload["from_level"]),
                "to": labels.badge(labels.AUTONOMY_LEVELS, change.payload["to_level"]),
                "reason": change.payload["reason"],
                "since": _moment(change.payload["window_from"]),
            }
            for change in changes
        ],
        "higher": []
        if agent.status == AgentStatus.RETIRED
        else [
            (level.value, labels.AUTONOMY_LEVELS[level].word)
            for level in AutonomyLevel
            if levels.is_lower(recorded.level, than=level)
        ],
        "barred": allowed.detail if isinstance(allowed, Problem) else "",
    }


def _moment(text: str | None) -> datetime | None:
    """From when on was counted; None where a person raised it."""
    return None if text is None else datetime.fromisoformat(text)


def _part(part: Part) -> dict[str, Any]:
    return {"word": labels.SIGNALS[part.signal], "count": part.count, "points": part.points}
