"""The ontology: what is declared of facts, its versions, and the activation of drafts."""

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, require, signed_in, tenant_of
from audit.access.roles import Permission
from runtime.contracts.states import KindState
from runtime.core import mismatches
from runtime.core.views import labels
from runtime.registry.queries import ontology_versions, version_states
from runtime.registry.services import ontologies
from runtime.registry.views import version_pages


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show one version, the active or else the newest, or one by `?version=`."""
    versions = ontology_versions.list_versions(tenant=tenant_of(request.user))
    if not versions and "version" not in request.GET:
        return render(request, "runtime/ontology.html", {"row": None})
    row = version_pages.pick(request, versions)
    mismatches.require(ontology_versions.compare(row))
    state = version_states.state_of(row)
    active = next((version for version in versions if version.active), None)
    approved = ontologies.VersionedOntology(row.tenant).may_activate(row, actor=actor_of(request.user))
    context: dict[str, Any] = {
        "row": row,
        "facts": [
            {
                "type": declared,
                "schema": labels.plain_value(declared.value_schema) if declared.value_schema else "",
            }
            for declared in ontology_versions.contract_of(row).facts
        ],
        "is_draft": state is KindState.DRAFT,
        "is_offered": state in {KindState.DRAFT, KindState.SUPERSEDED},
        "seen_active": "" if active is None else active.version,
        **version_pages.listed(versions, row),
        **version_pages.permissions(request, approved),
    }
    return render(request, "runtime/ontology.html", context)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def activate(request: HttpRequest, version: str) -> HttpResponse:
    """Activate a draft in place of the version that the page showed as active."""
    work = partial(ontologies.activate, tenant=tenant_of(request.user), version=version)
    done = f"The ontology {version} is active."
    return version_pages.activate(request, work, page=_page(version), done=done)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def discard(request: HttpRequest, version: str) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    work = partial(ontologies.discard, tenant=tenant_of(request.user), version=version)
    done = f"The ontology {version} is discarded."
    return version_pages.discard(request, work, page=_page(version), done=done)


def _page(version: str) -> str:
    return f"{reverse('ontology')}?{urlencode({'version': version})}"
