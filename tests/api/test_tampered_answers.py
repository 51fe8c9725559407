"""What an agent is told is compared with the ledger first: a changed row is never served, and recorded."""

import uuid
from typing import Any

import pytest

from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification import findings
from runtime.core.models import Answer
from runtime.flows.models import Feedback, Flow
from tests.support import api_client, ledger_tampering

REJECTED = api_client.proposal("unknown")
# As a change of the bytes alone, and as a row from before there were commitments.
WAYS: tuple[dict[str, Any], ...] = ({}, {"salt": b"", "entry_seq": None}, {"entry_seq": 1})


def turn(model: Any, **columns: Any) -> None:
    for row in model.objects.all():
        turned = bytes(row.body).replace(b'"REJECT"', b'"ACCEPT"')
        model.objects.filter(pk=row.pk).update(body=turned, **columns)


def said() -> list[str]:
    entries = LedgerEntry.objects.filter(kind=Kind.ROW_MISMATCHED)
    return [entry.payload["row"] for entry in entries]


@pytest.mark.parametrize("columns", WAYS)
def test_changed_feedback_is_served_to_nobody(trader: api_client.Caller, columns: dict[str, Any]) -> None:
    dfid = trader.open_flow()
    trader.propose(dfid, REJECTED).ok()
    assert findings.verify_all().findings == []
    before = trader.post(f"/flows/{dfid}/context").ok(201)["context"]
    assert "'verdict': 'REJECT'" in str(before)
    turn(Feedback, **columns)
    for _ in range(2):
        trader.get(f"/flows/{dfid}/feedback").problem(409, "TAMPERED")
    assert said() == ["feedback.body"]
    # What came after it can still be read, and a context leaves it out.
    assert trader.get(f"/flows/{dfid}/feedback?after=1").ok()["events"] == []
    context = trader.post(f"/flows/{dfid}/context").ok(201)["context"]
    assert "'verdict': 'ACCEPT'" not in str(context)
    assert findings.verify_all().findings


@pytest.mark.parametrize("columns", [*WAYS, {"salt": b"", "entry_seq": None, "dfid": None}])
def test_a_changed_response_is_not_repeated(trader: api_client.Caller, columns: dict[str, Any]) -> None:
    dfid, key = trader.open_flow(), uuid.uuid4().hex
    first = trader.propose(dfid, REJECTED, key).ok()
    assert trader.propose(dfid, REJECTED, key).ok() == first
    turn(Answer, **columns)
    for _ in range(2):
        trader.propose(dfid, REJECTED, key).problem(409, "TAMPERED")
    assert said() == ["answer.body"]
    assert findings.verify_all().findings


@pytest.mark.parametrize("is_in_row", [True, False])
def test_a_response_that_names_a_flow_which_is_not_there_is_not_repeated(
    trader: api_client.Caller, is_in_row: bool
) -> None:
    """Nothing is as old as a flow of which there is no entry."""
    once = {"Idempotency-Key": "k-1"}
    dfid = trader.post("/flows", {"trigger": "x"}, once).ok(201)["dfid"]
    other = "00000000-0000-7000-8000-00000000000a"
    body = bytes(Answer.objects.get().body).replace(dfid.encode(), other.encode())
    Answer.objects.update(body=body, salt=b"", entry_seq=None, dfid=other if is_in_row else None)
    trader.post("/flows", {"trigger": "x"}, once).problem(409, "TAMPERED")
    assert "the stored response" in " ".join(item.detail for item in findings.verify_all().findings)


def test_every_call_with_a_key_is_recorded(trader: api_client.Caller) -> None:
    """Also the opening of a flow, usage, one call and a batch: all whole, and each found when changed."""
    once = {"Idempotency-Key": "k-1"}
    dfid = trader.post("/flows", {"trigger": "x"}, once).ok(201)["dfid"]
    usage = {"tokens": 5}
    trader.post(f"/flows/{dfid}/usage", usage, once).ok()
    one = api_client.proposal(trader.context(dfid), dfid=dfid)
    trader.post("/proposals", one, once).ok()
    other = trader.open_flow()
    many = [api_client.proposal(trader.context(other), dfid=other)]
    trader.post("/proposals/batch", {"proposals": many}, once).ok()
    assert findings.verify_all().findings == []
    assert findings.verify_all().not_verified == ()
    rows = Answer.objects.exclude(path__endswith="/batch")
    assert rows.filter(entry_seq=None).count() == 0
    assert rows.count() == 4
    for row in rows:
        held = bytes(row.body)
        Answer.objects.filter(pk=row.pk).update(body=held + b" ")
        assert len(findings.verify_all().findings) == 1, row.path
        Answer.objects.filter(pk=row.pk).update(body=held)
    trader.post(f"/flows/{dfid}/usage", usage, once).ok()
    Answer.objects.filter(path__endswith="/usage").update(body=b"{}")
    trader.post(f"/flows/{dfid}/usage", usage, once).problem(409, "TAMPERED")


def test_rows_of_flows_older_than_commitments_are_served_and_counted(trader: api_client.Caller) -> None:
    dfid, key = trader.open_flow(), uuid.uuid4().hex
    first = trader.propose(dfid, REJECTED, key).ok()
    Feedback.objects.update(salt=b"", entry_seq=None)
    Answer.objects.update(salt=b"", entry_seq=None, dfid=None)
    ledger_tampering.forget(dfid, {"told_recorded", "feedback_commitments", "answer_commitments"})
    assert trader.propose(dfid, REJECTED, key).ok() == first
    assert len(trader.get(f"/flows/{dfid}/feedback").ok()["events"]) == 1
    result = findings.verify_all()
    assert result.findings == []
    assert result.not_verified == (
        "2 rows of feedback and stored responses are older than the commitments to such rows",
    )
    assert Flow.objects.count() == 1
