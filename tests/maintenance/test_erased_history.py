"""A history with everything in it: its flows are erased, and what was proved of them stays proved."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps

from audit import erasure_columns
from audit.verification import findings
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.flows.models import Attempt, Outcome
from runtime.guards.models import GuardRun
from runtime.maintenance.services import erasure
from runtime.proposals.queries import flow_replay, verdict_replay
from runtime.proposals.queries.replay_results import NotReplayable
from tests.support import finished_history, guard_rounds, worlds
from tests.support.finished_history import History

pytestmark = pytest.mark.django_db
TENANT = "default"
history = worlds.opened(finished_history.opened)


def erase(*flows: UUID, **changes: Any) -> erasure.Erased:
    asked: dict[str, Any] = {"tenant": TENANT, "dfids": flows, "reason": "asked for", "actor": "user:1"}
    answer = erasure.erase(**{**asked, **changes})
    assert isinstance(answer, erasure.Erased), answer
    return answer


def erased(dfid: UUID) -> erasure.ErasedFlow:
    answer = erase(dfid)
    assert not answer.kept, answer
    (done,) = answer.flows
    return done


@pytest.mark.parametrize("name", ["accepted", "aborted", "undone"])
def test_an_erased_flow_verifies_and_is_not_replayable(history: History, name: str) -> None:
    guard_rounds.run_all()
    dfid = getattr(history, name)
    before = findings.verify_all()
    assert before.findings == []
    done = erased(dfid)
    for words in erasure_columns.list_words():
        rows = apps.get_model(words.model)._default_manager.filter(**{words.flow: dfid})
        for cells in rows.values(*words.columns):
            assert set(cells.values()) <= {b"", "", None, *words.left.values()}, words.model
    after = findings.verify_all()
    assert after.findings == []
    assert after.erased == before.erased + done.payloads
    assert after.not_verified == before.not_verified
    replayed = flow_replay.replay(tenant=TENANT, dfid=dfid)
    assert isinstance(replayed, NotReplayable), replayed
    assert (1, "trigger_commitment") in replayed.erased
    assert isinstance(verdict_replay.replay(), verdict_replay.Equal)


def test_a_flow_in_doubt_is_kept(history: History) -> None:
    Attempt.objects.filter(intent__flow=history.accepted).update(state="UNKNOWN", effect="")
    (kept,) = erase(history.accepted).kept
    assert "in doubt" in kept.why


def test_a_flow_whose_answer_may_still_come_is_kept_for_an_hour(history: History) -> None:
    calls = Attempt.objects.filter(intent__flow=history.accepted)
    calls.update(state="UNKNOWN", effect=Effect.HAPPENED, settled_by="user:1", settled_at=clock.now())
    (kept,) = erase(history.accepted).kept
    assert "may still come" in kept.why
    calls.update(started_at=clock.now() - timedelta(hours=1, minutes=1))
    assert erase(history.accepted).kept == ()


def test_a_flow_that_a_guard_or_a_reviewer_looks_at_is_kept(history: History) -> None:
    assert GuardRun.objects.filter(proposal__flow=history.aborted, state="PENDING").exists()
    (kept,) = erase(history.aborted).kept
    assert "guard" in kept.why


def test_what_targets_answered_is_emptied_too(history: History) -> None:
    assert Outcome.objects.get(intent__flow=history.accepted).receipt
    done = erased(history.accepted)
    outcome = Outcome.objects.get(intent__flow=history.accepted)
    assert (outcome.receipt, bytes(outcome.expected), outcome.status) == (None, b"", "SUCCEEDED")
    assert done.counts["stepreceipt.receipt"] > 1
