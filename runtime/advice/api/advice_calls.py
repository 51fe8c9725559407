"""`POST /flows/{dfid}/rules` and `decide`: what rules say, and what is recommended; neither moves a flow."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.advice.services import advising
from runtime.contracts.advice import DecideRequest, RulesRequest
from runtime.contracts.decision import DecisionPackage
from runtime.contracts.ruleset import RuleOutputDocument
from runtime.core.api import body_parsing, openapi
from runtime.core.api.responses import reply
from runtime.registry.api import auth

router = Router(tags=["Advice"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/rules",
    response=RuleOutputDocument,
    openapi_extra=openapi.describe(body=RulesRequest),
)
def ask_rules(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Ask a ruleset what it says of some features: a Rule Engine Output."""
    body, _ = body_parsing.read(request, RulesRequest)
    return reply(advising.ask_rules(agent=auth.session_of(request).agent, dfid=dfid, asked=body))


@router.post(
    "/flows/{uuid:dfid}/decide",
    response=DecisionPackage,
    openapi_extra=openapi.describe(body=DecideRequest),
)
def decide(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Ask which option to propose: a Decision Package. It is advice; the gate judges the proposal."""
    body, _ = body_parsing.read(request, DecideRequest)
    return reply(advising.decide(agent=auth.session_of(request).agent, dfid=dfid, asked=body))
