"""One call at once from many threads: equal calls are one, and tries in flows of their own are counted."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from audit import canonical
from audit.verification import verify
from runtime.contracts.envelope import ProposalCall
from runtime.contracts.problem import Problem
from runtime.core.idempotency import IdempotentRequest
from runtime.core.models import Answer
from runtime.flows.models import Flow, Intent, Proposal
from runtime.proposals.services import intake, one_call
from tests.support import factories, racing

RIVALS = 8
SEEN = {"price.AAPL": 1, "market.state": 1}


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    return factories.desk()


def submit(desk: factories.Desk, key: str, **changes: Any) -> intake.Answered | Problem:
    body = canonical.encode(factories.envelope_body(**{"context": "current", "seen": SEEN, **changes}))
    return one_call.submit(
        session=desk.session,
        asked=ProposalCall.model_validate_json(body),
        call=IdempotentRequest(key=key, path="/api/v1/proposals", body=body),
    )


def test_equal_calls_at_once_are_one_flow_and_one_answer(desk: factories.Desk) -> None:
    answers = racing.race(RIVALS, lambda number: submit(desk, "same"))
    assert len({answer.body for answer in answers if isinstance(answer, intake.Answered)}) == 1, answers
    assert not [answer for answer in answers if isinstance(answer, Problem)]
    counts = [model.objects.count() for model in (Flow, Proposal, Intent, Answer)]
    assert counts == [1, 1, 1, 1]


def test_rejected_tries_at_once_in_flows_of_their_own_spend_three_attempts(desk: factories.Desk) -> None:
    answers = racing.race(RIVALS, lambda number: submit(desk, f"k{number}", params={}))
    left = Counter(factories.read(answer)["attempts_left"] for answer in answers)
    assert left == {2: 1, 1: 1, 0: RIVALS - 2}
    states = Counter(Flow.objects.values_list("state", "reason"))
    assert states == {("ACTIVE", ""): 2, ("ABORTED", "REASONING_EXHAUSTION"): RIVALS - 2}
    assert Proposal.objects.exclude(retry_key="").count() == 3
    assert isinstance(verify.verify_database(), verify.Whole)


def test_tries_of_all_roads_at_once_on_one_flow_are_one_intent(desk: factories.Desk) -> None:
    flow = desk.open()
    works = [partial(submit, desk, f"k{number}", dfid=str(flow.dfid)) for number in range(4)]
    answers = racing.all_at_once([*works, *[partial(desk.submit, flow)] * 4])
    codes = Counter(answer.code if isinstance(answer, Problem) else "DECIDED" for answer in answers)
    assert codes == {"DECIDED": 1, "FLOW_NOT_OPEN": 7}
    assert Intent.objects.count() == 1
