"""A kind's next version: the editor that checks it, and the forms that activate or discard it."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.verdict import Segment, VerdictDocument
from runtime.core.views import labels
from runtime.kernel import effects, versions
from runtime.proposals.queries import policy_dry_run
from runtime.proposals.views import schema_form
from runtime.registry.models import PolicyKind
from runtime.registry.queries import kind_versions, ruleset_versions
from runtime.registry.services import document_writing, kinds
from runtime.registry.views import kind_form, kind_pages, version_editor, version_pages
from runtime.registry.views.version_editor import Edited


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def new_kind(request: HttpRequest) -> HttpResponse:
    """Show the editor with the outline of a new kind; on POST, check or save it."""
    if request.method != "POST":
        return _begin(request, kind="", text=render_to_string("runtime/new_kind.txt"))
    return _check_or_save(request, kind="")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def new_version(request: HttpRequest, kind: str) -> HttpResponse:
    """Show the editor with the next version of the active one, or of `?from=`, as YAML or `?as=json`."""
    tenant = tenant_of(request.user)
    names = kind_versions.list_version_names(tenant=tenant, kind=kind)
    if not names:
        raise Http404
    if request.method == "POST":
        return _check_or_save(request, kind=kind)
    wanted = request.GET.get("from")
    if not wanted:
        active = kind_versions.get_active(tenant=tenant, kind=kind)
        wanted = versions.highest(names) or "" if active is None else active.version
    base = kind_versions.get_version(tenant=tenant, kind=kind, version=wanted)
    if base is None:
        raise Http404
    kind_pages.require(base)
    document = kind_versions.contract_of(base).model_copy(update={"version": versions.following(names)})
    is_json = request.GET.get("as") == "json"
    text = (
        labels.pretty(document.model_dump(mode="json", exclude_defaults=True))
        if is_json
        else document_writing.as_yaml(document)
    )
    return _begin(request, kind=kind, text=text)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def activate(request: HttpRequest, kind: str, version: str) -> HttpResponse:
    """Activate a version in place of the one that the page showed as active."""
    work = partial(kinds.activate, tenant=tenant_of(request.user), kind=kind, version=version)
    page = _page_of(kind, version)
    return version_pages.activate(request, work, page=page, done=f"{kind} {version} is active.")


@require_POST
@require(Permission.MANAGE_REGISTRY)
def discard(request: HttpRequest, kind: str, version: str) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    work = partial(kinds.discard, tenant=tenant_of(request.user), kind=kind, version=version)
    page = _page_of(kind, version)
    return version_pages.discard(request, work, page=page, done=f"{kind} {version} is discarded.")


def _check_or_save(request: HttpRequest, *, kind: str) -> HttpResponse:
    tenant = tenant_of(request.user)

    def done(row: PolicyKind) -> HttpResponse:
        words = f"{row} is saved as a draft. It has no effect until an admin activates it."
        messages.success(request, words)
        return redirect(_page_of(row.kind, row.version))

    return version_editor.answer(
        request,
        build=partial(kind_form.build, tenant),
        as_text=document_writing.value_as_yaml,
        check=lambda text: kinds.check(tenant=tenant, text=text, kind=kind),
        save=lambda text: kinds.draft(tenant=tenant, text=text, actor=actor_of(request.user), kind=kind),
        show=partial(_editor, request, kind),
        done=done,
    )


def _begin(request: HttpRequest, *, kind: str, text: str) -> HttpResponse:
    """Show the form, or with `?as=document` or `?as=json` the text."""
    is_text = request.GET.get("as") in {version_editor.AS_TEXT, "json"}
    build = partial(kind_form.build, tenant_of(request.user))
    return _editor(request, kind, version_editor.opened(text, build, is_text=is_text))


def _editor(request: HttpRequest, kind: str, edited: Edited[KindDocument]) -> HttpResponse:
    tenant, checked = tenant_of(request.user), edited.checked
    contract = None if checked is None else checked.contract
    context: dict[str, Any] = {
        "kind": kind,
        "other_format": "?as=json" if kind and checked is None else "",
        **edited.page(document_writing.value_as_yaml),
        "active": kind_versions.get_active(tenant=tenant, kind=contract.kind if contract else kind),
    }
    if checked is not None and contract is not None:
        context |= {
            **kind_pages.changes(contract, context["active"]),
            # What does not compile cannot be evaluated or previewed: show the problems first.
            "preview": _preview(tenant, contract) if checked.is_sound else None,
            "trial": kind_pages.trial(tenant, contract) if checked.is_sound else None,
        }
    return render(request, "runtime/kind_editor.html", context, status=edited.status)


def _preview(tenant: str, contract: KindDocument) -> dict[str, Any]:
    """Return the preview: the parameter form and the effect sentence, from the newest proposal."""
    rows = policy_dry_run.list_of_kind(tenant=tenant, kind=contract.kind, limit=1)
    asked = policy_dry_run.proposal_of(rows[0]).params if rows else {}
    rulesets, _ = ruleset_versions.compare_named(tenant=tenant, names=contract.rulesets)
    found = (
        policy_dry_run.judge_one(
            row=rows[0],
            swap=lambda then: then.model_copy(update={"kind": contract, "rulesets": rulesets}),
        )
        if rows
        else None
    )
    verdict = found if isinstance(found, VerdictDocument) else None
    return {
        "fields": schema_form.fields(contract.params_schema, asked, None),
        "effect": [
            Segment(text=piece[-1], value=piece[0] == "value")
            for piece in effects.render(contract.effect, asked)
        ]
        if rows
        else None,
        "impact": None if verdict is None else labels.badge(labels.IMPACTS, verdict.impact),
        "decision": None if verdict is None else labels.badge(labels.VERDICTS, verdict.decision),
        "dfid": rows[0].proposal.flow_id if rows else None,
    }


def _page_of(kind: str, version: str) -> str:
    return f"{reverse('kind', args=[kind])}?{urlencode({'version': version})}"
