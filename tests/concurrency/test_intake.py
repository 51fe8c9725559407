"""Intake under real threads: one answer for one key, one intent for one flow."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from audit.verification import verify
from runtime.contracts.problem import Problem
from runtime.core.models import Answer
from runtime.flows.models import Intent, Proposal, Verdict
from runtime.proposals.services import intake
from tests.support import factories, racing

REPEATS = 50
RIVALS = 8


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    return factories.desk()


def test_fifty_equal_keys_at_once_are_one_proposal_and_one_answer(desk: factories.Desk) -> None:
    flow = desk.open()
    answers = racing.all_at_once([partial(desk.submit, flow, key="same")] * REPEATS)
    assert len({answer.body for answer in answers if isinstance(answer, intake.Answered)}) == 1
    assert all(isinstance(answer, intake.Answered) for answer in answers), Counter(map(str, answers))
    assert Proposal.objects.count() == Verdict.objects.count() == Intent.objects.count() == 1
    assert Answer.objects.count() == 1


def test_one_key_with_two_bodies_at_once_is_decided_once(desk: factories.Desk) -> None:
    flow = desk.open()
    bodies: list[dict[str, Any]] = [{}, {"params": {}}] * 4
    answers = racing.all_at_once([partial(desk.submit, flow, key="same", **body) for body in bodies])
    assert Proposal.objects.count() == 1
    codes = Counter(answer.code for answer in answers if isinstance(answer, Problem))
    assert codes == {"IDEMPOTENCY_KEY_REUSED": 4}


def test_eight_proposals_at_once_on_one_flow_are_one_intent(desk: factories.Desk) -> None:
    flow = desk.open()
    answers = racing.all_at_once([partial(desk.submit, flow)] * RIVALS)
    codes = Counter(answer.code if isinstance(answer, Problem) else "DECIDED" for answer in answers)
    assert codes == {"DECIDED": 1, "FLOW_NOT_OPEN": RIVALS - 1}
    assert Intent.objects.count() == Proposal.objects.count() == 1


def test_rejected_proposals_at_once_spend_three_attempts_and_no_more(desk: factories.Desk) -> None:
    flow = desk.open()
    racing.all_at_once([partial(desk.submit, flow, params={})] * RIVALS)
    row = flow.row()
    assert (row.state, row.attempts_used) == ("ABORTED", row.attempts_allowed)
    assert Proposal.objects.count() == row.attempts_allowed


def test_the_ledger_of_a_race_verifies(desk: factories.Desk) -> None:
    flows = [desk.open() for _ in range(4)]
    racing.all_at_once([partial(desk.submit, flow) for flow in flows for _ in range(2)])
    assert isinstance(verify.verify_database(), verify.Whole)
