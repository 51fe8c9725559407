"""Activations and claims race: no call begins under rights that somebody has taken away before it."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.states import FlowState, IntentState
from runtime.execution.services import attempting
from runtime.flows.models import Attempt, Intent
from runtime.registry.models import Manifest
from runtime.registry.services import manifests
from tests.support import factories, gate_cases, misbehaving_targets, racing, trading_desk

WORKERS, ROUNDS = 4, 4


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


def drafted(version: str, cents: int) -> None:
    draft = gate_cases.manifest(version=version, limits={"max_notional_cents": cents})
    row = manifests.draft(
        tenant="default", agent_id="trader", text=draft.to_bytes().decode(), actor="user:901"
    )
    assert isinstance(row, Manifest), row


def activated(version: str) -> Manifest:
    row = manifests.activate(
        tenant="default",
        agent_id="trader",
        version=version,
        seen_active=Manifest.objects.exclude(activated_at=None).latest("activated_at").version,
        reason="less from now on",
        actor="user:902",
    )
    assert isinstance(row, Manifest), row
    return row


def accepted(desk: factories.Desk) -> Intent:
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    return Intent.objects.get(flow_id=flow.dfid)


def test_no_call_begins_above_a_limit_that_was_in_force_before_it(
    real_db: str, target: misbehaving_targets.StandIn
) -> None:
    desk = factories.desk()
    factories.configure_target(base_url=target.base_url)
    for turn in range(ROUNDS):
        waiting = [accepted(desk) for _ in range(WORKERS)]
        tight, wide = f"1.{5 + 2 * turn}.0", f"1.{6 + 2 * turn}.0"
        drafted(tight, 100)

        def work(number: int, waiting: list[Intent] = waiting, tight: str = tight) -> Manifest | None:
            if number == WORKERS:
                return activated(tight)
            attempting.attempt(waiting[number].pk, owner=f"worker-{number}")
            return None

        *_, manifest = racing.race(WORKERS + 1, work)

        assert manifest is not None
        assert manifest.activated_at is not None
        for intent in waiting:
            begun = Attempt.objects.filter(intent=intent).values_list("started_at", flat=True).first()
            if begun is None:
                assert trading_desk.states(intent.pk) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
                assert Escalation.objects.get(intent=intent).reason == "RISK_LIMIT_EXCEEDED"
            else:
                assert begun <= manifest.activated_at
                assert trading_desk.states(intent.pk) == (IntentState.DONE, FlowState.CLOSED)
        drafted(wide, 100_000)
        activated(wide)
    assert len(target.seen) == Attempt.objects.count()
    assert isinstance(verify_database(), Whole)
