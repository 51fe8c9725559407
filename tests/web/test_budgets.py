"""The budgets page: what is left of everything, who holds what, and what only an admin may do."""

from typing import Any

import pytest
from django.db import transaction

from audit.access.roles import Role
from runtime.contexts.services import usage
from runtime.contracts import api_schemas, pack
from runtime.contracts.problem import Problem
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.registry.models import Agent
from runtime.resources.models import Reservation, Resource
from runtime.resources.services import resources
from tests.support import factories, gate_cases
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
NAME = "cash:<b>USD</b>"


@pytest.fixture
def desk() -> factories.Desk:
    """A desk whose agent claims cash and has used most of a flow's tokens."""
    with transaction.atomic():
        given = pack.PackResource(name=NAME, capacity=10_000_000, unit="cents")
        resources.store(tenant=factories.TENANT, given=given, actor="system", at=clock.now())
    return factories.desk(
        kind=gate_cases.kind(claims=[{"resource": NAME, "amount": "params.notional_cents"}]),
        manifest=gate_cases.manifest(compute={"tokens": 1_000, "cost_usd": "2.00"}),
    )


def use(desk: factories.Desk, flow: factories.Opened, **asked: Any) -> api_schemas.UsageAnswer | Problem:
    return usage.report(agent=desk.again(), dfid=flow.dfid, asked=api_schemas.UsageRequest(**asked))


def test_says_that_there_is_nothing_yet() -> None:
    page = text_of(sign_in(Role.AUDITOR), "/budgets/")
    for words in (
        "No agent is registered yet",
        "No resources are configured",
        "No open flow has a compute budget",
    ):
        assert words in page


def test_shows_tokens_compute_use_and_holders(desk: factories.Desk) -> None:
    desk.escalate()
    near, holder = desk.open(), desk.open()
    use(desk, near, tokens=900, cost_usd="0.25", tool_calls=2)
    desk.propose(holder)
    page = text_of(sign_in(Role.OPERATOR), "/budgets/")
    assert "<b>2</b> of 3" in page
    assert "900 of 1,000" in page
    assert "0.25 of 2.00" in page
    assert "90 %" in page
    assert "94,750 cents reserved · 9,905,250 cents free" in page
    assert "Held by 1 flow" in page
    for flow in (near, holder):
        assert f'href="/flows/{flow.dfid}/"' in page
    assert 'class="use"' in page
    assert "900 tokens, 0.25 USD" in page
    assert (
        '<td class="num">1</td><td class="num">900</td><td class="num">0.25</td><td class="num">2</td>'
        in page
    )
    assert "cash:&lt;b&gt;USD&lt;/b&gt;" in page
    assert not code_in(page)
    fragment = text_of(sign_in(Role.OPERATOR, name="other"), "/budgets/", **{"HX-Request": "true"})
    assert "<html" not in fragment


def test_counts_what_a_budget_stopped(desk: factories.Desk) -> None:
    flow = desk.open()
    use(desk, flow, tokens=2_000)
    page = text_of(sign_in(Role.OPERATOR), "/budgets/")
    assert '<span class="value">1</span> <span class="note">BUDGET_EXCEEDED</span>' in page


def test_a_bucket_without_tokens_says_when_it_has_one(desk: factories.Desk) -> None:
    for _ in range(3):
        desk.escalate()
    page = text_of(sign_in(Role.OPERATOR), "/budgets/")
    assert "Empty" in page
    assert "<b>0</b> of 3" in page
    assert "19 min" in page or "20 min" in page


def test_only_an_admin_is_offered_to_change_anything(desk: factories.Desk) -> None:
    offers = ("Refill the bucket", "Set capacity")
    admin = text_of(sign_in(Role.ADMIN, name="admin"), "/budgets/")
    assert all(offer in admin for offer in offers)
    for role in (Role.OPERATOR, Role.SENIOR, Role.AUDITOR):
        client = sign_in(role, name=role.value + "-only")
        page = text_of(client, "/budgets/")
        assert not any(offer in page for offer in offers)
        for path in ("/budgets/agents/trader/refill/", "/budgets/capacity/"):
            assert client.post(path, {"reason": "x", "name": NAME, "capacity": "1"}).status_code == 403
    assert Resource.objects.get().capacity == 10_000_000


def test_an_admin_refills_a_bucket_and_restores_the_agent(desk: factories.Desk) -> None:
    for _ in range(3):
        desk.escalate()
    desk.propose(desk.open(), params=factories.OVER_LIMIT)
    assert desk.again().status == AgentStatus.PASSIVE
    admin = sign_in(Role.ADMIN)
    for reason in ("", "x" * 201):
        assert admin.post("/budgets/agents/trader/refill/", {"reason": reason}).status_code == 400
    assert admin.post("/budgets/agents/nobody/refill/", {"reason": "x"}).status_code == 404
    answer = admin.post("/budgets/agents/trader/refill/", {"reason": "Talked to its owner."})
    assert answer["Location"] == "/budgets/"
    assert desk.again().status == AgentStatus.ACTIVE
    assert "The bucket of trader is full." in text_of(admin, "/budgets/")


def test_an_admin_sets_a_capacity_never_under_what_is_in_use(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    admin = sign_in(Role.ADMIN)

    def post(capacity: str, name: str = NAME) -> int:
        return admin.post("/budgets/capacity/", {"name": name, "capacity": capacity}).status_code

    assert [post(text) for text in ("", "-1", "1e9", "12.5", "9" * 19)] == [400] * 5
    assert post("94749") == 409
    assert post("5", name="gold") == 404
    assert post("94750") == 302
    assert Resource.objects.get().capacity == 94_750
    assert Reservation.objects.count() == 1


def test_an_agent_without_a_manifest_has_no_bucket() -> None:
    Agent.objects.create(
        agent_id="bare", role="MONITOR", owner="desk", mission="Wait.", created_at=clock.now()
    )
    page = text_of(sign_in(Role.ADMIN), "/budgets/")
    assert "no manifest" in page
    assert "Refill the bucket" not in page
