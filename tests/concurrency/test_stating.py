"""Two people who state at once what became of one call: one wins, and what was held is given back once."""

from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from escalations.contracts import Action
from escalations.models import EffectStatement, Escalation
from escalations.services import stating
from escalations.services.decision_request import StatementRequest
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.flows.models import Attempt
from runtime.resources.models import Resource
from tests.escalations.test_replacing import CLAIMS, called
from tests.support import factories, gate_cases, racing, resources_pack


@pytest.fixture
def left(real_db: str) -> Escalation:
    Resource.objects.create(
        tenant="default", name="cash:USD", capacity=150_000, unit="cents", configured_at=clock.now()
    )
    desk = factories.desk(kind=gate_cases.kind(claims=CLAIMS))
    with transaction.atomic():
        escalation = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    answer = factories.decide(escalation, factories.user("olivia"), Action.ABORT)
    assert not isinstance(answer, Problem), answer
    return escalation


def state(left: Escalation, account: User, effect: Effect) -> Any:
    assert left.intent_id is not None
    said = StatementRequest(
        intent_id=left.intent_id, number=1, effect=effect, reason="I have looked at their book."
    )
    who = factories.person(account)
    return racing.patiently(lambda: stating.state(tenant="default", person=who, user=account, request=said))


@pytest.mark.parametrize("repeat", range(2))
@pytest.mark.parametrize("others", [Effect.NOT_HAPPENED, Effect.HAPPENED])
def test_one_of_two_statements_stands(left: Escalation, others: Effect, repeat: int) -> None:
    people = [factories.user("mara"), factories.user("otto")]
    answers = racing.all_at_once(
        [partial(state, left, who, e) for who, e in zip(people, (Effect.NOT_HAPPENED, others), strict=True)]
    )
    codes = Counter(answer.code if isinstance(answer, Problem) else type(answer) for answer in answers)
    assert codes == {"ALREADY_STATED": 1, stating.StatementResult: 1}
    row = EffectStatement.objects.get()
    assert Attempt.objects.get().effect == row.effect
    assert resources_pack.used("cash:USD") == ((0, 0) if row.effect == "NOT_HAPPENED" else (0, 94_750))
    resources_pack.check()
