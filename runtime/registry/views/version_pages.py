"""What the pages of manifests, kinds, rulesets and maps share: the forms that decide, and the versions."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from audit.access.permissions import actor_of, may
from audit.access.roles import Permission
from runtime.contracts.problem import Problem
from runtime.core.views import error_page, labels
from runtime.registry.models import Manifest, PolicyKind, Ruleset, Workflow
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.models.ontologies import Ontology
from runtime.registry.queries import people, version_states
from runtime.registry.services import dual_control

Versioned = Manifest | PolicyKind | Ruleset | CalibrationMap | Ontology
Row = TypeVar("Row", PolicyKind, Ruleset, Ontology)
Numbered = TypeVar("Numbered", PolicyKind, Ruleset, Workflow, Ontology)


def activate(
    request: HttpRequest, work: Callable[..., Versioned | Problem], *, page: str, done: str
) -> HttpResponse:
    """Activate a version in place of the one that the page showed as active."""
    answer = work(
        seen_active=request.POST.get("seen_active", ""),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request.user),
    )
    return answered(request, answer, page=page, done=done)


def discard(
    request: HttpRequest, work: Callable[..., Versioned | Problem], *, page: str, done: str
) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    answer = work(reason=request.POST.get("reason", ""), actor=actor_of(request.user))
    return answered(request, answer, page=page, done=done)


def permissions(request: HttpRequest, approved: dual_control.Approved | Problem) -> dict[str, Any]:
    """Return whether the forms are offered, and why the button is disabled."""
    return {
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
        "why_not": approved.detail if isinstance(approved, Problem) else "",
        "is_solo": not isinstance(approved, Problem) and approved.solo,
    }


def pick(request: HttpRequest, versions: Sequence[Numbered]) -> Numbered:
    """Return the version that `?version=` names, or without it the first; 404 where there is none."""
    asked = request.GET.get("version", "")
    found = next((row for row in versions if row.version == asked), None)
    if found is None and (asked or not versions):
        raise Http404
    return found or versions[0]


def listed(versions: Sequence[Row], shown: Row) -> dict[str, Any]:
    """Return each version with its state and who made and ended it, and the one that is shown."""
    actors = {actor for row in versions for actor in (row.created_by, row.activated_by, row.discarded_by)}
    names = people.names_of(actors)
    rows = [
        {
            "row": row,
            "state": labels.badge(labels.KIND_STATES, version_states.state_of(row)),
            "made_by": labels.actor_words(row.created_by, names),
            "ended_at": row.discarded_at or row.activated_at,
            "ended_by": labels.actor_words(row.discarded_by or row.activated_by, names),
            "is_shown": row.pk == shown.pk,
        }
        for row in versions
    ]
    return {"versions": rows, "this": next(row for row in rows if row["is_shown"])}


def answered(request: HttpRequest, answer: Versioned | Problem, *, page: str, done: str) -> HttpResponse:
    """Lead back to the page with a message, or say why nothing was done."""
    if isinstance(answer, Problem):
        if answer.status == HTTPStatus.NOT_FOUND:
            raise Http404
        return error_page.page(request, answer, back=page)
    messages.success(request, done)
    return redirect(page)
