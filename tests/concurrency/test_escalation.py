"""Decisions under real threads: one escalation, one decision, one winner."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from audit import canonical
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deadlines, deciding
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.models import Intent, Verdict
from runtime.flows.services import flows
from runtime.registry.services import agents
from tests.support import factories, gate_cases, racing


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    return factories.desk()


def result(answer: Any) -> str:
    """A decision as its action, a refusal as its code, a bug as its words."""
    if isinstance(answer, deciding.DecisionResult):
        return answer.action.value
    return answer.code if isinstance(answer, Problem) else repr(answer)


@pytest.mark.parametrize("repeat", range(3))
def test_override_against_abort_at_once_has_one_winner(desk: factories.Desk, repeat: int) -> None:
    escalation = desk.escalate()
    people = [factories.user("olivia"), factories.user("mara")]
    requests = [factories.decision_request(escalation, action) for action in (Action.OVERRIDE, Action.ABORT)]
    answers = racing.all_at_once(
        [
            partial(factories.send, escalation, who, request)
            for who, request in zip(people, requests, strict=True)
        ]
    )
    refusals = [answer for answer in answers if isinstance(answer, Problem)]
    assert [(one.status, one.code) for one in refusals] == [(409, "ALREADY_DECIDED")]
    row = Decision.objects.get()
    assert row.action in {result(answer) for answer in answers}
    assert Intent.objects.count() == (row.action == Action.OVERRIDE)


def test_one_form_sent_ten_times_at_once_is_one_decision(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    olivia = factories.user("olivia")
    request = factories.decision_request(escalation)
    answers = racing.all_at_once([partial(factories.send, escalation, olivia, request)] * 10)
    assert Counter(map(result, answers)) == {"OVERRIDE": 1, "ALREADY_DECIDED": 9}
    assert Intent.objects.count() == Decision.objects.count() == 1


def test_a_decision_and_the_sweeper_at_the_deadline_have_one_winner(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    assert escalation.deadline_at is not None
    late = escalation.deadline_at + timedelta(milliseconds=1)
    olivia, request = factories.user("olivia"), factories.decision_request(escalation)
    monkeypatch.setattr(clock, "now", lambda: late)
    works: list[Any] = [partial(factories.send, escalation, olivia, request), deadlines.sweep]
    decided, expired = racing.all_at_once(works)
    assert result(decided) == "ALREADY_DECIDED"
    assert expired in {0, 1}
    assert Escalation.objects.get().state == "EXPIRED"
    assert not Decision.objects.exists()


def test_an_agent_that_withdraws_and_a_person_who_decides_have_one_winner(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    olivia, request = factories.user("olivia"), factories.decision_request(escalation, Action.ABORT)
    works: list[Any] = [
        partial(factories.send, escalation, olivia, request),
        partial(flows.cancel, agent=desk.again(), dfid=escalation.flow_id, reason=""),
    ]
    decided, cancelled = racing.all_at_once(works)
    row = Escalation.objects.select_related("flow").get()
    assert row.flow.state == "ABORTED"
    if row.state == "RESOLVED":
        assert (result(decided), result(cancelled)) == ("ABORT", "FLOW_NOT_OPEN")
    else:
        assert (row.state, result(decided)) == ("WITHDRAWN", "ALREADY_DECIDED")


def activate(desk: factories.Desk) -> None:
    """Another manifest, as a pack puts it in force: under the agent's lock."""
    with transaction.atomic():
        agent = agents.lock_by_pk(pk=desk.agent.pk)
        factories.activate(agent, gate_cases.manifest(version="1.5.0", limits={"max_notional_cents": 1}))


@pytest.mark.parametrize("repeat", range(3))
def test_a_manifest_changed_beside_an_override_is_under_the_verdict_or_refuses_it(
    desk: factories.Desk, repeat: int
) -> None:
    escalation = desk.escalate()
    shown = escalation.evidence_hash
    olivia, request = factories.user("olivia"), factories.decision_request(escalation)
    works: list[Any] = [partial(factories.send, escalation, olivia, request), partial(activate, desk)]
    decided, activated = racing.all_at_once(works)
    assert activated is None
    if result(decided) == "OVERRIDE":
        row = Verdict.objects.select_related("bundle").get(proposal__author=f"user:{olivia.pk}")
        in_force = canonical.decode(bytes(row.bundle.body))["manifest"]["version"]
        assert (in_force, Decision.objects.get().evidence_hash) == ("1.4.0", shown)
    else:
        assert result(decided) == "EVIDENCE_CHANGED"
        assert Escalation.objects.get().revision == 2
