"""The second look at an intent: the live world against what its verdict stood on."""

from datetime import timedelta

import pytest

from escalations.contracts import Action
from runtime.core import clock
from runtime.flows.models import Intent
from runtime.proposals.services import precondition_check
from runtime.registry.models import Bundle
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


@pytest.fixture
def intent(desk: factories.Desk) -> Intent:
    """An accepted intent."""
    desk.propose(desk.open())
    return Intent.objects.get()


def codes(intent: Intent, *, late_s: int = 0) -> list[str]:
    """What a look at the intent finds, so many seconds from now."""
    at = clock.now() + timedelta(seconds=late_s)
    seen = precondition_check.look(
        flow=intent.flow, intent=intent, row=intent.proposal.verdict, at=at, step="order", receipts={}
    )
    return gate_cases.codes(seen.stale)


def test_an_intent_in_an_unmoved_world_may_be_called(intent: Intent) -> None:
    assert codes(intent) == []


def test_a_price_that_moved_within_its_bounds_stops_nothing(intent: Intent) -> None:
    factories.write("price.AAPL", 18_960)
    assert codes(intent) == []


def test_a_price_that_moved_past_its_bounds_stops_it(intent: Intent) -> None:
    factories.write("price.AAPL", 20_000)
    assert codes(intent) == ["STALE_CONTEXT"]


def test_the_window_is_that_of_the_intents_row(intent: Intent) -> None:
    assert codes(intent, late_s=31) == ["EXPIRED"]
    intent.valid_until += timedelta(seconds=60)
    assert codes(intent, late_s=31) == []


def test_the_rules_are_those_of_the_verdict(desk: factories.Desk, intent: Intent) -> None:
    closed = gate_cases.kind(version="1.3.0", constraints=[{"id": "never", "require": "false"}])
    factories.policy_kind(closed)
    assert codes(intent) == []


def test_a_persons_condition_is_asked_of_facts_that_the_kind_does_not_read(desk: factories.Desk) -> None:
    factories.write("cash.main", 500)
    escalation = desk.escalate()
    factories.decide(
        escalation, factories.user(), Action.OVERRIDE, conditions=("context.facts.cash.main >= 500",)
    )
    intent = Intent.objects.get()
    assert codes(intent) == []
    factories.write("cash.main", 499)
    assert codes(intent) == ["CONDITION_FAILED"]


def test_an_intent_without_a_kind_is_a_bug(intent: Intent) -> None:
    Bundle.objects.update(body=gate_cases.rules(kind=None).to_bytes())
    with pytest.raises(LookupError):
        codes(intent)
