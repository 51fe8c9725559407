"""`POST /flows/{dfid}/rules`, `decide` and `consultations`: what rules, the recommender and other agents say.

None of them moves a flow.
"""

from http import HTTPStatus
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runtime.advice.services import advising
from runtime.contracts.advice import ConsultationsAnswer, ConsultRequest, DecideRequest, RulesRequest
from runtime.contracts.decision import DecisionPackage
from runtime.contracts.ruleset import RuleOutputDocument
from runtime.conversations.queries import consultation_list
from runtime.conversations.services import consulting
from runtime.core.api import body_parsing, headers, openapi
from runtime.core.api.responses import reply
from runtime.flows.services import flows
from runtime.registry.api import auth

router = Router(tags=["Advice"], auth=auth.SessionToken())


@router.post(
    "/flows/{uuid:dfid}/rules",
    response=RuleOutputDocument,
    openapi_extra=openapi.describe(body=RulesRequest, headers=[openapi.IDEMPOTENCY_KEY]),
)
def ask_rules(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Ask a ruleset what it says of some features: a Rule Engine Output."""
    body, checked = body_parsing.read(request, RulesRequest)
    agent, repeatable = auth.session_of(request).agent, headers.repeatable(request, checked)
    return reply(advising.ask_rules(agent=agent, dfid=dfid, asked=body, repeatable=repeatable))


@router.post(
    "/flows/{uuid:dfid}/decide",
    response=DecisionPackage,
    openapi_extra=openapi.describe(body=DecideRequest, headers=[openapi.IDEMPOTENCY_KEY]),
)
def decide(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Ask which option to propose: a Decision Package. It is advice; the gate judges the proposal."""
    body, checked = body_parsing.read(request, DecideRequest)
    agent, repeatable = auth.session_of(request).agent, headers.repeatable(request, checked)
    answer = advising.decide(
        agent=agent, dfid=dfid, asked=body, repeatable=repeatable, planner=consulting.plan
    )
    return reply(answer)


@router.post(
    "/flows/{uuid:dfid}/consultations",
    response={201: ConsultationsAnswer},
    openapi_extra=openapi.describe(body=ConsultRequest, headers=[openapi.IDEMPOTENCY_KEY]),
)
def consult(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Ask providers of a capability which option they would choose; their answers are claims."""
    body, checked = body_parsing.read(request, ConsultRequest)
    agent, repeatable = auth.session_of(request).agent, headers.repeatable(request, checked)
    answer = consulting.consult(agent=agent, dfid=dfid, asked=body, repeatable=repeatable)
    return reply(answer, status=HTTPStatus.CREATED)


@router.get(
    "/flows/{uuid:dfid}/consultations", response=ConsultationsAnswer, openapi_extra=openapi.describe()
)
def list_consultations(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Who was consulted in a flow, and what they answered: claims of theirs."""
    found = consultation_list.list_own(agent=auth.session_of(request).agent, dfid=dfid)
    return reply(flows.not_found() if found is None else found)
