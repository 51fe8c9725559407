"""What a policy kind redacts is stored nowhere: of receipts, however they come, and of what agents write."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry, Payload
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Question
from escalations.services import deciding
from runtime.contracts import api_schemas
from runtime.execution.services import attempting, status_queries
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Outcome, Proposal
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.state.models import FactVersion
from tests.escalations.test_operational import in_doubt
from tests.execution import test_late_receipts as late
from tests.support import (
    api_client,
    asked_targets,
    decision_rows,
    exported_packs,
    factories,
    gate_cases,
    misbehaving_targets,
    trading_desk,
)

pytestmark = pytest.mark.django_db
CARD, MAIL = "4111 1111 1111 1111", "jane@mail.example"
RECEIPT = f'{{"status":"{MAIL}","card":{{"no":"AB-9876543210"}},"note":"{CARD}"}}'.encode()
RULES = [
    {"id": "card", "field": "card.no", "keep": "last_4"},
    {"id": "pan", "pattern": "card_number"},
    {"id": "mail", "pattern": "email", "of": ["receipt", "explain", "answer"]},
]
STORED = {"status": "[redacted: mail]", "card": {"no": "[redacted: card] 3210"}, "note": "[redacted: pan]"}


def cells_with(*words: str) -> list[str]:
    """Every cell of the database that holds one of the words, payloads opened."""
    found = []
    for model in apps.get_models():
        for row in model._default_manager.values():
            texts = {name: _text(cell) for name, cell in row.items()}
            found += [
                f"{model.__name__}.{name}" for name, text in texts.items() if any(w in text for w in words)
            ]
    opened = [bytes(row.body or b"").decode() for row in Payload.objects.select_related("key")]
    return found + [text for text in opened if any(word in text for word in words)]


def _text(cell: Any) -> str:
    return bytes(cell).decode("utf-8", "replace") if isinstance(cell, bytes | memoryview) else str(cell)


def applied(dfid: object) -> list[dict[str, Any]]:
    rows = LedgerEntry.objects.filter(stream=str(dfid), kind="redaction:applied").order_by("seq")
    return [row.payload for row in rows]


def with_rules(pack: str) -> str:
    rules = canonical.encode(RULES).decode()
    return pack.replace("\n    impact:", f"\n    redact: {rules}\n    impact:", 1)


@pytest.fixture(autouse=True)
def _nothing_leaks(settings: Settings) -> Iterator[None]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    yield
    assert cells_with(CARD, MAIL, "9876543210") == []


def test_of_a_receipt_only_what_is_left_is_stored_read_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = with_rules(trading_desk.PACK).replace(
        "path: /orders}}", "path: /orders}, writes: [{fact: order.note, value: receipt.note}]}"
    )
    monkeypatch.setattr(trading_desk, "PACK", text)
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, RECEIPT)) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
        assert attempting.attempt(intent_id, owner="w").status is AttemptStatus.SUCCEEDED
    outcome = Outcome.objects.get(pk=intent_id)
    assert outcome.receipt is not None
    assert canonical.decode(bytes(outcome.receipt)) == STORED
    # The predicted status was replaced: what cannot be compared is no deviation.
    assert canonical.decode(bytes(outcome.deviations)) == []
    written = FactVersion.objects.filter(path="order.note").latest("version")
    assert canonical.decode(bytes(written.value)) == "[redacted: pan]"
    dfid = trading_desk.intent(intent_id).flow_id
    times = {"card": 1, "pan": 1, "mail": 1}
    assert applied(dfid) == [{"source": "receipt", "about": str(intent_id), "number": 1, "rules": times}]
    record = canonical.decode(bytes(DecisionRecord.objects.filter(dfid=dfid).latest("seq").body))
    assert record["controls_active"]["redaction_rules_active"] == ["card", "pan", "mail"]
    replayed = flow_replay.replay(tenant=trading_desk.TENANT, dfid=dfid)
    assert isinstance(replayed, ReplayEqual), replayed
    assert findings.verify_all().findings == []
    examiner = api_client.Caller(api_client.auditor_key("examiner"))
    proposal = trading_desk.intent(intent_id).proposal_id
    shown = examiner.get(f"/audit/contracts/reasoning_trace/{proposal}").ok()["redaction_info"]
    assert [item["policy"] for item in shown] == ["redact:card", "redact:mail", "redact:pan"]
    assert {item["field"].partition("/")[2] for item in shown} == {"receipt"}
    status, told = exported_packs.verified(exported_packs.make(dfid), tmp_path)
    assert (status, told["findings"]) == (0, [])


def test_an_answer_to_a_person_does_not_bring_it_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trading_desk, "PACK", with_rules(asked_targets.PACK))
    page = misbehaving_targets.answer(200, RECEIPT, headers={"Location": f"/of/{MAIL}"})
    with asked_targets.opened(page) as target:
        call = asked_targets.put_in_doubt(trading_desk.open_desk(base_url=target.standing.base_url))
        status_queries.ask(tenant="default", intent_id=call.intent_id, number=call.number, actor="user:7")
        said = LedgerEntry.objects.get(kind="status_query:finished").payload
        shown = canonical.decode(Payload.objects.get(commitment=said["answer_commitment"]).body or b"")
        assert canonical.decode(shown["body"].encode()) == STORED
        assert ["location", "/of/[redacted: mail]"] in shown["headers"]
    [note] = applied(call.intent.flow_id)
    assert note["rules"] == {"card": 1, "pan": 1, "mail": 2}


def test_a_receipt_that_comes_late_does_not_bring_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trading_desk, "PACK", with_rules(trading_desk.PACK))
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, RECEIPT)) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
        late.report(late.call(intent_id))
    said = LedgerEntry.objects.get(kind="attempt:reported_late").payload
    held = Payload.objects.get(commitment=said["receipt_commitment"])
    assert canonical.decode(held.body or b"") == STORED
    assert [note["number"] for note in applied(trading_desk.intent(intent_id).flow_id)] == [1]


def test_a_person_who_marks_a_call_done_is_told_to_leave_it_out() -> None:
    desk = factories.desk(kind=gate_cases.kind(redact=RULES))
    escalation = in_doubt(desk)
    olivia = factories.user("olivia")
    before = decision_rows.state_of(escalation)
    answer = factories.decide(escalation, olivia, Action.MARK_DONE, receipt={"card": {"no": "AB-9876543210"}})
    assert decision_rows.refused(answer) == (400, "RECEIPT_NOT_REDACTED")
    assert decision_rows.state_of(escalation) == before
    taken = factories.decide(escalation, olivia, Action.MARK_DONE, receipt={"card": {"no": None}, "order": 7})
    assert isinstance(taken, deciding.DecisionResult), taken


def test_what_an_agent_explains_and_answers_is_redacted_and_its_repeat_is_the_same_answer() -> None:
    desk = factories.desk(kind=gate_cases.kind(redact=RULES))
    escalation = desk.escalate(explain=f"Asked for by {MAIL}")
    assert Proposal.objects.get().explain == "Asked for by [redacted: mail]"
    factories.decide(escalation, factories.user("olivia"), Action.REQUEST_INFO, justification="Why now?")
    for _ in range(2):
        view = factories.answer(desk, escalation, f"Card {CARD} was used")
        assert isinstance(view, api_schemas.AnswerView), view
    assert Question.objects.get().answer == "Card [redacted: pan] was used"
    told = [(note["source"], *note["rules"]) for note in applied(escalation.flow_id)]
    assert told == [("explain", "mail"), ("answer", "pan")]
