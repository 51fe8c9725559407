"""Who decides fast, or always with the same words, is asked once more: rules, and what they read."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.models import LedgerEntry
from escalations import pace
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.pace import CheckQuestion
from escalations.services import deciding, decision_pace
from runtime.contracts import timestamps
from runtime.core import clock
from tests.support import decision_rows, factories, gate_cases

MINUTE_S = 60


@pytest.mark.parametrize(
    ("action", "reason", "shown_ms", "usual_ms", "asked"),
    [
        (Action.OVERRIDE, "A new reason.", 60_000, 30_000, None),
        (Action.OVERRIDE, "A new reason.", 29_999, 30_000, CheckQuestion.READ_FAST),
        (Action.OVERRIDE, "A new reason.", 0, None, None),
        (Action.OVERRIDE, "  as  AGREED! ", 60_000, 30_000, CheckQuestion.SAME_REASON),
        (Action.RESUME, "As agreed", 60_000, None, CheckQuestion.SAME_REASON),
        (Action.ABORT, "As agreed.", 0, 30_000, None),
        (Action.STOP_AGENT, "As agreed.", 0, 30_000, None),
        (Action.REQUEST_INFO, "As agreed.", 0, 30_000, None),
    ],
)
def test_the_question(
    action: Action, reason: str, shown_ms: int, usual_ms: int | None, asked: CheckQuestion | None
) -> None:
    found = pace.question_for(
        action, reason, last_reasons=["Something else", "As agreed."], shown_ms=shown_ms, usual_ms=usual_ms
    )
    assert found is asked


@pytest.mark.parametrize(
    ("kind_s", "measured", "usual_ms"),
    [
        (12, [], 12_000),
        (0, [90_000] * 50, 0),
        (None, [60_000] * 9, None),
        (None, [60_000] * 10, 30_000),
        (None, [5_999] * 10, None),
    ],
)
def test_the_usual_time(kind_s: int | None, measured: list[int], usual_ms: int | None) -> None:
    assert pace.usual_reading_ms(kind_s, measured) == usual_ms


def test_the_answer_says_more_than_the_reason() -> None:
    assert pace.answer_missing(" too short ", "As agreed.") == "Answer in at least 10 characters."
    assert pace.answer_missing("As agreed with Dana.", "as agreed with dana") is not None
    assert pace.answer_missing("I compared both prices.", "As agreed.") is None


@pytest.mark.parametrize(
    ("actions", "due"),
    [
        (["OVERRIDE"] * 10, True),
        (["OVERRIDE"] * 9, False),
        (["ABORT", *["OVERRIDE"] * 9], False),
        ([*["OVERRIDE"] * 10, "ABORT"], True),
    ],
)
def test_a_pause_follows_ten_overrides(actions: list[str], due: bool) -> None:
    assert pace.is_pause_due(actions) is due


def read(
    escalation: Escalation, account: User, seconds: float, action: Action = Action.OVERRIDE, **fields: Any
) -> Any:
    """Decide on a page that was shown so many seconds ago."""
    shown_at = clock.now() - timedelta(seconds=seconds)
    return factories.decide(escalation, account, action, shown_at_ms=timestamps.to_ms(shown_at), **fields)


@pytest.mark.django_db
def test_the_statement_says_how_long_it_was_read(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    said = {"visible_s": 40, "panes": ["facts"]}
    assert isinstance(read(escalation, olivia, MINUTE_S, client_reported=said), deciding.DecisionResult)
    decision = Decision.objects.get()
    assert decision.shown_ms is not None
    assert MINUTE_S * 1000 <= decision.shown_ms < 2 * MINUTE_S * 1000
    stated = canonical.decode(bytes(decision.statement))
    assert stated["reading"] == {"shown_ms": decision.shown_ms, "client_reported": said}
    assert decision_rows.unlike(escalation) == []
    Decision.objects.update(shown_ms=999_999)
    assert [item.split(" is ")[0] for item in decision_rows.unlike(escalation)] == ["decision.shown_ms"]


@pytest.mark.django_db
def test_a_form_that_no_page_sent_is_not_measured(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, olivia)
    assert Decision.objects.get().shown_ms is None
    assert "reading" not in canonical.decode(bytes(Decision.objects.get().statement))


@pytest.mark.django_db
def test_the_same_reason_costs_a_recorded_answer(desk: factories.Desk, olivia: User) -> None:
    first, second = desk.escalate(), desk.escalate()
    read(first, olivia, MINUTE_S)
    assert decision_rows.refused(read(second, olivia, MINUTE_S)) == (400, "CHECK_UNANSWERED")
    assert Escalation.objects.get(pk=second.pk).state == "OPEN"
    # Somebody else may say the same.
    third = desk.escalate()
    assert isinstance(read(third, factories.user("mara"), MINUTE_S), deciding.DecisionResult)
    answer = "I compared the price with yesterday's."
    assert isinstance(read(second, olivia, MINUTE_S, checked=answer), deciding.DecisionResult)
    stated = canonical.decode(bytes(Decision.objects.get(escalation=second).statement))
    assert stated["checked"] == {
        "code": "SAME_REASON",
        "question": CheckQuestion.SAME_REASON.words,
        "answer": answer,
    }
    assert decision_rows.unlike(second) == []


@pytest.mark.django_db
def test_a_kind_says_how_long_it_takes_to_read(db: None, olivia: User) -> None:
    escalation = factories.desk(kind=gate_cases.kind(reading_s=20)).escalate()
    assert decision_rows.refused(read(escalation, olivia, 19)) == (400, "CHECK_UNANSWERED")
    assert isinstance(read(escalation, olivia, 20), deciding.DecisionResult)


@pytest.mark.django_db
def test_aborting_is_never_slowed(db: None, olivia: User) -> None:
    escalation = factories.desk(kind=gate_cases.kind(reading_s=3600)).escalate()
    assert isinstance(read(escalation, olivia, 0, Action.ABORT), deciding.DecisionResult)


@pytest.mark.django_db
def test_after_ten_overrides_there_is_a_pause(db: None, olivia: User) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=50))
    escalations = [desk.escalate() for _ in range(12)]
    for number, escalation in enumerate(escalations[:10]):
        read(escalation, olivia, MINUTE_S, justification=f"Agreed with the desk, number {number}.")
    assert decision_rows.refused(read(escalations[10], olivia, MINUTE_S)) == (409, "PAUSE_DUE")
    pause = decision_pace.get_pause(tenant=factories.TENANT, user_id=olivia.pk)
    assert pause is not None
    assert (pause.count, pause.ended, pause.worst) == (10, [("not executed yet", 10)], None)
    # Others, and stopping, go on.
    assert isinstance(read(escalations[11], olivia, 0, Action.ABORT), deciding.DecisionResult)
    assert not decision_pace.is_pause_due(tenant=factories.TENANT, user_id=olivia.pk)


@pytest.mark.django_db
def test_the_pause_ends_with_an_entry(db: None, olivia: User) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=50))
    escalations = [desk.escalate() for _ in range(11)]
    for escalation in escalations[:10]:
        factories.decide(escalation, olivia)
    assert decision_rows.refused(read(escalations[10], olivia, MINUTE_S)) == (409, "PAUSE_DUE")
    decision_pace.end_pause(tenant=factories.TENANT, user_id=olivia.pk)
    assert LedgerEntry.objects.filter(stream=f"user:{olivia.pk}", kind="user:paused").count() == 1
    new = "The limit was agreed this morning."
    assert isinstance(read(escalations[10], olivia, MINUTE_S, justification=new), deciding.DecisionResult)
