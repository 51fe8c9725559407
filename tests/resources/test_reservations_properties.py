"""Whatever happens to flows, in whatever order: no unit is granted twice, and an ended flow holds none."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.contexts.services import usage
from runtime.contracts import api_schemas
from runtime.contracts.receipt import CallResult, FailureClass
from runtime.contracts.states import ENDED, FlowState
from runtime.core import clock, transactions
from runtime.execution.services import attempting, claiming
from runtime.flows.models import Flow, Intent
from runtime.flows.services import flows
from runtime.maintenance.services import sweeper
from runtime.resources.models import Reservation
from tests.support import resources_pack, trading_desk

pytestmark = pytest.mark.django_db

RESULTS: dict[str, CallResult] = {
    "succeed": resources_pack.DONE,
    "refuse": resources_pack.failure(FailureClass.TERMINAL),
    "retry": resources_pack.failure(FailureClass.TRANSIENT),
    "doubt": resources_pack.failure(FailureClass.UNKNOWN),
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["propose", "propose", *RESULTS, "crash", "lapse", "sweep", "cancel", "overspend", "expire"]
        ),
        st.integers(0, 5),
    ),
    max_size=12,
)


class Play:
    """Flows of one desk and what may befall them."""

    def __init__(self, desk: trading_desk.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk, self.monkeypatch = desk, monkeypatch
        self.intents: list[UUID] = []

    def step(self, what: str, number: int) -> None:
        if what == "propose":
            with_intent = trading_desk.propose(self.desk, quantity=number % 3 + 1).get("intent_id")
            self.intents.extend([UUID(with_intent)] if with_intent else [])
        elif self.intents:
            self._befall(what, self.intents[number % len(self.intents)])

    def _befall(self, what: str, intent_id: UUID) -> None:
        rows, past = Intent.objects.filter(pk=intent_id), clock.now() - timedelta(seconds=1)
        flow = trading_desk.flow_of(intent_id)
        if what in RESULTS:
            rows.update(next_at=past)
            resources_pack.answer_with(self.monkeypatch, RESULTS[what])
            attempting.attempt(intent_id, owner=trading_desk.OWNER)
        elif what == "crash":
            transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a worker that died"))
            sweeper.expire_all_leases()
        elif what == "lapse":
            Reservation.objects.filter(lease_until__isnull=False).update(lease_until=past)
        elif what == "sweep":
            sweeper.sweep()
        elif what == "cancel":
            flows.cancel(agent=self.desk.agent, dfid=flow.dfid, reason="Enough")
        elif what == "overspend":
            asked = api_schemas.UsageRequest(tokens=1_001)
            usage.report(agent=self.desk.agent, dfid=flow.dfid, asked=asked)
        elif what == "expire":
            rows.update(valid_until=past)


@given(steps=STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_is_granted_twice_and_nothing_leaks(
    steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction.atomic(), monkeypatch.context() as patched:
        play = Play(resources_pack.open_desk(patched), patched)
        for what, number in steps:
            play.step(what, number)
            resources_pack.check()
        for flow in Flow.objects.exclude(state__in=[*ENDED, FlowState.ESCALATED]):
            flows.cancel(agent=play.desk.agent, dfid=flow.dfid, reason="The end")
        resources_pack.check()
        transaction.set_rollback(True)
