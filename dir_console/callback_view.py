"""`POST /callbacks/{token}`: a target reports on a call that it has taken on."""

from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from audit.access.permissions import public
from runtime.contracts.callbacks import CallbackReport
from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.api import body_parsing
from runtime.execution.services import callback_reports
from runtime.kernel import ijson

MOST_BYTES: Final = 64 * 1024


# No session is looked at: the token and the signature say who it is.
@csrf_exempt
@require_POST
@public
def report(request: HttpRequest, token: str) -> HttpResponse:
    """Take one report: JSON, signed by the target's secret as Standard Webhooks has it."""
    body = request.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        detail = f"A report has at most {MOST_BYTES} bytes."
        raise ProblemError(Problem(code=ProblemCode.BODY_TOO_LARGE, detail=detail))
    refused = callback_reports.refuse_sender(token, request.headers, body)
    if refused is not None:
        raise ProblemError(refused)
    said = body_parsing.check(ijson.parse(body), CallbackReport)
    taken = callback_reports.take(token, said)
    if isinstance(taken, Problem):
        raise ProblemError(taken)
    return JsonResponse({"status": taken})
