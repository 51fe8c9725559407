"""The group that a policy kind names (`gate_id`): its members alone let something run."""

from typing import Any

import pytest

from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.flows.models import Intent
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db
GATE = "GATE_FINANCE"


@pytest.fixture
def asked() -> Escalation:
    return factories.desk(kind=gate_cases.kind(gate_id=GATE)).escalate()


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY])
def test_only_its_members_let_it_run(asked: Escalation, action: Action) -> None:
    fields: dict[str, Any] = {"params": gate_cases.PARAMS} if action is Action.MODIFY else {}
    refused = factories.decide(asked, factories.user("olivia"), action, **fields)
    assert isinstance(refused, Problem)
    assert (refused.code, GATE in refused.detail) == ("GATE_CLOSED", True)
    assert not Intent.objects.exists()
    member = factories.user("mia", groups=(GATE,))
    assert not isinstance(factories.decide(asked, member, action, **fields), Problem)
    assert Intent.objects.exists()


def test_who_left_the_group_lately_is_no_member(asked: Escalation) -> None:
    """To have left still binds a person for days; it never grants anything."""
    left = factories.user("mia")
    who = factories.person(left, groups=frozenset({"operator", GATE}))
    assert getattr(factories.decide(asked, left, who=who), "code", None) == "GATE_CLOSED"


@pytest.mark.parametrize("action", [Action.ABORT, Action.REQUEST_INFO])
def test_everybody_may_stop_it_and_ask(asked: Escalation, action: Action) -> None:
    done = factories.decide(asked, factories.user("olivia"), action, justification="Not like this, please.")
    assert not isinstance(done, Problem)


def test_without_a_gate_nobody_is_asked_for_a_group() -> None:
    asked = factories.desk().escalate()
    assert not isinstance(factories.decide(asked, factories.user("olivia")), Problem)
