"""Scorecards in a replay: changed in a record or in what that is found by, or given otherwise today."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from audit.models import DecisionRecord, LedgerEntry
from audit.records import evaluators
from runtime.maintenance.services import scoring
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import Change, ReplayEqual
from tests.proposals.test_flow_replay import TENANT, difference, entry, told
from tests.support import finished_history, ledger_tampering, worlds
from tests.support.finished_history import History

pytestmark = pytest.mark.django_db
history = worlds.opened(finished_history.opened)


@pytest.fixture
def changed(history: History, django_db_blocker: Any) -> Iterator[History]:
    """The flows, for a test that changes them."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)


def scored(flows: History) -> tuple[DecisionRecord, LedgerEntry]:
    """The record with the scores of a flow that was aborted, and the entry that gave them."""
    scoring.score_due()
    row = DecisionRecord.objects.get(dfid=flows.aborted, supersedes__isnull=False)
    return row, entry(flows.aborted, "record:scored")


def test_a_scored_flow_replays_equal(changed: History) -> None:
    scored(changed)
    found = flow_replay.replay(tenant=TENANT, dfid=changed.aborted)
    assert isinstance(found, ReplayEqual), found
    assert found.checked["scorecards"] == 1


def test_a_changed_scorecard_is_named_with_the_evaluator(changed: History) -> None:
    row, said = scored(changed)
    body = bytes(row.body).replace(b'"policy":"0"', b'"policy":"1"')
    assert body != bytes(row.body)
    ledger_tampering.quietly("UPDATE audit_decisionrecord SET body = %s WHERE id = %s", [body, row.pk])
    assert told(changed.aborted) == (Change.SCORECARD, "/decisionrecord/scorecard/policy", "0", "1")
    assert difference(changed.aborted).seq == said.seq


def test_a_changed_term_of_a_scorecard_is_named(changed: History) -> None:
    row, _ = scored(changed)
    ledger_tampering.quietly(
        "UPDATE audit_recordterm SET value = 'passed' WHERE record = %s AND name = 'score'", [row.pk]
    )
    change, path, recorded, found = told(changed.aborted)
    assert (change, path) == (Change.SCORECARD, "/recordterm/scorecard")
    assert ("score: failed" in recorded, "score: passed" in found) == (True, True)


def test_an_evaluator_that_gives_another_score_is_named(
    changed: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(changed)
    other = {**evaluators.EVALUATORS, ("utility", "1.0.0"): lambda record: evaluators.Mark(7500, "Good.")}
    monkeypatch.setattr(evaluators, "EVALUATORS", other)
    change, path, recorded, found = told(changed.aborted)
    assert (change, path) == (Change.SCORECARD, "/decisionrecord/scorecard/details/utility/passed")
    assert (recorded, found) == (False, True)


def test_a_changed_entry_of_a_score_is_tampering(changed: History) -> None:
    _, said = scored(changed)
    body = bytes(said.body).replace(b'"result":"failed"', b'"result":"passed"')
    ledger_tampering.quietly("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [body, said.pk])
    assert difference(changed.aborted).change is Change.TAMPERED
