"""Many proposals in one call: each has its own answer, its own transaction, and its own repeat."""

from typing import Any

import pytest

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contracts import api_schemas
from runtime.core import transactions
from runtime.core.models import Answer
from runtime.flows.models import Flow, Proposal
from runtime.proposals.services import one_call
from tests.support import api_client

pytestmark = pytest.mark.once
SEEN = {"price.AAPL": 1, "market.state": 1}


def proposal(**changes: Any) -> dict[str, Any]:
    return api_client.proposal(**{"context": "current", "seen": SEEN, **changes})


def batch(caller: api_client.Caller, *proposals: Any, key: str = "k") -> api_client.Heard:
    return caller.post("/proposals/batch", {"proposals": list(proposals)}, {"Idempotency-Key": key})


def test_each_has_its_answer_in_order_and_a_bad_one_harms_no_other(trader: api_client.Caller) -> None:
    rejected = proposal(params={"symbol": "AAPL"})
    sent = [proposal(), {"policy_kind": 1}, rejected, proposal(seen=None), proposal(agent_id="x"), proposal()]
    heard = batch(trader, *sent).ok()
    api_schemas.BatchAnswer.model_validate(heard)
    answers = heard["answers"]
    assert [each["status"] for each in answers] == [200, 422, 200, 422, 403, 200]
    assert [each["body"]["verdict"] for each in answers if "body" in each] == ["ACCEPT", "REJECT", "ACCEPT"]
    problems = [each["problem"] for each in answers if "problem" in each]
    assert [problem["code"] for problem in problems] == [
        "INVALID_REQUEST",
        "CONTEXT_REQUIRED",
        "UNAUTHORIZED",
    ]
    assert {"/params", "/policy_kind"} <= {each["pointer"] for each in problems[0]["violations"]}
    assert Flow.objects.count() == Proposal.objects.count() == 3
    # Each refusal is recorded as that of a call.
    refused = LedgerEntry.objects.filter(kind="request:refused").order_by("id")
    assert [entry.payload["code"] for entry in refused] == [problem["code"] for problem in problems]
    assert isinstance(verify_database(), Whole)


def test_a_repeat_gets_the_stored_answers_and_another_batch_is_refused(trader: api_client.Caller) -> None:
    first = batch(trader, proposal(), proposal(params={}))
    assert batch(trader, proposal(), proposal(params={})).content == first.content
    batch(trader, proposal()).problem(422, "IDEMPOTENCY_KEY_REUSED")
    assert Proposal.objects.count() == 2
    # The key of the batch and that of a single call are of different addresses.
    alone = trader.post("/proposals", proposal(), {"Idempotency-Key": "k"}).ok()
    assert alone["dfid"] not in {each["body"]["dfid"] for each in first.ok()["answers"]}


@pytest.mark.parametrize("proposals", [[], [{}] * 101, [1], {}, None])
def test_a_batch_of_another_form_stores_nothing(trader: api_client.Caller, proposals: Any) -> None:
    headers = {"Idempotency-Key": "k"}
    trader.post("/proposals/batch", {"proposals": proposals}, headers).problem(422, "INVALID_REQUEST")
    assert not Answer.objects.exists()


def test_asks_for_a_key(trader: api_client.Caller) -> None:
    trader.post("/proposals/batch", {"proposals": [proposal()]}).problem(400, "IDEMPOTENCY_KEY_MISSING")


def test_one_that_loses_its_races_is_retriable_and_alone(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = one_call.submit

    def busy_for_one(**named: Any) -> Any:
        if named["call"].path.endswith("/0"):
            raise transactions.BusyError
        return submit(**named)

    monkeypatch.setattr(one_call, "submit", busy_for_one)
    busy, fine = batch(trader, proposal(), proposal()).ok()["answers"]
    assert (busy["status"], busy["problem"]["code"], busy["problem"]["retriable"]) == (409, "BUSY", True)
    assert fine["body"]["verdict"] == "ACCEPT"
    monkeypatch.undo()
    repeated = batch(trader, proposal(), proposal()).ok()["answers"]
    assert [each["status"] for each in repeated] == [200, 200]
    assert repeated[1] == fine
