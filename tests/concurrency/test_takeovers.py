"""Two people take a claim over at once, under real threads: one gets it, the other learns from whom."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import LedgerEntry
from escalations.models import Escalation, Note
from escalations.services import claiming
from runtime.contracts.problem import Problem
from tests.support import decision_rows, factories, racing


@pytest.fixture
def claimed(real_db: str) -> Escalation:
    escalation = factories.desk().escalate()
    olivia = factories.user("olivia")
    assert claiming.claim(tenant="default", escalation_id=escalation.pk, user=olivia) is None
    return Escalation.objects.get()


def take_over(claimed: Escalation, user: User) -> Callable[[], Any]:
    return partial(
        claiming.take_over,
        tenant="default",
        escalation_id=claimed.pk,
        user=user,
        holder=claimed.claimed_by_id,
        reason=f"{user} needs it",
    )


def test_of_two_takeovers_at_once_one_wins(claimed: Escalation) -> None:
    people = [factories.user(name) for name in ("sam", "mara")]
    answers = racing.all_at_once([take_over(claimed, user) for user in people])
    lost = [answer for answer in answers if isinstance(answer, Problem)]
    assert [answer.code for answer in lost] == ["CLAIM_MOVED"]
    winner = people[answers.index(None)]
    assert Escalation.objects.get().claimed_by == winner
    assert winner.username in lost[0].detail
    assert Note.objects.get().author == winner
    assert LedgerEntry.objects.filter(kind="escalation:taken_over").count() == 1
    assert decision_rows.unlike(claimed) == []


def test_a_renewal_does_not_bring_back_a_claim_that_was_taken(claimed: Escalation) -> None:
    sam, olivia = factories.user("sam"), claimed.claimed_by
    renew: Callable[[], Any] = partial(
        claiming.renew, tenant="default", escalation_id=claimed.pk, user=olivia
    )
    answers = racing.all_at_once([take_over(claimed, sam), *[renew] * 5])
    assert answers[0] is None
    assert all(isinstance(answer, bool) for answer in answers[1:])
    assert Escalation.objects.get().claimed_by == sam
