"""The handshake: what is agreed, and what stands against it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from audit.models import LedgerEntry
from runtime.contracts import api_schemas
from runtime.contracts.states import AgentStatus
from runtime.registry.models import Agent, Session
from runtime.registry.services import agents
from tests.support import api_client


@pytest.fixture
def door(desk: None) -> api_client.Caller:
    """A caller with an agent key."""
    return api_client.Caller(api_client.agent_key())


def test_gives_a_session_and_says_what_was_agreed(door: api_client.Caller) -> None:
    body = door.post("/handshake", api_client.hello(instance_id="pod-1", environment="test")).ok()
    assert set(body) == {
        "session_token",
        "expires_at",
        "protocol_version",
        "runtime_version",
        "agent_status",
        "autonomy",
        "epoch",
        "policy_kinds",
    }
    assert body["epoch"] == 1
    assert body["protocol_version"] == "1.0.0"
    assert body["agent_status"] == "ACTIVE"
    assert body["expires_at"].endswith("Z")
    url = "/api/v1/schema/policy/ADJUST_POSITION/1.2.0"
    assert body["policy_kinds"] == [{"kind": "ADJUST_POSITION", "version": "1.2.0", "schema_url": url}]
    row = Session.objects.latest("pk")
    assert (row.instance_id, row.environment) == ("pod-1", "test")
    assert body["session_token"].partition(".")[2] not in row.secret_hash
    entry = LedgerEntry.objects.get(kind="session:opened")
    assert entry.stream == "agent:trader"
    assert entry.payload["manifest_version"] == "1.4.0"


def test_says_the_version_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["version"] == api_schemas.RUNTIME_VERSION


@pytest.mark.parametrize(
    ("asked", "answered"), [("1", "1.0.0"), ("1.0", "1.0.0"), ("1.2", "1.0.0"), ("1.99.3", "1.0.0")]
)
def test_speaks_the_older_of_two_minor_versions(door: api_client.Caller, asked: str, answered: str) -> None:
    body = door.post("/handshake", api_client.hello(protocol_version=asked)).ok()
    assert body["protocol_version"] == answered


@pytest.mark.parametrize(
    "asked", ["0.9", "2.0.0", "one", "1.0.0.0", "01.0.0", "-1", "1.0\n", "\u0661.\u0660"]
)
def test_refuses_another_protocol_and_says_which_it_speaks(door: api_client.Caller, asked: str) -> None:
    problem = door.post("/handshake", api_client.hello(protocol_version=asked)).problem(
        406, "VERSION_UNSUPPORTED"
    )
    assert problem["supported"] == ">=1.0.0 <2.0.0"


@pytest.mark.parametrize("asked", ["1.4.0", "1.4", "1", "1.0.0", "1.3.9"])
def test_takes_a_manifest_that_the_active_one_serves(door: api_client.Caller, asked: str) -> None:
    door.post("/handshake", api_client.hello(manifest_version=asked)).ok()


@pytest.mark.parametrize("asked", ["1.4.1", "1.5", "2.0.0", "0.9.0", "latest"])
def test_refuses_a_manifest_that_the_active_one_does_not_serve(door: api_client.Caller, asked: str) -> None:
    problem = door.post("/handshake", api_client.hello(manifest_version=asked)).problem(
        406, "VERSION_UNSUPPORTED"
    )
    assert problem["supported"] == ">=1.0.0 <=1.4.0"


def test_refuses_a_kind_that_is_not_granted(door: api_client.Caller) -> None:
    kinds = [api_client.KIND, api_client.HIDDEN_KIND]
    door.post("/handshake", api_client.hello(policy_kinds=kinds)).problem(403, "UNAUTHORIZED")
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    "kind", ["NO_SUCH_KIND", "ADJUST_POS\u0406TION", "adjust_position", "ADJUST_POSITION\u200b"]
)
def test_refuses_a_kind_that_nobody_knows(door: api_client.Caller, kind: str) -> None:
    door.post("/handshake", api_client.hello(policy_kinds=[api_client.KIND, kind])).problem(
        404, "CAPABILITY_NOT_FOUND"
    )


def test_gives_all_granted_kinds_where_none_are_named(door: api_client.Caller) -> None:
    named = door.post("/handshake", api_client.hello(policy_kinds=[api_client.KIND])).ok()["policy_kinds"]
    assert door.post("/handshake", api_client.hello(policy_kinds=[])).ok()["policy_kinds"] == named


@pytest.mark.parametrize(
    "agent_id", ["other-trader", "TRADER", "trader ", "tr\u0430der", "trader\u202e", "nobody"]
)
def test_refuses_another_agents_name(door: api_client.Caller, agent_id: str) -> None:
    door.post("/handshake", api_client.hello(agent_id)).problem(403, "UNAUTHORIZED")
    refused = LedgerEntry.objects.get(kind="request:refused")
    assert (refused.stream, refused.payload["path"]) == ("agent:trader", "/api/v1/handshake")


@pytest.mark.parametrize("status", [AgentStatus.PASSIVE, AgentStatus.LOCKED, AgentStatus.SUSPENDED])
def test_an_agent_that_may_not_propose_still_shakes_hands(
    door: api_client.Caller, status: AgentStatus
) -> None:
    agents.set_status(tenant="default", agent_id="trader", status=status, reason="test", actor="system")
    assert door.post("/handshake", api_client.hello()).ok()["agent_status"] == status


def test_resets_nothing(door: api_client.Caller) -> None:
    Agent.objects.filter(agent_id="trader").update(
        status=AgentStatus.PASSIVE, escalation_millitokens=7, stop_reason="kept"
    )
    door.post("/handshake", api_client.hello()).ok()
    agent = Agent.objects.get(agent_id="trader")
    assert (agent.status, agent.escalation_millitokens, agent.stop_reason) == (AgentStatus.PASSIVE, 7, "kept")


def test_refuses_an_agent_without_a_manifest(door: api_client.Caller) -> None:
    Agent.objects.update(active_manifest=None)
    door.post("/handshake", api_client.hello()).problem(403, "UNAUTHORIZED")


@pytest.mark.parametrize(
    "changes",
    [
        {"agent_id": 5},
        {"manifest_version": None},
        {"protocol_version": 1.0},
        {"policy_kinds": "ADJUST_POSITION"},
        {"policy_kinds": [1]},
        {"policy_kinds": ["A"] * 201},
        {"instance_id": "x" * 200},
        {"instance_id": "a\u202eb"},
        {"tenant": "other"},
        {"limits": {}},
    ],
)
def test_refuses_a_body_of_another_form(door: api_client.Caller, changes: dict[str, Any]) -> None:
    door.post("/handshake", api_client.hello(**changes)).problem(422, "INVALID_REQUEST")


def test_sessions_of_one_agent_stand_side_by_side(door: api_client.Caller) -> None:
    tokens = [door.post("/handshake", api_client.hello()).ok()["session_token"] for _ in range(2)]
    dfid = api_client.Caller(tokens[0]).open_flow()
    assert api_client.Caller(tokens[1]).get(f"/flows/{dfid}").ok()["dfid"] == dfid
