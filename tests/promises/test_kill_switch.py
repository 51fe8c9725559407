"""After the stop's commit no claim made later calls the target, until the stop is lifted."""

import threading
from functools import partial
from uuid import UUID

import pytest
from django.db import connection

from audit.access.roles import Role
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import due_intents
from runtime.registry.models import Agent, Stop
from tests.properties.lifecycle_ground import AGENT
from tests.support import end_to_end, racing
from tests.support.end_to_end import Console
from tests.support.wait_until import until

SWITCHES = {
    "everything": ("/stop/", "/resume/"),
    "one agent": (f"/agents/{AGENT}/stop/", f"/agents/{AGENT}/resume/"),
}


@pytest.mark.slow
@pytest.mark.parametrize("switch", SWITCHES)
def test_no_claim_after_the_stop_calls(racing_desk: Console, switch: str) -> None:
    stop, resume = SWITCHES[switch]
    admin = end_to_end.person("admin", Role.OPERATOR, Role.SENIOR, Role.ADMIN)
    waiting = [UUID(racing_desk.propose(quantity=1)["intent_id"]) for _ in range(24)]
    pressed = threading.Event()

    def work(number: int) -> list[AttemptStatus]:
        if number == 0:
            until(lambda: racing_desk.broker.calls >= 2, timeout_s=90)
            assert admin.browser.post(stop, {"reason": "trial"}).status_code == 302
            pressed.set()
            return []
        after: list[AttemptStatus] = []
        for intent_id in waiting:
            was_pressed = pressed.is_set()
            result = racing.patiently(partial(attempting.attempt, intent_id, owner=f"worker-{number}"))
            after += [result.status] if was_pressed else []
        return after

    found = [status for statuses in racing.race(4, work) for status in statuses]
    assert set(found) <= {AttemptStatus.HELD, AttemptStatus.NOT_DUE, AttemptStatus.ENDED}
    calls = racing_desk.broker.calls
    assert calls < len(waiting), "the burst had ended before the stop"
    assert due_intents.list_due(at=clock.now(), limit=50) == []
    for intent_id in waiting:
        assert attempting.attempt(intent_id, owner="late").called is False
    assert racing_desk.broker.calls == calls
    _check_claims(switch)

    assert admin.browser.post(resume, {"reason": "trial over"}).status_code == 302
    racing_desk.work()
    assert racing_desk.effects() == racing_desk.broker.calls == len(waiting)
    connection.close()


def _check_claims(switch: str) -> None:
    """What was claimed after the moment of the stop has left no call: it was held."""
    stopped = Stop.objects.get() if switch == "everything" else Agent.objects.get(agent_id=AGENT)
    assert stopped.stopped_at is not None
    assert Attempt.objects.filter(started_at__lte=stopped.stopped_at).exists(), "nothing ran before the stop"
    late = Attempt.objects.filter(started_at__gt=stopped.stopped_at).exclude(state="HELD")
    assert not late.exists()
    assert not Intent.objects.filter(state="CLAIMED").exists()
