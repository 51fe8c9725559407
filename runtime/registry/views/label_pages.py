"""The labels of an agent: what it got them by, until when it has them, and the form that ends some."""

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
from runtime.contracts import timestamps
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.views import error_page, labels
from runtime.core.views.forms import ActionForm, ReasonField
from runtime.registry.models import Agent
from runtime.registry.queries import agent_entries, granted_kinds, people
from runtime.registry.queries import agent_labels as recorded_labels
from runtime.registry.services import agent_labels, separate_owners
from runtime.registry.views import agent_lookup


class EndLabelForm(ActionForm):
    """A label, why it ends, and the digest of the last change that the page showed."""

    codes: ClassVar = {"label": ProblemCode.LABELS_MOVED, "reason": ProblemCode.REASON_MISSING}

    label = forms.CharField(max_length=128, error_messages={"required": "Choose a label of the page."})
    shown = forms.CharField(required=False, max_length=64)
    reason = ReasonField()


@require_POST
@require(Permission.MANAGE_REGISTRY)
def end(request: HttpRequest, agent_id: str) -> HttpResponse:
    """End a label of an agent."""
    agent = agent_lookup.get_or_404(request, agent_id)
    back = reverse("agent", args=[agent_id])
    form = EndLabelForm(request.POST)
    if not form.is_valid():
        return error_page.invalid(request, form, back=back)
    label = form.cleaned_data["label"]
    answer = agent_labels.end(
        tenant=agent.tenant,
        agent_id=agent_id,
        labels=[label],
        shown=form.cleaned_data["shown"],
        reason=form.cleaned_data["reason"],
        actor=actor_of(request.user),
    )
    if isinstance(answer, Problem):
        return error_page.page(request, answer, back=back)
    messages.success(request, f"{agent_id} no longer has the label {label}.")
    return redirect(back)


def shown(agent: Agent, *, actor: str, at: datetime) -> dict[str, Any]:
    """What the page shows of an agent's labels."""
    recorded = recorded_labels.get_recorded(agent)
    changes = agent_entries.list_newest(agent, Kind.AGENT_LABELS_CHANGED)
    names = people.names_of(change.actor for change in changes)
    manifest = granted_kinds.manifest_of(agent)
    allowed = separate_owners.allow(agent=agent, actor=actor, at=at, task=agent_labels.TASK)
    held = {} if recorded is None else recorded.at(at)
    return {
        "held": [
            {"label": label, "ends": None if end is None else timestamps.from_ms(end)}
            for label, end in held.items()
        ],
        "digest": "" if recorded is None else recorded.digest,
        "is_unread": recorded is None,
        "rules": () if manifest is None else manifest.label_rules,
        "changes": [
            {
                "at": change.at,
                "by": labels.actor_words(change.actor, names),
                "because": labels.LABEL_SOURCES.get(change.payload["because"], ""),
                **{name: change.payload[name] for name in ("gained", "ended", "source", "reason")},
            }
            for change in changes
        ],
        "barred": allowed.detail if isinstance(allowed, Problem) else "",
    }
