"""However often an intent is asked for, sent or attempted, the target does it once."""

from uuid import UUID

import pytest

from audit.verification.verify import Whole, verify_database
from runtime.execution.services import attempting
from runtime.flows.models import Attempt
from tests.properties.lifecycle_ground import Fate
from tests.support import racing
from tests.support.end_to_end import Console


def test_eight_duplicate_intents_have_one_effect(racing_desk: Console) -> None:
    dfid = racing_desk.open()
    body = racing_desk.body(dfid)
    answers = racing.race(8, lambda _: racing_desk.send(dfid, body, "one-key"))
    (intent_id,) = {UUID(answer.ok()["intent_id"]) for answer in answers}
    racing.race(8, lambda number: attempting.attempt(intent_id, owner=f"worker-{number}"))
    racing.patiently(lambda: attempting.attempt(intent_id, owner="the last"))
    assert (racing_desk.broker.calls, racing_desk.effects()) == (1, 1)
    assert isinstance(verify_database(), Whole)


@pytest.mark.parametrize("fate", [Fate.LOSE_AFTER, Fate.FAIL_AFTER, Fate.RUBBISH])
def test_a_call_that_may_have_taken_effect_is_never_made_again(racing_desk: Console, fate: Fate) -> None:
    racing_desk.broker.fate = fate
    verdict = racing_desk.propose()
    racing_desk.work(rounds=5)
    assert (racing_desk.broker.calls, racing_desk.effects()) == (1, 1)
    name, event = racing_desk.feedback(verdict["dfid"])[-1]
    assert (name, event["reason"]) == ("ESCALATION_REQUIRED", "IN_DOUBT")


def test_every_try_carries_the_same_key(racing_desk: Console) -> None:
    racing_desk.broker.fate = Fate.BUSY
    racing_desk.propose()
    racing_desk.work(rounds=3)
    racing_desk.broker.fate = Fate.SUCCEED
    racing_desk.work()
    keys = {seen.headers["Idempotency-Key"] for seen in racing_desk.target.seen}
    assert (len(racing_desk.target.seen), keys) == (
        4,
        set(Attempt.objects.values_list("target_key", flat=True)),
    )
    assert len(keys) == racing_desk.effects() == 1
