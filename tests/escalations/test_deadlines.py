"""Deadlines: the time port decides; what nobody decided in time is aborted, never approved."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deadlines, deciding, drift_scan
from runtime.flows.models import Feedback, Intent
from tests.escalations.conftest import SetClock
from tests.support import decision_rows, factories

pytestmark = pytest.mark.django_db

MS = timedelta(milliseconds=1)


def deadline(escalation: Escalation) -> datetime:
    """The deadline of a decision."""
    assert escalation.deadline_at is not None
    return escalation.deadline_at


@pytest.mark.parametrize("left", [MS, timedelta(0)], ids=["before", "at"])
def test_a_decision_up_to_the_last_millisecond_stands(
    desk: factories.Desk, olivia: User, set_clock: SetClock, left: timedelta
) -> None:
    escalation = desk.escalate()
    set_clock(deadline(escalation) - left)
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT])
def test_a_decision_a_millisecond_late_aborts_the_flow_and_decides_nothing(
    desk: factories.Desk, olivia: User, set_clock: SetClock, action: Action
) -> None:
    escalation = desk.escalate()
    set_clock(deadline(escalation) + MS)
    answer = factories.decide(escalation, olivia, action, params=factories.OVER_LIMIT)
    assert decision_rows.refused(answer) == (409, "ALREADY_DECIDED")
    row = Escalation.objects.select_related("flow").get()
    assert (row.state, row.resolution) == ("EXPIRED", "EXPIRED")
    assert (row.flow.state, row.flow.reason) == ("ABORTED", "DEADLINE_PASSED")
    assert not Decision.objects.exists()
    assert not Intent.objects.exists()
    kinds = [kind for kind, _ in decision_rows.recorded(escalation)]
    assert kinds[-4:] == ["escalation:expired", "flow:moved", "escalation:refused", "record:emitted"]
    told = list(Feedback.objects.order_by("seq").values_list("event_type", flat=True))
    assert told[-2:] == ["ESCALATION_RESOLVED", "FLOW_ABORTED"]


def test_the_sweeper_aborts_what_is_late_and_nothing_else(desk: factories.Desk, set_clock: SetClock) -> None:
    late, open_one = desk.escalate(), desk.escalate()
    Escalation.objects.filter(pk=open_one.pk).update(deadline_at=deadline(late) + timedelta(hours=1))
    assert deadlines.sweep() == 0
    set_clock(deadline(late) + MS)
    assert deadlines.sweep() == 1
    assert deadlines.sweep() == 0
    states = dict(Escalation.objects.values_list("pk", "state"))
    assert states == {late.pk: "EXPIRED", open_one.pk: "OPEN"}
    assert ("escalation:expired", "system") in decision_rows.recorded(late)


def test_one_escalation_that_cannot_be_ended_keeps_no_other_alive(
    desk: factories.Desk, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned, other = desk.escalate(), desk.escalate()
    set_clock(max(deadline(poisoned), deadline(other)) + MS)
    abort = deadlines.abort_expired

    def fail(held: Any, journal: Any) -> None:
        if held.escalation.pk == poisoned.pk:
            raise ValueError("poison")
        abort(held, journal)

    monkeypatch.setattr(deadlines, "abort_expired", fail)
    assert deadlines.sweep() == 1
    assert Escalation.objects.get(state="EXPIRED").pk == other.pk


def test_an_escalation_decided_between_choosing_and_locking_is_left_alone(
    desk: factories.Desk, olivia: User, set_clock: SetClock
) -> None:
    escalation = desk.escalate()
    factories.decide(escalation, olivia, Action.ABORT)
    set_clock(deadline(escalation) + MS)
    assert deadlines._expire_one(escalation.pk, "default") == 0
    assert deadlines._expire_one(escalation.pk, "other") == 0


def test_what_had_not_drifted_is_looked_at_again_after_a_while(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.escalate()
    moved: list[float] = [0]
    monkeypatch.setattr(drift_scan, "time", SimpleNamespace(monotonic=lambda: moved[0]))
    monkeypatch.setattr(drift_scan, "_unmoved", {})
    factories.write("price.AAPL", 18_960)
    assert drift_scan.revise_open(again_s=3) == 0
    factories.write("price.AAPL", 25_000)
    moved[0] = 2.9
    assert drift_scan.revise_open(again_s=3) == 0
    moved[0] = 3.1
    assert drift_scan.revise_open(again_s=3) == 1
    assert drift_scan.revise_open(again_s=3) == 0


def test_an_evidence_that_drifted_is_revised_by_the_sweeper_once(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    assert drift_scan.revise_open() == 0
    factories.write("price.AAPL", 18_960)
    assert drift_scan.revise_open() == 0
    factories.write("price.AAPL", 25_000)
    assert drift_scan.revise_open() == 1
    assert drift_scan.revise_open() == 0
    row = Escalation.objects.get()
    assert (row.revision, row.version, row.state) == (2, 2, "OPEN")
    assert decision_rows.recorded(escalation)[-1] == ("escalation:revised", "system")


def test_a_revision_changes_what_a_proposal_weighs(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.write("market.state", "CLOSED")
    drift_scan.revise_open()
    row = Escalation.objects.get()
    assert row.evidence_hash != escalation.evidence_hash
    assert (row.impact, row.impact_rank) == ("LOW_IMPACT", 0)


def test_an_escalation_closed_between_choosing_and_locking_is_not_revised(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    factories.write("price.AAPL", 25_000)
    factories.decide(escalation, olivia, Action.ABORT)
    factories.decide(escalation, olivia, Action.ABORT)
    assert drift_scan._revise_one(escalation.pk, "default") == 0


def test_a_drift_that_was_gone_again_is_not_revised(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    assert drift_scan._revise_one(escalation.pk, "default") == 0


def test_one_escalation_that_cannot_be_revised_keeps_no_other_back(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = desk.escalate(), desk.escalate()
    factories.write("price.AAPL", 25_000)
    revise = drift_scan._revise_one

    def fail(escalation_id: Any, tenant: str) -> int:
        if escalation_id == first.pk:
            raise ValueError("poison")
        return revise(escalation_id, tenant)

    monkeypatch.setattr(drift_scan, "_revise_one", fail)
    assert drift_scan.revise_open() == 1
    assert Escalation.objects.get(revision=2).pk == second.pk
