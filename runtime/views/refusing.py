"""A refused form: a page that says why and leads back, with the status of the refusal."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from runtime.contracts.problem import Problem


def page(request: HttpRequest, problem: Problem, *, back: str) -> HttpResponse:
    """What stands against the form, and the way back to its page."""
    violations = " ".join(f"{item.pointer}: {item.message}" for item in problem.violations)
    context = {
        "status": problem.status,
        "title": "Nothing was changed",
        "detail": f"{problem.detail} {violations}".strip(),
        "href": back,
        "action": "Go back",
    }
    return render(request, "error.html", context, status=problem.status)
