"""Pages of a manifest's versions: the editor, one version with its changes, activation and discard."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from audit import canonical
from audit.access.permissions import actor_of, require, signed_in
from audit.access.roles import Permission
from audit.events import Kind
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.states import AgentStatus, ManifestState
from runtime.core import mismatches
from runtime.core.views import labels
from runtime.kernel import manifest_lint, versions
from runtime.proposals.queries import policy_dry_run
from runtime.registry.models import Agent, Manifest
from runtime.registry.queries import manifest_versions, people, recorded_versions
from runtime.registry.services import document_writing, manifests
from runtime.registry.views import (
    agent_lookup,
    manifest_form,
    manifest_tables,
    version_diff,
    version_editor,
    version_pages,
)
from runtime.registry.views.version_editor import Edited

_EMPTY: dict[str, Any] = {"policy_kinds": [], "limits": {}, "escalations_per_hour": 3}


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def new(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show the editor with the next version of the active one, or of `?from=`; on POST, check or save it."""
    agent = agent_lookup.get_or_404(request, agent_id)
    if agent.status == AgentStatus.RETIRED:
        raise Http404
    _require(agent, agent.active_manifest)
    show, build = partial(_editor, request, agent), partial(manifest_form.build, agent)
    if request.method != "POST":
        text = _next_text(agent, request.GET.get("from", ""))
        is_text = request.GET.get("as") == version_editor.AS_TEXT
        return show(version_editor.opened(text, build, is_text=is_text))

    def done(row: Manifest) -> HttpResponse:
        words = f"{row.version} is saved as a draft. It grants nothing until an admin activates it."
        messages.success(request, words)
        return redirect("manifest", agent_id, row.version)

    return version_editor.answer(
        request,
        build=build,
        as_text=document_writing.value_as_json,
        check=lambda text: manifests.check(agent=agent, text=text),
        save=lambda text: manifests.draft(
            tenant=agent.tenant, agent_id=agent_id, text=text, actor=actor_of(request.user)
        ),
        show=show,
        done=done,
    )


@require_safe
@signed_in
def detail(request: HttpRequest, agent_id: str, version: str) -> HttpResponse:
    """Show one version: changes, contents, author; `?trial=1` adds a dry run on stored proposals."""
    agent = agent_lookup.get_or_404(request, agent_id)
    row = _version(agent, version)
    before = manifest_versions.list_predecessors(agent=agent, rows=[row])[row.pk]
    _require(agent, row, before)
    contract = manifest_versions.contract_of(row)
    base = None if before is None else manifest_versions.contract_of(before)
    body = canonical.decode(bytes(row.body))
    state = manifest_versions.state_of(row, active_id=agent.active_manifest_id)
    names = people.names_of([row.created_by, row.activated_by, row.discarded_by])
    approved = manifests.AgentManifest(agent).may_activate(row, actor=actor_of(request.user))
    context = {
        "agent": agent,
        "row": row,
        "state": labels.badge(labels.MANIFEST_STATES, state),
        "is_draft": state is ManifestState.DRAFT,
        "by": {
            "made": labels.actor_words(row.created_by, names),
            "activated": labels.actor_words(row.activated_by, names),
            "discarded": labels.actor_words(row.discarded_by, names),
        },
        "tables": _tables(agent, body),
        "trial": _trial(agent, contract) if request.GET.get("trial") else None,
        "seen_active": "" if agent.active_manifest is None else agent.active_manifest.version,
        "is_retired": agent.status == AgentStatus.RETIRED,
        **version_diff.changes(
            before, manifest_lint.diff(base, contract), units=_units(agent, base, contract)
        ),
        **version_pages.permissions(request, approved),
    }
    return render(request, "runtime/manifest.html", context)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def activate(request: HttpRequest, agent_id: str, version: str) -> HttpResponse:
    """Activate a draft in place of the version that the page showed as active."""
    agent = agent_lookup.get_or_404(request, agent_id)
    _version(agent, version)
    work = partial(manifests.activate, tenant=agent.tenant, agent_id=agent_id, version=version)
    page = reverse("manifest", args=[agent_id, version])
    return version_pages.activate(request, work, page=page, done=f"{version} is active.")


@require_POST
@require(Permission.MANAGE_REGISTRY)
def discard(request: HttpRequest, agent_id: str, version: str) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    agent = agent_lookup.get_or_404(request, agent_id)
    _version(agent, version)
    work = partial(manifests.discard, tenant=agent.tenant, agent_id=agent_id, version=version)
    page = reverse("manifest", args=[agent_id, version])
    return version_pages.discard(request, work, page=page, done=f"{version} is discarded.")


def _version(agent: Agent, version: str) -> Manifest:
    row = manifest_versions.get_version(agent=agent, version=version)
    if row is None:
        raise Http404
    return row


def _require(agent: Agent, *rows: Manifest | None) -> None:
    """Raise unless all versions match what their authors saved."""
    mismatches.require(
        *(recorded_versions.compare_manifest(agent, row, by=Kind.MANIFEST_REGISTERED) for row in rows if row)
    )


def _next_text(agent: Agent, wanted: str) -> str:
    """Return the document to start from: the wanted or active version, with the next version number."""
    base = manifest_versions.get_version(agent=agent, version=wanted) if wanted else agent.active_manifest
    _require(agent, base)
    body = (
        _EMPTY
        if base is None
        else manifest_versions.contract_of(base).model_dump(
            mode="json", exclude_none=True, exclude={"version"}
        )
    )
    document = {"version": versions.following(manifest_versions.list_names(agent=agent)), **body}
    return document_writing.value_as_json(document)


def _editor(request: HttpRequest, agent: Agent, edited: Edited[ManifestDocument]) -> HttpResponse:
    active, checked = agent.active_manifest, edited.checked
    context: dict[str, Any] = {
        "agent": agent,
        **edited.page(document_writing.value_as_json),
        "active": active,
        "tables": None if active is None else _tables(agent, canonical.decode(bytes(active.body))),
    }
    if checked is not None and checked.contract is not None:
        base = None if active is None else manifest_versions.contract_of(active)
        registry = manifest_versions.registry_for(agent=agent, draft=checked.contract)
        context |= version_diff.changes(
            active,
            manifest_lint.diff(base, checked.contract, registry=registry),
            units=_units(agent, base, checked.contract),
        )
        context["trial"] = _trial(agent, checked.contract)
    return render(request, "runtime/manifest_editor.html", context, status=edited.status)


def _trial(agent: Agent, draft: ManifestDocument) -> dict[str, Any]:
    """Dry-run the draft on the agent's newest proposals, each with the kind at that time."""
    report = policy_dry_run.rejudge(
        rows=policy_dry_run.list_of_agent(agent=agent),
        swap=lambda then: then.model_copy(update={"manifest": draft}),
    )
    return version_diff.trial(report)


def _units(
    agent: Agent, before: ManifestDocument | None, after: ManifestDocument
) -> tuple[version_diff.Units, version_diff.Units]:
    """Return the units of the limits of two versions: those of the kinds that either grants."""
    granted = {kind for document in (before, after) if document for kind in document.policy_kinds}
    units = {
        f"limits.{name}": unit
        for name, unit in manifest_tables.limit_units(tenant=agent.tenant, policy_kinds=granted).items()
    }
    return units, units


def _tables(agent: Agent, body: manifest_tables.Body) -> dict[str, Any]:
    units = manifest_tables.limit_units(tenant=agent.tenant, policy_kinds=body["policy_kinds"])
    return {
        "rights": manifest_tables.rights(body),
        "limits": manifest_tables.limits(body, units),
        "bounds": manifest_tables.bounds(body),
        "autonomy": manifest_tables.autonomy(body),
        "own_autonomy": body.get("autonomy") is not None,
        "recorded": manifest_tables.recorded(body),
        "raw": labels.pretty(body),
    }
