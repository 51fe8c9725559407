"""Who an agent is and what it may do is the registry's to say; a handshake negotiates and resets nothing."""

import pytest

from runtime.contracts.states import AgentStatus
from runtime.registry.models import Agent
from runtime.registry.services import agents
from tests.properties.lifecycle_ground import AGENT
from tests.support import factories
from tests.support.api_client import Caller
from tests.support.end_to_end import Console, hello, shake

pytestmark = pytest.mark.django_db


def set_status(status: AgentStatus) -> None:
    agents.set_status(tenant=factories.TENANT, agent_id=AGENT, status=status, reason="trial", actor="user:1")


def tokens() -> int:
    return Agent.objects.get(agent_id=AGENT).escalation_millitokens


def test_an_unknown_agent_is_refused(desk: Console) -> None:
    Caller(desk.key).post("/handshake", hello(agent_id="nobody")).problem(403, "UNAUTHORIZED")
    Caller("agk_0123456789abcdef." + "A" * 43).post("/handshake", hello()).problem(401, "UNAUTHENTICATED")


def test_a_suspended_agent_shakes_hands_and_stays_suspended_with_its_budget_as_it_was(desk: Console) -> None:
    assert desk.propose(quantity=60)["verdict"] == "ESCALATE"
    spent = tokens()
    set_status(AgentStatus.SUSPENDED)
    answer = Caller(desk.key).post("/handshake", hello()).ok()
    assert answer["agent_status"] == "SUSPENDED"
    assert tokens() == spent
    desk.agent = Caller(answer["session_token"])
    verdict = desk.propose()
    assert (verdict["verdict"], verdict["reasons"][0]["code"]) == ("REJECT", "AGENT_SUSPENDED")
    assert Agent.objects.get(agent_id=AGENT).status == AgentStatus.SUSPENDED


def test_versions_are_negotiated(desk: Console) -> None:
    refused = (
        Caller(desk.key).post("/handshake", hello(protocol_version="9.0")).problem(406, "VERSION_UNSUPPORTED")
    )
    assert refused["supported"]
    Caller(desk.key).post("/handshake", hello(manifest_version="7.0.0")).problem(406, "VERSION_UNSUPPORTED")
    Caller(desk.key).post("/handshake", hello(policy_kinds=["SELL"])).problem(404, "CAPABILITY_NOT_FOUND")


def test_the_answer_names_each_kind_and_where_its_schema_is(desk: Console) -> None:
    for kind in Caller(desk.key).post("/handshake", hello()).ok()["policy_kinds"]:
        schema = desk.agent.get(kind["schema_url"].removeprefix("/api/v1"))
        assert schema.status == 200
        assert schema.headers["ETag"]


def test_a_key_opens_no_session_for_another_and_a_new_session_widens_nothing(desk: Console) -> None:
    verdict = desk.propose(quantity=60)
    desk.agent = Caller(shake(desk.key))
    assert desk.propose(quantity=60)["verdict"] == verdict["verdict"] == "ESCALATE"
