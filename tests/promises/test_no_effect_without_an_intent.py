"""Nothing reaches a target but what an accepting verdict has made an intent of."""

import pytest

from runtime.flows.models import Attempt, Intent
from tests.support.end_to_end import Console, Person

pytestmark = pytest.mark.django_db


def test_only_what_was_accepted_reaches_the_target(desk: Console, olivia: Person) -> None:
    rejected, escalated = desk.propose(quantity=90), desk.propose(quantity=60)
    assert (rejected["verdict"], escalated["verdict"]) == ("REJECT", "ESCALATE")
    desk.work()
    assert (desk.broker.calls, Intent.objects.count()) == (0, 0)
    assert olivia.decide(escalated["escalation_id"], "ABORT") == 302
    accepted = desk.propose(quantity=10)
    desk.work()
    assert desk.broker.calls == 1
    (key,) = desk.broker.effects
    assert str(Attempt.objects.get(target_key=key).intent_id) == accepted["intent_id"]


def test_a_person_goes_the_same_road(desk: Console, olivia: Person) -> None:
    escalated = desk.propose(quantity=60)
    assert olivia.decide(escalated["escalation_id"], "OVERRIDE") == 302
    desk.work()
    assert desk.effects() == 1
    intent = Intent.objects.get()
    assert intent.proposal.author == f"user:{olivia.account.pk}"
    assert intent.proposal.verdict.decision == "ACCEPT"
    assert desk.flow(escalated["dfid"])["state"] == "CLOSED"
