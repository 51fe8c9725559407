"""Claims of a proposal that waits for a person: nothing is held meanwhile, and only a shortage is news."""

import pytest
from django.db import transaction

from escalations.models import Escalation
from runtime.contexts.services import usage
from runtime.contracts import api_schemas, pack
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.proposals.services import judging
from runtime.resources.models import Reservation, Resource
from runtime.resources.queries import resource_facts
from runtime.resources.services import resources
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    """A desk whose kind claims its amount of 200,000 cents."""
    with transaction.atomic():
        given = pack.PackResource(name="cash", capacity=200_000, unit="cents")
        resources.store(tenant=factories.TENANT, given=given, actor="system", at=clock.now())
    claims = [{"resource": "cash", "amount": "params.notional_cents"}]
    return factories.desk(kind=gate_cases.kind(claims=claims))


def reconsidered(escalation: Escalation) -> list[str]:
    assert escalation.proposal is not None
    proposal = Proposal.objects.select_related("flow").get(pk=escalation.proposal.pk)
    flow = proposal.flow
    fresh = judging.reconsider(flow=flow, agent=flow.agent, proposal=proposal, at=clock.now())
    return gate_cases.codes(fresh.verdict)


def test_what_waits_holds_nothing_and_sees_no_contention(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    assert not Reservation.objects.exists()
    before = reconsidered(escalation)
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    assert desk.propose(desk.open(), params=factories.OVER_LIMIT)["reasons"][0]["code"] == (
        Reason.RESOURCE_CONTENTION
    )
    assert reconsidered(escalation) == before
    Resource.objects.update(reserved=0, committed=94_750)
    assert Reason.INSUFFICIENT_LIQUIDITY in reconsidered(escalation)


def test_what_the_agent_has_used_meanwhile_is_no_drift() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(compute={"tokens": 100}))
    escalation = desk.escalate()
    asked = api_schemas.UsageRequest(tokens=100)
    assert not isinstance(usage.report(agent=desk.again(), dfid=escalation.flow_id, asked=asked), Problem)
    assert not isinstance(factories.decide(escalation, factories.user("ada", "senior", "admin")), Problem)


def test_an_override_takes_the_claim_or_is_told_why_not(desk: factories.Desk) -> None:
    admin = factories.user("ada", "senior", "admin")
    escalation, other = desk.escalate(), desk.escalate()
    assert not isinstance(factories.decide(escalation, admin), Problem)
    assert Reservation.objects.get().amount == 150_000
    refused = factories.decide(other, admin)
    assert isinstance(refused, Problem)
    assert refused.code == "GATE_REFUSED"
    assert "RESOURCE_CONTENTION" in refused.violations[0].message
    assert Resource.objects.get().reserved == 150_000


def test_what_a_flow_itself_holds_is_not_in_its_way(desk: factories.Desk) -> None:
    holder, other = desk.open(), desk.open()
    desk.propose(holder)
    rows = resource_facts.list_named(tenant="default", names=("cash",))
    seen = [resource_facts.list_facts(flow=flow.row(), rows=rows)[0].reserved for flow in (holder, other)]
    assert seen == [0, 94_750]
