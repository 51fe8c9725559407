"""The calibration maps of an agent: drafts, what one would change, and its activation by another admin."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from audit.access.permissions import actor_of, may, require, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from runtime.contracts import timestamps
from runtime.contracts.calibration import CalibrationDocument, ConfidenceUse
from runtime.contracts.problem import Problem
from runtime.contracts.states import CalibrationState
from runtime.core.mismatches import Mismatch
from runtime.core.views import error_page, labels, query_params
from runtime.kernel import calibration
from runtime.kernel.calibration import WHOLE
from runtime.proposals.queries import calibration_pairs
from runtime.proposals.queries.calibration_pairs import Alike
from runtime.proposals.services import calibration_drafts
from runtime.registry.models import Agent
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.queries import calibration_maps as maps
from runtime.registry.queries import granted_kinds, people, recorded_versions
from runtime.registry.services import calibration_maps
from runtime.registry.services.calibration_maps import VersionedCalibration
from runtime.registry.views import version_pages

_LONGEST = 128


@require_POST
@require(Permission.MANAGE_REGISTRY)
def draft(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Draft a map of a kind for each impact that has enough proposals with a known end."""
    kind = query_params.text(request.POST.get("kind", ""), longest=_LONGEST)
    page = _page(agent_id, kind=kind)
    found = calibration_drafts.draft(
        tenant=tenant_of(request.user), agent_id=agent_id, policy_kind=kind, actor=actor_of(request.user)
    )
    if isinstance(found, Problem):
        return version_pages.answered(request, found, page=page, done="")
    said = calibration_drafts.sentence(found)
    if not found.maps:
        detail = f"No map was drafted: {said}"
        problem = Problem(code=calibration_drafts.NOTHING_TO_DRAFT, detail=detail)
        return error_page.page(request, problem, back=page)
    messages.success(request, said[0].upper() + said[1:])
    return redirect(_page(agent_id, kind=kind, map=str(found.maps[0].version)))


@require_POST
@require(Permission.MANAGE_REGISTRY)
def activate(request: HttpRequest, agent_id: str, number: int) -> HttpResponse:
    """Activate a map in place of the one that the page showed as active."""
    work = partial(
        calibration_maps.activate, tenant=tenant_of(request.user), agent_id=agent_id, version=str(number)
    )
    page = _page(agent_id, map=str(number))
    return version_pages.activate(request, work, page=page, done=f"Map {number} is active.")


@require_POST
@require(Permission.MANAGE_REGISTRY)
def discard(request: HttpRequest, agent_id: str, number: int) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    work = partial(
        calibration_maps.discard, tenant=tenant_of(request.user), agent_id=agent_id, version=str(number)
    )
    page = _page(agent_id, map=str(number))
    return version_pages.discard(request, work, page=page, done=f"Map {number} is discarded.")


def shown(request: HttpRequest, agent: Agent) -> dict[str, Any]:
    """Return the maps of an agent, and one of them in full: that of `?map=`, a draft, or the newest."""
    rows = maps.list_of_agent(agent)
    asked = query_params.text(request.GET.get("map", ""), longest=_LONGEST)
    drafts = [row for row in rows if maps.state_of(row) is CalibrationState.DRAFT]
    row = next((each for each in rows if str(each.version) == asked), None)
    row = row or next(iter((*drafts, *rows)), None)
    manifest = granted_kinds.manifest_of(agent)
    return {
        "maps": _listed(rows, row),
        "asks_for_maps": manifest is not None and manifest.confidence is ConfidenceUse.CALIBRATED,
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
        "drafted": None if row is None else _in_full(request, agent, row),
    }


def _page(agent_id: str, **query: str) -> str:
    named = {name: value for name, value in query.items() if value}
    page = reverse("agent-calibration", args=[agent_id])
    return f"{page}?{urlencode(named)}" if named else page


def _listed(rows: Any, chosen: CalibrationMap | None) -> list[dict[str, Any]]:
    names = people.names_of({who for row in rows for who in (row.created_by, _ended(row)[1])})
    return [
        {
            "row": row,
            "state": labels.badge(labels.CALIBRATION_STATES, maps.state_of(row)),
            "impact": labels.badge(labels.IMPACTS, row.impact),
            "made_by": labels.actor_words(row.created_by, names),
            "ended_at": _ended(row)[0],
            "ended_by": labels.actor_words(_ended(row)[1], names),
            "is_shown": chosen is not None and row.pk == chosen.pk,
        }
        for row in rows
    ]


def _ended(row: CalibrationMap) -> tuple[Any, str]:
    """When a map was activated, or else came to an end, and by whom."""
    if row.retired_at is not None:
        return row.retired_at, row.retired_by
    return row.discarded_at or row.activated_at, row.discarded_by or row.activated_by


def _in_full(request: HttpRequest, agent: Agent, row: CalibrationMap) -> dict[str, Any]:
    wrong = _mismatch(agent, row)
    if wrong is not None:
        return {"row": row, "untrusted": [wrong]}
    document, state = maps.contract_of(row), maps.state_of(row)
    versioned = VersionedCalibration(agent, policy_kind=row.policy_kind, impact=row.impact)
    active = versioned.get_active()
    approved = versioned.may_activate(row, actor=actor_of(request.user))
    return {
        "row": row,
        "state": labels.badge(labels.CALIBRATION_STATES, state),
        "impact": labels.badge(labels.IMPACTS, row.impact),
        "document": document,
        "first_at": timestamps.from_ms(document.first_ms),
        "last_at": timestamps.from_ms(document.last_ms),
        "knots": [(f"{knot.stated / WHOLE:.3f}", f"{knot.good / WHOLE:.3f}") for knot in document.map],
        "is_draft": state is CalibrationState.DRAFT,
        "seen_active": "" if active is None else str(active.version),
        "effect": _effect(agent, document) if state is CalibrationState.DRAFT else None,
        **version_pages.permissions(request, approved),
    }


def _mismatch(agent: Agent, row: CalibrationMap) -> Mismatch | None:
    return recorded_versions.compare_calibration(agent, row, by=Kind.CALIBRATION_DRAFTED)


def _effect(agent: Agent, document: CalibrationDocument) -> dict[str, Any] | None:
    """How many of the proposals that it may be made of would have asked a person because of the map."""
    kind = granted_kinds.get_version(tenant=agent.tenant, kind=document.policy_kind, version=None)
    manifest = granted_kinds.manifest_of(agent)
    if kind is None or manifest is None or kind.digest != document.kind_digest:
        return None
    if recorded_versions.compare_kind(kind) is not None:
        return None
    threshold = max(
        granted_kinds.contract_of(kind).confidence_threshold, manifest.escalate_below_confidence or 0.0
    )
    alike = Alike(document.impact, document.kind_digest, document.model_profile)
    found = calibration_pairs.of_agent(agent=agent, kind=document.policy_kind, alike=alike)
    asked, bad = calibration.lowered(found.pairs, document.map, threshold=calibration.millionths(threshold))
    return {"of": len(found.pairs), "asked": asked, "bad": bad, "threshold": f"{threshold:g}"}
