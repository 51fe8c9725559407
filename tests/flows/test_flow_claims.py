"""What an agent says of its environment, its user and its model: recorded, shown, and marked as claims."""

from typing import Any

import pytest

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry
from runtime.flows.models import Flow
from runtime.maintenance.services import sealing
from tests.audit.contracts.reading import view
from tests.support import api_client, underwriting, worlds

_loaded = worlds.shared(underwriting.load_packs)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_loaded")]
USER = "usr_771"


@pytest.fixture
def agent(db: None) -> api_client.Caller:
    said = {**api_client.hello(underwriting.AGENT), "environment": "staging"}
    key = api_client.agent_key(underwriting.AGENT)
    return api_client.Caller(api_client.Caller(key).post("/handshake", said).ok()["session_token"])


@pytest.fixture
def auditor(db: None) -> api_client.Caller:
    return api_client.Caller(api_client.auditor_key())


def opening(dfid: str) -> dict[str, Any]:
    payload: dict[str, Any] = LedgerEntry.objects.get(stream=dfid, kind="flow:opened").payload
    return payload


def opened_for(agent: api_client.Caller, user: str = USER) -> str:
    return str(agent.post("/flows", {"trigger": "a call", "delegated_user_id": user}).ok(201)["dfid"])


def proposed(agent: api_client.Caller, dfid: str) -> str:
    output = underwriting.driver_rules(agent, dfid)
    package = agent.post(
        f"/flows/{dfid}/decide", {"objectives": [], "rule_output_id": output["rule_output_id"]}
    ).ok()
    asked = {**underwriting.proposal(package["decision_id"]), "context_ref": agent.context(dfid)}
    return str(agent.propose(dfid, asked).ok()["proposal_id"])


def test_the_user_of_a_flow_stands_in_its_opening_and_in_the_record(agent: api_client.Caller) -> None:
    dfid = opened_for(agent)
    assert (opening(dfid)["delegated_user_id"], opening(dfid)["environment"]) == (USER, "staging")
    proposed(agent, dfid)
    record = canonical.decode(bytes(DecisionRecord.objects.filter(dfid=dfid).latest("seq").body))
    assert record["actor"]["delegated_user_id"] == USER
    assert record["actor"]["delegated_user_source"] == "agent_claim"
    kinds = [ref.partition(":")[0] for ref in record["evidence_refs"]]
    assert kinds == ["rule_output", "decision_package", "context", "verdict"]


def test_one_call_names_the_user_of_the_flow_that_it_opens(agent: api_client.Caller) -> None:
    body = {**underwriting.proposal(), "context": "current", "delegated_user_id": USER}
    answer = agent.post("/proposals", body, {"Idempotency-Key": "one-call"}).ok()
    assert opening(answer["dfid"])["delegated_user_id"] == USER
    assert opening(answer["dfid"])["environment"] == "staging"


@pytest.mark.parametrize("user", ["", "user:7", "agent:x", "a" * 129, "ann@example.org", "Ann Lee", "é", 7])
def test_what_is_no_id_of_a_user_opens_nothing(agent: api_client.Caller, user: Any) -> None:
    before = Flow.objects.count()
    agent.post("/flows", {"trigger": "a call", "delegated_user_id": user}).problem(422, "INVALID_REQUEST")
    assert Flow.objects.count() == before


def test_all_contracts_of_the_control_plane_name_the_environment(
    agent: api_client.Caller, auditor: api_client.Caller
) -> None:
    dfid = opened_for(agent)
    proposed(agent, dfid)
    sealing.seal_now()
    for name in ("tool_request", "policy_decision", "replay_trace"):
        assert view(auditor, name, dfid)["environment"] == "staging"
    event = view(auditor, "ledger_event", f"{dfid}:1")
    assert (event["environment"], event["immutability"]["retention_class"]) == ("staging", "permanent")


def test_what_an_agent_says_of_its_model_is_shown_as_its_claim(
    agent: api_client.Caller, auditor: api_client.Caller
) -> None:
    dfid = agent.open_flow()
    model = {"model_version": "2026-05", "temperature": 0.2, "seed": 41}
    agent.post(f"/flows/{dfid}/usage", {"tokens": 5, "model": model}).ok()
    agent.post(f"/flows/{dfid}/usage", {"tokens": 5, "model": {"seed": 42}}).ok()
    assert view(auditor, "replay_trace", dfid)["model"] == {
        "model_id": None,
        **model,
        "seed": 42,
        "decoding": None,
        "claims": ["model_version", "temperature", "seed"],
    }


@pytest.mark.parametrize(
    "model",
    [
        {"temperature": -1},
        {"temperature": 101},
        {"decoding": "x" * 129},
        {"top": 1},
        {"seed": "1"},
    ],
)
def test_claims_about_a_model_are_bounded(agent: api_client.Caller, model: dict[str, Any]) -> None:
    dfid = agent.open_flow()
    agent.post(f"/flows/{dfid}/usage", {"tokens": 5, "model": model}).problem(422, "INVALID_REQUEST")
    assert not LedgerEntry.objects.filter(stream=dfid, kind="usage:reported").exists()


def test_the_context_of_a_decision_names_what_compiled_it(
    agent: api_client.Caller, auditor: api_client.Caller
) -> None:
    dfid = agent.open_flow()
    proposal = proposed(agent, dfid)
    assert view(auditor, "decision_package", proposal)["references"]["CET_version"] == "1.0.0"
