"""An erasure beside a decision, a claim and another erasure, under real threads."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import LedgerEntry
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.execution.services import claiming
from runtime.flows.models import Flow, Intent
from runtime.maintenance.services import erasure
from tests.support import erased_story, factories, racing


def erase(*dfids: Any) -> Callable[[], Any]:
    return partial(
        racing.patiently,
        partial(erasure.erase, tenant="default", dfids=dfids, reason="asked for", actor="user:1"),
    )


def erased(answers: list[Any]) -> list[erasure.Erased]:
    """The answers, none of which is an error."""
    assert all(isinstance(answer, erasure.Erased) for answer in answers), answers
    return answers


@pytest.fixture
def story(real_db: str) -> erased_story.Story:
    return erased_story.told()


def test_a_flow_is_either_decided_first_or_kept_and_never_both_lost(story: erased_story.Story) -> None:
    dfid = erased_story.propose(story.caller, number=2)
    waiting, olivia = Escalation.objects.get(flow=dfid), User.objects.get(username="olivia")
    request = factories.decision_request(waiting, Action.ABORT)
    decide: Callable[[], Any] = partial(racing.patiently, partial(factories.send, waiting, olivia, request))
    decided, *answers = racing.all_at_once([decide, *[erase(dfid)] * 4])
    assert not isinstance(decided, Problem | Exception), decided
    came = [answer for answer in erased(answers) if answer.flows]
    assert len(came) <= 1
    assert LedgerEntry.objects.filter(kind="flow:erased").count() == len(came)
    assert {kept.why for answer in erased(answers) for kept in answer.kept} <= {"The flow has not ended."}
    # Whoever came first: what is left is whole, and the decision is there or was erased after it.
    row = Decision.objects.get(escalation=waiting)
    assert bool(bytes(row.statement)) == (Flow.objects.get(pk=dfid).erased_at is None)
    assert findings.verify_all().findings == []


def test_of_several_erasures_at_once_one_is_recorded(story: erased_story.Story) -> None:
    answers = racing.all_at_once([erase(story.dfid)] * 5)
    assert sorted(len(answer.flows) for answer in erased(answers)) == [0, 0, 0, 0, 1]
    assert LedgerEntry.objects.filter(kind="flow:erased").count() == 1
    assert findings.verify_all().findings == []


def test_two_erasures_of_several_flows_do_not_wait_for_each_other_forever(
    story: erased_story.Story,
) -> None:
    other = erased_story.again(story.caller, number=2)
    one, two = erase(story.dfid, other.dfid), erase(other.dfid, story.dfid)
    answers = racing.all_at_once([one, two, one, two])
    assert sum(len(answer.flows) for answer in erased(answers)) == 2
    assert LedgerEntry.objects.filter(kind="flow:erased").count() == 2
    assert findings.verify_all().findings == []


def test_what_a_worker_has_claimed_is_not_erased_under_it(story: erased_story.Story) -> None:
    accepted = erased_story.accept(story.caller, number=3)
    intent = Intent.objects.get(flow=accepted)
    take = partial(claiming.claim, intent.pk, owner="worker")
    claim: Callable[[], Any] = partial(racing.patiently, partial(transactions.retry_on_conflict, take))
    claimed, *answers = racing.all_at_once([claim, *[erase(accepted)] * 4])
    assert isinstance(claimed, claiming.Claimed), claimed
    assert all(answer.kept for answer in erased(answers))
    assert bytes(Intent.objects.get(flow=accepted).requests)
    assert not LedgerEntry.objects.filter(kind="flow:erased").exists()
