"""Proposals: the envelope, the key, and who may speak for whom."""

from typing import Any

import pytest

from audit.models import LedgerEntry
from runtime.core import transactions
from runtime.core.models import Answer
from runtime.flows.models import Proposal
from runtime.proposals.services import intake
from runtime.state.services import facts
from tests.support import api_client

# The example of the DIR paper, 5.2, but for its dfid and agent.
PAPER: dict[str, Any] = {
    "policy_kind": "ADJUST_POSITION",
    "execution_constraints": {
        "max_slippage_bps": 50,
        "validity_window_sec": 30,
        "requires_market_state": "OPEN",
    },
    "params": {"symbol": "BTC-USD", "action": "REDUCE", "quantity": 0.5},
    "context_ref": "snapshot_hash_x9823",
}


def test_takes_the_papers_own_example(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    verdict = trader.propose(dfid, PAPER | {"dfid": dfid, "agent_id": "trader"}).ok()
    assert verdict["verdict"] == "REJECT"
    assert [reason["code"] for reason in verdict["reasons"]] == ["CONTEXT_UNKNOWN"]
    assert verdict["attempts_left"] == 2


@pytest.fixture
def priced(desk: None) -> None:
    """The paper's symbol has a price."""
    written = facts.write(
        tenant="default", path="price.BTC-USD", value=6_500_000, writer="feed:x", expected_version=None
    )
    assert isinstance(written, facts.WrittenVersion)


@pytest.mark.usefixtures("priced")
def test_accepts_the_papers_own_example_on_a_context_of_the_flow(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.propose(dfid, PAPER | {"context_ref": trader.context(dfid)}).ok()
    flow = trader.get(f"/flows/{dfid}").ok()
    assert flow["state"] == "ACCEPTED", flow


@pytest.mark.usefixtures("priced")
def test_the_papers_bounds_are_kept_and_others_are_refused(trader: api_client.Caller) -> None:
    for name, value, code in (
        ("requires_market_state", "CLOSED", "CONSTRAINT_VIOLATED"),
        ("requires_market_mood", "OPEN", "INVALID_SCHEMA"),
    ):
        dfid = trader.open_flow()
        bounds = PAPER["execution_constraints"] | {name: value}
        asked = PAPER | {"context_ref": trader.context(dfid), "execution_constraints": bounds}
        verdict = trader.propose(dfid, asked | {"confidence": 0.9}).ok()
        assert [reason["code"] for reason in verdict["reasons"]] == [code]


def test_asks_for_a_key(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    problem = trader.post(f"/flows/{dfid}/proposals", PAPER).problem(400, "IDEMPOTENCY_KEY_MISSING")
    assert problem["dfid"] == dfid
    assert "Idempotency-Key" in problem["detail"]


@pytest.mark.parametrize("key", ["", "x" * 256, "with space", "ключ"])
def test_refuses_a_key_of_another_form(trader: api_client.Caller, key: str) -> None:
    dfid = trader.open_flow()
    answer = trader.post(f"/flows/{dfid}/proposals", PAPER, {"Idempotency-Key": key})
    answer.problem(400, "IDEMPOTENCY_KEY_INVALID")


def test_a_repeat_gets_the_stored_answer_byte_for_byte(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid))
    first = trader.propose(dfid, body, "k" * 255)
    again = trader.propose(dfid, dict(reversed(body.items())), "k" * 255)
    assert first.ok()["verdict"] == "ACCEPT"
    assert again.content == first.content
    assert Proposal.objects.count() == 1


def test_a_repeat_with_integral_floats_is_the_same_body(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    headers = {"Idempotency-Key": "k"}
    raw = b'{"policy_kind":"X","params":{"n":%s},"execution_constraints":{"validity_window_sec":30}}'
    answers = [
        trader.call("POST", f"/flows/{dfid}/proposals", raw=raw % number, headers=headers)
        for number in (b"100", b"100.0", b"1E2")
    ]
    assert {answer.content for answer in answers} == {answers[0].content}


def test_another_body_under_a_key_is_refused(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.propose(dfid, api_client.proposal(trader.context(dfid)), "k").ok()
    problem = trader.propose(dfid, api_client.proposal(confidence=0.8), "k").problem(
        422, "IDEMPOTENCY_KEY_REUSED"
    )
    assert problem["dfid"] == dfid


def test_a_key_belongs_to_one_agent_and_one_flow(
    trader: api_client.Caller, stranger: api_client.Caller
) -> None:
    answers = set()
    for caller in (trader, trader, stranger):
        dfid = caller.open_flow()
        answers.add(
            caller.propose(dfid, api_client.proposal(caller.context(dfid)), "same").ok()["proposal_id"]
        )
    assert len(answers) == 3


def test_a_refused_call_stores_no_answer_and_costs_no_attempt(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    trader.propose(dfid, {"policy_kind": 1}, "k").problem(422, "INVALID_REQUEST")
    trader.call("POST", f"/flows/{dfid}/proposals", raw=b"{", headers={"Idempotency-Key": "k"}).problem(
        400, "INVALID_JSON"
    )
    assert not Answer.objects.exists()
    assert trader.get(f"/flows/{dfid}").ok()["attempts_left"] == 3
    assert trader.propose(dfid, api_client.proposal(trader.context(dfid)), "k").ok()["verdict"] == "ACCEPT"


@pytest.mark.parametrize(
    "forged",
    [
        {"agent_id": "other-trader"},
        {"agent_id": "Trader"},
        {"agent_id": ""},
        {"dfid": "01890000-0000-7000-8000-000000000000"},
        {"dfid": "x"},
    ],
)
def test_a_body_that_speaks_for_another_is_refused_and_recorded(
    trader: api_client.Caller, forged: dict[str, str]
) -> None:
    dfid = trader.open_flow()
    problem = trader.propose(dfid, api_client.proposal(trader.context(dfid)) | forged).problem(
        403, "UNAUTHORIZED"
    )
    assert problem["dfid"] == dfid
    refused = LedgerEntry.objects.get(kind="request:refused")
    assert (refused.stream, refused.payload["code"]) == ("agent:trader", "UNAUTHORIZED")
    assert not Proposal.objects.exists()


def test_the_flows_id_may_be_written_in_capitals(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    body = api_client.proposal(trader.context(dfid)) | {"dfid": dfid.upper()}
    assert trader.propose(dfid, body).ok()["dfid"] == dfid


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"policy_kind": ""}, "/policy_kind"),
        ({"policy_kind": "x" * 129}, "/policy_kind"),
        ({"params": []}, "/params"),
        ({"params": "x"}, "/params"),
        ({"execution_constraints": {}}, "/execution_constraints/validity_window_sec"),
        ({"execution_constraints": 30}, "/execution_constraints"),
        ({"execution_constraints": {"validity_window_sec": 0}}, "/execution_constraints/validity_window_sec"),
        (
            {"execution_constraints": {"validity_window_sec": -1.5}},
            "/execution_constraints/validity_window_sec",
        ),
        (
            {"execution_constraints": {"validity_window_sec": 86401}},
            "/execution_constraints/validity_window_sec",
        ),
        (
            {"execution_constraints": {"validity_window_sec": "30"}},
            "/execution_constraints/validity_window_sec",
        ),
        (
            {"execution_constraints": {"validity_window_sec": True}},
            "/execution_constraints/validity_window_sec",
        ),
        ({"confidence": 1.01}, "/confidence"),
        ({"confidence": -0.1}, "/confidence"),
        ({"confidence": "high"}, "/confidence"),
        ({"confidence": True}, "/confidence"),
        ({"explain": "x" * 20_001}, "/explain"),
        ({"human_review_required": "yes"}, "/human_review_required"),
        ({"expected_effects": "none"}, "/expected_effects"),
        ({"policy_version": 1}, "/policy_version"),
        ({"context_ref": ""}, "/context_ref"),
        ({"author": "user:1"}, "/author"),
        ({"valid_until": "2040-01-01T00:00:00Z"}, "/valid_until"),
    ],
)
def test_names_what_is_wrong_with_an_envelope(
    trader: api_client.Caller, changes: dict[str, Any], pointer: str
) -> None:
    dfid = trader.open_flow()
    problem = trader.propose(dfid, api_client.proposal("x") | changes).problem(422, "INVALID_REQUEST")
    assert [violation["pointer"] for violation in problem["violations"]] == [pointer]


@pytest.mark.parametrize(
    "changes",
    [
        {"execution_constraints": {"validity_window_sec": 0.5}},
        {"execution_constraints": {"validity_window_sec": 86400, "anything": {"else": [1]}}},
        {"confidence": 0},
        {"confidence": 1},
        {"explain": None, "expected_effects": None, "human_review_required": None},
        {"expected_effects": [{"fact": "price.AAPL", "value": 1}]},
        {"expected_effects": {"price.AAPL": 1}},
        {"explain": "x" * 20_000},
        {"policy_kind": "NO_SUCH_KIND"},
        {"params": {"anything": 1}},
    ],
)
def test_an_envelope_of_the_right_form_reaches_the_gate(
    trader: api_client.Caller, changes: dict[str, Any]
) -> None:
    dfid = trader.open_flow()
    body = {**api_client.proposal(trader.context(dfid)), **changes}
    assert trader.propose(dfid, body).ok()["verdict"] in {"ACCEPT", "REJECT", "ESCALATE"}


def test_lost_races_are_told_to_try_again(trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(**call: Any) -> None:
        raise transactions.BusyError

    dfid = trader.open_flow()
    monkeypatch.setattr(intake, "submit", busy)
    assert trader.propose(dfid, api_client.proposal()).problem(409, "BUSY")["retriable"] is True
    assert not LedgerEntry.objects.filter(kind="request:refused").exists()
