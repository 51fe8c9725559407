"""Workflows: their graph with the traffic of the newest flows, their policies, and their versions."""

from collections import Counter
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.workflow import SequenceChecker, WorkflowDocument
from runtime.core import mismatches
from runtime.core.views import labels
from runtime.kernel import effects
from runtime.kernel.workflows import linter
from runtime.registry.models import Workflow
from runtime.registry.queries import people, recorded_versions, stored_documents, workflow_versions
from runtime.registry.services import document_reading
from runtime.registry.views import version_pages
from runtime.workflows.queries import traffic
from runtime.workflows.queries.traffic import Traffic
from runtime.workflows.views import graph_drawing, policy_words

_SHOWN_FOLLOWERS = 20


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the newest version of each workflow, with the agents that follow any of its versions."""
    tenant = tenant_of(request.user)
    followers = workflow_versions.list_followers(tenant=tenant)
    rows = [
        _listed(row, sum(len(agents) for name, agents in followers.items() if _is_version(name, row)))
        for row in workflow_versions.list_newest(tenant=tenant)
    ]
    return render(request, "runtime/workflows.html", {"rows": rows})


@require_safe
@signed_in
def detail(request: HttpRequest, workflow: str) -> HttpResponse:
    """Show one version: the newest, or one by `?version=`."""
    tenant = tenant_of(request.user)
    versions = workflow_versions.list_versions(tenant=tenant, workflow=workflow)
    row = version_pages.pick(request, versions)
    mismatches.require(recorded_versions.compare_workflow(row))
    document, found = stored_documents.workflow_of(bytes(row.body)), traffic.of_workflow(row)
    drawing = graph_drawing.draw(document, found)
    followers = workflow_versions.list_followers(tenant=tenant).get(str(row), [])
    names = people.names_of([version.created_by for version in versions])
    context = {
        "row": row,
        "document": document,
        "made_by": labels.actor_words(row.created_by, names),
        "impact": labels.badge(labels.IMPACTS, document.impact),
        "followers": [effects.visible(name) for name in followers[:_SHOWN_FOLLOWERS]],
        "more_followers": max(0, len(followers) - _SHOWN_FOLLOWERS),
        "traffic": found,
        "drawing": drawing,
        "instructions": _instructions(document, found),
        "checkers": [
            {
                "policy": checker,
                "on": f"{checker.to} steps" if isinstance(checker, SequenceChecker) else checker.on,
                "words": policy_words.of_checker(checker),
                "expression": policy_words.expression_of(checker),
                "refused": found.refusals[checker.id],
            }
            for checker in document.checkers
        ],
        "routers": [
            {
                "policy": router,
                "words": policy_words.of_router(router),
                "expression": policy_words.expression_of(router),
            }
            for router in document.routers
        ],
        "others": [
            (name, found.refusals[name])
            for name in ("graph", "next", "max_visits", "check_id")
            if found.refusals[name]
        ],
        "findings": [
            {
                "field": document_reading.written(item.place),
                "words": item.message,
                "code": item.code.value,
                "severity": labels.badge(labels.LINT_SEVERITIES, item.severity),
            }
            for item in linter.lint(document)
        ],
        "versions": [
            {"row": version, "made_by": labels.actor_words(version.created_by, names)} for version in versions
        ],
    }
    return render(request, "runtime/workflow.html", context)


def _is_version(name: str, row: Workflow) -> bool:
    return name.rpartition("@")[0] == row.workflow


def _listed(row: Workflow, followers: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"row": row, "followers": followers}
    if recorded_versions.compare_workflow(row) is not None:
        return {**shown, "is_untrusted": True}
    document = stored_documents.workflow_of(bytes(row.body))
    weighed = Counter(finding.severity for finding in linter.lint(document))
    return {
        **shown,
        "instructions": len(document.instructions),
        "checkers": len(document.checkers),
        "routers": len(document.routers),
        "errors": weighed[LintSeverity.ERROR],
        "warnings": weighed[LintSeverity.WARNING],
    }


def _instructions(document: WorkflowDocument, found: Traffic) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "core": known.core.value,
            "cost": known.cost,
            "max_visits": known.max_visits,
            "visits": found.visits[name],
            "interrupts": found.interrupts[name],
            "is_start": name == document.start,
            "is_end": name in document.ends,
        }
        for name, known in document.instructions.items()
    ]
