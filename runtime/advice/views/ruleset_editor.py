"""The next version of a ruleset: tables as tables of fields, checked, tried on history, saved as a draft."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from runtime.advice.views import ruleset_diff, ruleset_form, ruleset_pages
from runtime.contracts.ruleset import RulesetDocument
from runtime.kernel import versions
from runtime.registry.models import Ruleset
from runtime.registry.queries import ruleset_versions
from runtime.registry.services import document_writing, rulesets
from runtime.registry.views import version_editor
from runtime.registry.views.version_editor import Edited


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.MANAGE_REGISTRY)
def new_version(request: HttpRequest, ruleset: str) -> HttpResponse:
    """Show the editor with the next version of the active one, or of `?from=`, or its text by `?as=document`.

    On POST, check or save it.
    """
    tenant = tenant_of(request.user)
    rows = ruleset_versions.list_versions(tenant=tenant, ruleset=ruleset)
    if not rows:
        raise Http404
    if request.method == "POST":
        return _check_or_save(request, ruleset)
    wanted = request.GET.get("from") or rows[0].version
    base = next((row for row in rows if row.version == wanted), None)
    if base is None:
        raise Http404
    ruleset_pages.require_recorded(base)
    document = _following(ruleset_versions.contract_of(base), [row.version for row in rows])
    is_text = request.GET.get("as") == version_editor.AS_TEXT
    opened = version_editor.opened(document_writing.as_yaml(document), ruleset_form.build, is_text=is_text)
    return _editor(request, ruleset, opened)


def _following(document: RulesetDocument, taken: list[str]) -> RulesetDocument:
    """The document under the next version, without the version of cedarpy: the installed one is filled in."""
    request = document.cedar_request
    unpinned = None if request is None else request.model_copy(update={"cedarpy": None})
    return document.model_copy(update={"version": versions.following(taken), "cedar_request": unpinned})


def _check_or_save(request: HttpRequest, ruleset: str) -> HttpResponse:
    tenant = tenant_of(request.user)

    def done(row: Ruleset) -> HttpResponse:
        messages.success(request, f"{row} is saved as a draft. It has no effect until an admin activates it.")
        return redirect(ruleset_pages.page_of(row.ruleset, row.version))

    return version_editor.answer(
        request,
        build=ruleset_form.build,
        as_text=document_writing.value_as_yaml,
        check=lambda text: rulesets.check(tenant=tenant, text=text, ruleset=ruleset),
        save=lambda text: rulesets.draft(
            tenant=tenant, text=text, actor=actor_of(request.user), ruleset=ruleset
        ),
        show=partial(_editor, request, ruleset),
        done=done,
    )


def _editor(request: HttpRequest, ruleset: str, edited: Edited[RulesetDocument]) -> HttpResponse:
    checked = edited.checked
    context: dict[str, Any] = {"ruleset": ruleset, **edited.page(document_writing.value_as_yaml)}
    if checked is not None and checked.contract is not None and checked.is_sound:
        context["trial"] = ruleset_diff.trial(tenant_of(request.user), checked.contract)
    return render(request, "runtime/ruleset_editor.html", context, status=edited.status)
