"""Environments: a key says where its agent runs, and a manifest where it may."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from pydantic import ValidationError

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.flows.models import Flow
from runtime.registry.models import Key
from runtime.registry.services import credentials
from tests.support import api_client, factories, gate_cases
from tests.support.api_client import TRADER, Caller
from tests.web.test_pages import sign_in, text_of


def shake(key: str, **said: str) -> api_client.Heard:
    return Caller(key).post("/handshake", api_client.hello(**said))


def session_of(key: str, **said: str) -> Caller:
    return Caller(shake(key, **said).ok()["session_token"])


def opening(dfid: str) -> tuple[str, bool]:
    said = LedgerEntry.objects.get(stream=dfid, kind="flow:opened").payload
    return said["environment"], said.get("environment_of_key", False)


def test_a_key_says_where_its_agent_runs(desk: None) -> None:
    agent = session_of(api_client.agent_key(environment="prod"))
    assert opening(agent.open_flow()) == ("prod", True)
    assert LedgerEntry.objects.get(kind="session:opened").payload["environment"] == "prod"
    issued = LedgerEntry.objects.filter(kind="key:issued").latest("id").payload
    assert issued["environment"] == "prod"
    assert findings.verify_all().findings == []


def test_what_an_agent_says_is_a_claim_and_never_against_its_key(desk: None) -> None:
    assert opening(session_of(api_client.agent_key(), environment="staging").open_flow()) == (
        "staging",
        False,
    )
    assert "environment" not in LedgerEntry.objects.filter(kind="key:issued").latest("id").payload
    key = api_client.agent_key(environment="prod")
    assert opening(session_of(key, environment="prod").open_flow()) == ("prod", True)
    refused = shake(key, environment="staging").problem(403, "UNAUTHORIZED")
    assert "for the environment prod" in refused["detail"]


def test_a_manifest_binds_its_agent_to_environments(desk: None) -> None:
    staging, unbound = api_client.agent_key(environment="staging"), api_client.agent_key()
    open_before = session_of(staging)
    dfid = open_before.open_flow()
    ref = open_before.context(dfid)
    factories.change_manifest(TRADER, environments=["prod"])
    for key, said in ((staging, {}), (unbound, {}), (unbound, {"environment": "prod"})):
        refused = shake(key, manifest_version="1.5.0", **said).problem(403, "UNAUTHORIZED")
        assert "in prod only" in refused["detail"]
    # What a session proposes that was opened before is refused as well.
    answer = open_before.propose(dfid, api_client.proposal(ref)).ok()
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("REJECT", "UNAUTHORIZED")
    agent = session_of(api_client.agent_key(environment="prod"), manifest_version="1.5.0")
    dfid = agent.open_flow()
    assert agent.propose(dfid, api_client.proposal(agent.context(dfid))).ok()["verdict"] == "ACCEPT"


@pytest.mark.parametrize("named", ["Prod", "a b", "-x", "x" * 65, "prod\n"])
def test_an_environment_is_a_plain_name(desk: None, named: str) -> None:
    answer = credentials.issue_agent_key(tenant="default", agent_id=TRADER, actor="system", environment=named)
    assert isinstance(answer, Problem)
    assert not Key.objects.exclude(environment="").exists()
    # Nor may a manifest ask for one that no key can have.
    with pytest.raises(ValidationError):
        gate_cases.manifest(environments=[named])


def test_only_keys_of_agents_have_one(desk: None) -> None:
    api_client.feed_key()
    with pytest.raises(IntegrityError), transaction.atomic():
        Key.objects.exclude(feed="").update(environment="prod")


def test_a_changed_row_is_found(desk: None) -> None:
    api_client.agent_key(environment="staging")
    Key.objects.filter(environment="staging").update(environment="prod")
    assert any("key.environment" in item.detail for item in findings.verify_all().findings)


def test_the_command_and_the_page_issue_keys_of_an_environment(desk: None) -> None:
    out = StringIO()
    call_command("issue_key", TRADER, "--environment", "prod", stdout=out)
    assert opening(session_of(out.getvalue().strip()).open_flow()) == ("prod", True)
    with pytest.raises(CommandError, match="small letters"):
        call_command("issue_key", TRADER, "--environment", "Prod", stdout=out)
    ada = sign_in(Role.ADMIN, name="ada")
    assert ada.post(f"/agents/{TRADER}/keys/", {"environment": "staging"}).status_code == 200
    assert ada.post(f"/agents/{TRADER}/keys/", {"environment": "No!"}).status_code == 422
    page = text_of(ada, f"/agents/{TRADER}/")
    assert "for <b>staging</b>" in page
    assert "By its key it runs in <b>prod</b>." in page
    assert Flow.objects.count() == 1
