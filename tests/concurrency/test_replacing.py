"""MODIFY after an intent, under real threads: one intent runs, and what is held is held once."""

from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deciding
from escalations.services.decision_request import DecisionRequest
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import LIVE_INTENTS
from runtime.core import clock
from runtime.execution.services import intent_transitions
from runtime.flows.models import Intent
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.services.flow_transaction import Journal
from runtime.resources.models import Resource
from runtime.resources.services import reservations
from tests.support import factories, gate_cases, racing, resources_pack

CLAIMS = [{"resource": "cash:USD", "amount": "params.notional_cents"}]
SMALLER = {**gate_cases.PARAMS, "quantity": 2, "notional_cents": 37_900}


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    return factories.desk(kind=gate_cases.kind(claims=CLAIMS))


def failed(desk: factories.Desk) -> Escalation:
    """An intent that failed too often, with what it holds pinned."""
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    intent = Intent.objects.get(flow_id=flow.dfid)
    with transaction.atomic():
        journal = Journal(flow=flow.row(), actor="system", at=clock.now())
        journal.add(*(reservations.pin(intent=intent, at=clock.now()) or ()))
        intent_transitions.ask_person(
            journal, intent, IntentPlan.of(intent), reason=Reason.REPEATED_FAILURE, failures=4
        )
        journal.write()
    return Escalation.objects.get(intent=intent)


def send(escalation: Escalation, account: User, request: DecisionRequest) -> Any:
    """Post a form that was filled in before the race."""
    return racing.patiently(
        lambda: deciding.decide(
            tenant="default",
            escalation_id=escalation.pk,
            person=factories.person(account),
            user=account,
            request=request,
        )
    )


def result(answer: Any) -> str:
    """A decision as its action, a refusal as its code, a bug as its words."""
    if isinstance(answer, deciding.DecisionResult):
        return answer.action.value
    return answer.code if isinstance(answer, Problem) else repr(answer)


@pytest.mark.parametrize("repeat", range(2))
@pytest.mark.parametrize("against", [Action.MODIFY, Action.RESUME, Action.ABORT, Action.MARK_DONE])
def test_a_replacement_against_another_decision_has_one_winner(
    desk: factories.Desk, against: Action, repeat: int
) -> None:
    escalation = failed(desk)
    people = [factories.user("olivia"), factories.user("mara")]
    requests = [
        factories.decision_request(escalation, action, params=SMALLER, receipt={"order": 1})
        for action in (Action.MODIFY, against)
    ]
    answers = racing.all_at_once(
        [partial(send, escalation, who, request) for who, request in zip(people, requests, strict=True)]
    )
    counted = Counter(map(result, answers))
    assert counted.pop("ALREADY_DECIDED") == 1
    (won,) = counted
    assert Decision.objects.get().action == won
    live = Intent.objects.filter(state__in=LIVE_INTENTS).count()
    assert (Intent.objects.count(), live) == {
        "MODIFY": (2, 1),
        "RESUME": (1, 1),
        "ABORT": (1, 0),
        "MARK_DONE": (1, 0),
    }[won]
    assert (
        resources_pack.used("cash:USD")
        == {
            "MODIFY": (37_900, 0),
            "RESUME": (94_750, 0),
            "ABORT": (0, 0),
            "MARK_DONE": (0, 94_750),
        }[won]
    )
    resources_pack.check()


def test_a_replacement_never_takes_what_another_flow_took_meanwhile(desk: factories.Desk) -> None:
    """100 of 150 cents free beside its own: the replacement or the newcomer fits, never both."""
    escalation = failed(desk)
    request = factories.decision_request(
        escalation, Action.MODIFY, params={**gate_cases.PARAMS, "notional_cents": 100_000}
    )
    olivia = factories.user("olivia")
    other = desk.open()
    newcomer = {**gate_cases.PARAMS, "notional_cents": 52_000}
    works: list[Any] = [
        partial(send, escalation, olivia, request),
        lambda: racing.patiently(lambda: racing.propose(desk, other, params=newcomer)),
    ]
    decided, proposed = racing.all_at_once(works)
    resources_pack.check()
    assert not isinstance(proposed, Exception), proposed
    if result(decided) == "MODIFY":
        assert proposed["verdict"] == "REJECT"
        assert resources_pack.used("cash:USD") == (100_000, 0)
    else:
        assert (result(decided), proposed["verdict"]) == ("GATE_REFUSED", "ACCEPT")
        assert resources_pack.used("cash:USD") == (146_750, 0)
        assert Intent.objects.filter(state="WITH_PERSON").count() == 1
