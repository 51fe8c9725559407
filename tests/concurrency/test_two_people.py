"""Two people under real threads: one first decision, one that confirms it, and one ABORT that always wins."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from escalations.contracts import Action
from escalations.models import Decision, Escalation
from runtime.flows.models import Intent
from runtime.flows.services import flows
from tests.concurrency.test_escalation import result
from tests.support import factories, gate_cases, racing


@pytest.fixture
def critical(real_db: str) -> Escalation:
    return factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()


def states() -> list[str]:
    return list(Decision.objects.order_by("sequence").values_list("state", flat=True))


@pytest.mark.parametrize("repeat", range(3))
def test_two_second_people_at_once_confirm_it_once(critical: Escalation, repeat: int) -> None:
    factories.decide(critical, factories.user("olivia"))
    seconds = [factories.user(name) for name in ("mara", "nils", "otto")]
    request = factories.decision_request(critical)
    answers = racing.all_at_once([partial(factories.send, critical, who, request) for who in seconds])
    assert Counter(map(result, answers)) == {"OVERRIDE": 1, "ALREADY_DECIDED": 2}
    assert states() == ["CONFIRMED", "IN_EFFECT"]
    assert Intent.objects.count() == 1


@pytest.mark.parametrize("repeat", range(3))
def test_two_first_people_at_once_are_one_first(critical: Escalation, repeat: int) -> None:
    request = factories.decision_request(critical)
    people = [factories.user("olivia"), factories.user("mara")]
    answers = racing.all_at_once([partial(factories.send, critical, who, request) for who in people])
    # Nobody confirms a decision from a page that did not say that there is one.
    assert Counter(map(result, answers)) == {"OVERRIDE": 1, "VERSION_CHANGED": 1}
    assert states() == ["AWAITING_SECOND"]
    assert not Intent.objects.exists()


@pytest.mark.parametrize("is_second", [True, False])
@pytest.mark.parametrize("repeat", range(3))
def test_an_abort_at_once_with_another_decision(critical: Escalation, is_second: bool, repeat: int) -> None:
    if is_second:
        factories.decide(critical, factories.user("otto"))
    requests = [factories.decision_request(critical, action) for action in (Action.OVERRIDE, Action.ABORT)]
    people = [factories.user("olivia"), factories.user("mara")]
    answers = racing.all_at_once(
        [
            partial(factories.send, critical, who, request)
            for who, request in zip(people, requests, strict=True)
        ]
    )
    row = Escalation.objects.get()
    assert row.state == "RESOLVED"
    if row.resolution == "OVERRIDE":
        assert is_second
        assert sorted(map(result, answers)) == ["ALREADY_DECIDED", "OVERRIDE"]
    else:
        assert result(answers[1]) == "ABORT"
        assert "AWAITING_SECOND" not in states()
    assert Intent.objects.count() == (row.resolution == "OVERRIDE")


def test_the_second_person_and_the_agent_that_withdraws(real_db: str) -> None:
    desk = factories.desk(kind=gate_cases.kind(impact="'CRITICAL'"))
    escalation = desk.escalate()
    factories.decide(escalation, factories.user("olivia"))
    mara, request = factories.user("mara"), factories.decision_request(escalation)
    works: list[Any] = [
        partial(factories.send, escalation, mara, request),
        partial(flows.cancel, agent=desk.again(), dfid=escalation.flow_id, reason=""),
    ]
    racing.all_at_once(works)
    assert states() in (["CONFIRMED", "IN_EFFECT"], ["SUPERSEDED"])
    assert Intent.objects.count() == (len(states()) == 2)
