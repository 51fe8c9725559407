"""A take-back and the worker at the end of the undo window, under real threads: one of them wins."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from escalations.models import Decision, Escalation
from escalations.services import taking_back
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.flows.models import Attempt, Intent
from tests.support import decision_rows, factories, racing


@pytest.fixture
def decided(real_db: str, settings: Settings) -> Escalation:
    """An escalation that was overridden, within its undo window."""
    settings.DIR_UNDO_MAX_S = 60
    escalation = factories.desk().escalate()
    factories.decide(escalation, factories.user("olivia"))
    return escalation


def take_back(escalation: Escalation, name: str) -> Any:
    account = factories.user(name)
    return partial(
        taking_back.take_back,
        tenant=factories.TENANT,
        escalation_id=escalation.pk,
        person=factories.person(account),
    )


def test_ten_people_take_it_back_once(decided: Escalation) -> None:
    answers = racing.all_at_once([take_back(decided, f"person-{number}") for number in range(10)])
    codes = [answer.code for answer in answers if isinstance(answer, Problem)]
    assert codes == ["UNDO_OVER"] * 9
    assert (Escalation.objects.get().state, Intent.objects.get().state) == ("OPEN", "CANCELLED")
    assert decision_rows.unlike(decided) == []


@pytest.mark.parametrize("early", [True, False])
def test_a_worker_and_a_take_back_have_one_winner(
    decided: Escalation, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """Whichever clock a worker has: what was taken back is never called, and what is called is not undone."""
    intent = Intent.objects.get()
    assert intent.not_before is not None
    at = intent.not_before + timedelta(milliseconds=-1 if early else 1)
    monkeypatch.setattr(clock, "now", lambda: at)
    worker = partial(attempting.attempt, intent.pk, owner="worker")
    back, tried = racing.all_at_once([take_back(decided, "mara"), worker])
    assert isinstance(tried, attempting.AttemptResult), tried
    assert isinstance(back, taking_back.TakenBack) is early
    assert Attempt.objects.exists() is not early
    assert Decision.objects.get().state == ("TAKEN_BACK" if early else "IN_EFFECT")
    assert decision_rows.unlike(decided) == []
