"""Conformance: the page that runs every item and shows what came out.

A run takes some seconds, so it is a button, and one is under way at a time. The last result is kept in the
cache, with its time; it is no record, and the next run takes its place.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import signed_in, tenant_of
from dir_console.conformance import catalogue, frameworks, run
from dir_console.conformance.frameworks import Cover
from dir_console.conformance.items import Answer, Group
from runtime.core.views.labels import Badge

KEPT_S: Final = 7 * 24 * 3600
# Longer than any run: whoever began one may have been ended.
RUNNING_S: Final = 120
ANSWERS: Final[Mapping[str, Badge]] = {
    Answer.YES: Badge("ok", "check", "Yes"),
    Answer.PARTLY: Badge("warn", "refer", "Partly"),
    Answer.NO: Badge("danger", "high", "No"),
    Answer.NOT_APPLICABLE: Badge("idle", "wait", "Not applicable"),
}
COVERS: Final[Mapping[str, Badge]] = {
    Cover.COVERED: Badge("ok", "check", "Covered"),
    Cover.PARTLY: Badge("warn", "refer", "Partly"),
    Cover.NOT_COVERED: Badge("idle", "cross", "Not covered"),
}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the last run; before the first one, what a run tries."""
    report = cache.get(_key(request, "last"))
    context = {
        "report": report,
        "at": None if report is None else datetime.fromisoformat(report["at"]),
        "counts": [] if report is None else _counts(report),
        "groups": _groups(_untried() if report is None else report["items"]),
        "frameworks": [
            {
                **framework,
                "rows": [{**each, "badge": COVERS[each["cover"]]} for each in framework["requirements"]],
            }
            for framework in frameworks.plain()
        ],
    }
    return render(request, "console/conformance.html", context)


@require_POST
@signed_in
def start(request: HttpRequest) -> HttpResponse:
    """Run every item now, then show what came out."""
    running = _key(request, "running")
    if not cache.add(running, True, timeout=RUNNING_S):
        messages.warning(request, "A run is under way. Reload the page in a few seconds to see its result.")
        return redirect("conformance")
    try:
        report = run.run(tenant=tenant_of(request.user)).plain()
        cache.set(_key(request, "last"), report, timeout=KEPT_S)
    finally:
        cache.delete(running)
    return redirect("conformance")


def _key(request: HttpRequest, what: str) -> str:
    return f"conformance-{what}-{tenant_of(request.user)}"


def _counts(report: Mapping[str, Any]) -> list[tuple[Badge, int]]:
    return [(ANSWERS[answer], count) for answer, count in report["answers"].items() if count]


def _untried() -> list[dict[str, Any]]:
    """Every item without a result."""
    return [
        {
            "id": check.id,
            "group": check.group.value,
            "source": f"{check.paper}: {check.asks}",
            "tried": check.tries,
            "tests": list(check.tests),
        }
        for check in catalogue.CHECKS
    ]


def _groups(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items by where they come from, each with its badge."""
    groups = []
    for group in Group:
        rows = [
            {**item, "badge": ANSWERS.get(item.get("answer", ""))}
            for item in items
            if item["group"] == group.value
        ]
        counted = Counter(row["badge"].word.lower() for row in rows if row["badge"])
        words = ", ".join(f"{count} {word}" for word, count in counted.items())
        groups.append({"name": group.name.lower(), "title": group.value, "rows": rows, "words": words})
    return groups
