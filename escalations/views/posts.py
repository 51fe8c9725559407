"""What POSTs share: the refusal after a lost race, and that a GET about a call in doubt never acts."""

from functools import wraps
from typing import cast
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from audit.access.permissions import GuardedView
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode

BUSY = Problem(code=ProblemCode.BUSY, detail="Someone else changed this. Review it again before deciding.")


def post_here(view: GuardedView) -> GuardedView:
    """Accept POST only. A GET, from the address bar or a restored tab, redirects to the list."""

    @wraps(view)
    def guarded(request: HttpRequest, intent_id: UUID, number: int) -> HttpResponseBase:
        if request.method in {"GET", "HEAD"}:
            return redirect(f"{reverse('calls-in-doubt')}#call-{intent_id}-{number}")
        return require_POST(view)(request, intent_id, number)

    result = cast(GuardedView, guarded)
    result.required_roles = view.required_roles
    return result
