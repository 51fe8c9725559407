"""The escalation of a silent agent: opened once, decided by a person, over when the agent speaks."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from audit import canonical
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.contracts import Action
from escalations.evidence_contracts import SilenceEvidence
from escalations.models import Decision, Escalation, Evidence
from escalations.services import (
    agent_silence,
    claiming,
    deadlines,
    deciding,
    drift_scan,
    dry_running,
    evidence_revision,
)
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.flows.services import flows
from runtime.kernel import salts
from runtime.maintenance.services import sweeper
from runtime.registry.services import agents
from runtime.stops.services import stops
from tests.support import decision_rows, factories, fallen_silent, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(db: None) -> factories.Desk:
    return fallen_silent.desk()


@pytest.fixture
def olivia(db: None) -> User:
    return factories.user("olivia")


def test_a_silent_agent_goes_to_a_person(desk: factories.Desk) -> None:
    escalation = fallen_silent.called(desk)
    assert (escalation.family, escalation.reason, escalation.state) == ("AGENT", "AGENT_SILENT", "OPEN")
    assert (escalation.proposal, escalation.intent, escalation.deadline_at) == (None, None, None)
    assert (escalation.proposed_value, escalation.limit) == ("1200", "600")
    assert escalation.effect == "monitor has not called for 20 min; it may be silent for 10 min"
    assert (escalation.flow.state, escalation.flow.reason) == ("ESCALATED", "AGENT_SILENT")
    assert canonical.decode(bytes(escalation.flow.trigger))["type"] == "silence"
    assert decision_rows.recorded(escalation) == [
        ("flow:opened", "system"),
        ("flow:moved", "system"),
        ("escalation:opened", "system"),
        ("record:emitted", "system"),
    ]
    assert isinstance(verify_database(), Whole)


def test_no_token_is_spent(desk: factories.Desk) -> None:
    before = desk.again()
    fallen_silent.called(desk)
    after = desk.again()
    assert (after.escalation_millitokens, after.bucket_at) == (
        before.escalation_millitokens,
        before.bucket_at,
    )


def test_a_second_round_opens_nothing_more(desk: factories.Desk) -> None:
    fallen_silent.called(desk)
    assert sweeper.sweep().silences == 0
    assert Escalation.objects.count() == 1


def test_the_database_holds_one_open_escalation_of_an_agent(desk: factories.Desk) -> None:
    row = fallen_silent.called(desk)
    other = desk.open().row()
    row.pk, row.flow, row._state.adding = None, other, True
    row.escalation_id = other.pk
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save(force_insert=True)


def test_the_evidence_says_who_is_silent_and_what_stands_open(desk: factories.Desk) -> None:
    open_flow = desk.open()
    accepted = desk.open()
    assert desk.propose(accepted)["verdict"] == "ACCEPT"
    shown = factories.read_shown(fallen_silent.called(desk))
    assert isinstance(shown, SilenceEvidence)
    assert shown.agent.agent_id == "monitor"
    assert shown.agent.owner == "trading-desk"
    assert shown.agent.mission == "Trade."
    assert shown.silence.awake_s == 1200
    assert shown.silence.silent_after_s == 600
    assert shown.silence.hours is None
    assert shown.open_flows.total == 2
    assert {item.dfid for item in shown.open_flows.newest} == {
        str(open_flow.dfid),
        str(accepted.dfid),
    }
    (live,) = shown.live_intents.newest
    assert (live.dfid, live.state, shown.live_intents.total) == (
        str(accepted.dfid),
        "PENDING",
        1,
    )
    (verdict,) = shown.last_verdicts
    assert (verdict.decision, verdict.policy_kind) == ("ACCEPT", "ADJUST_POSITION")


def test_the_impact_is_high_while_a_call_of_it_is_under_way(desk: factories.Desk, olivia: User) -> None:
    desk.propose(desk.open())
    escalation = fallen_silent.called(desk)
    assert escalation.impact == "HIGH_IMPACT"
    stale = factories.person(olivia, confirmed_at_ms=None)
    assert decision_rows.refused(factories.decide(escalation, olivia, Action.ACKNOWLEDGE, who=stale)) == (
        401,
        "STEP_UP",
    )
    # To stop is the cheapest: no fresh password, no reason.
    answer = factories.decide(escalation, olivia, Action.STOP_AGENT, who=stale, justification="")
    assert isinstance(answer, deciding.DecisionResult)


def test_an_agent_that_never_called_is_missed_from_its_activation(desk: factories.Desk) -> None:
    fallen_silent.see(desk, at=None)
    assert sweeper.sweep().silences == 1
    assert "has never called" in Escalation.objects.get().effect


def test_acknowledge_closes_and_counts_anew(desk: factories.Desk, olivia: User) -> None:
    escalation = fallen_silent.called(desk)
    answer = factories.decide(escalation, olivia, Action.ACKNOWLEDGE)
    assert isinstance(answer, deciding.DecisionResult)
    escalation.refresh_from_db()
    assert (escalation.state, escalation.resolution) == ("RESOLVED", "ACKNOWLEDGE")
    assert Flow.objects.get(pk=escalation.flow_id).state == "CLOSED"
    decision = Decision.objects.get()
    statement = canonical.decode(bytes(decision.statement))
    assert (statement["action"], statement["proposal_id"], statement["valid_until"]) == (
        "ACKNOWLEDGE",
        None,
        None,
    )
    assert desk.again().stopped_at is None
    assert sweeper.sweep().silences == 0
    assert isinstance(verify_database(), Whole)


def test_after_an_acknowledged_silence_the_next_is_asked_again(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.decide(fallen_silent.called(desk), olivia, Action.ACKNOWLEDGE)
    later = clock.now() + timedelta(seconds=fallen_silent.SILENT_AFTER_S + 120)
    fallen_silent.listen(at=later)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert sweeper.sweep().silences == 1
    assert Escalation.objects.filter(state="OPEN").count() == 1


def test_stop_agent_has_the_effect_of_the_stop_button(desk: factories.Desk, olivia: User) -> None:
    escalation = fallen_silent.called(desk)
    answer = factories.decide(escalation, olivia, Action.STOP_AGENT, justification="It hangs again.")
    assert isinstance(answer, deciding.DecisionResult)
    agent = desk.again()
    assert agent.stopped_at is not None
    assert (agent.stopped_by, agent.stop_reason) == (f"user:{olivia.pk}", "It hangs again.")
    assert agent.status == AgentStatus.ACTIVE
    entry = LedgerEntry.objects.filter(stream="agent:monitor").order_by("seq").last()
    assert entry is not None
    assert (entry.kind, entry.actor) == ("agent:stopped", f"user:{olivia.pk}")
    assert sweeper.sweep().silences == 0
    stops.resume_agent(tenant="default", agent_id="monitor", actor="user:1")
    assert sweeper.sweep().silences == 0  # what was silent while it was stopped is not missed at once


def test_when_the_agent_speaks_the_escalation_is_withdrawn(desk: factories.Desk) -> None:
    escalation = fallen_silent.called(desk)
    assert salts.find(bytes(Evidence.objects.get().body)) is not None
    fallen_silent.see(desk, at=clock.now())
    assert sweeper.sweep().silences == 1
    escalation.refresh_from_db()
    assert (escalation.state, escalation.resolution) == ("WITHDRAWN", "WITHDRAWN")
    flow = Flow.objects.get(pk=escalation.flow_id)
    assert (flow.state, flow.reason) == ("CLOSED", "SILENCE_OVER")
    assert [kind for kind, _ in decision_rows.recorded(escalation)][-3:] == [
        "escalation:withdrawn",
        "flow:moved",
        "record:emitted",
    ]


def test_a_decision_after_the_agent_spoke_is_refused_and_withdraws(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = fallen_silent.called(desk)
    fallen_silent.see(desk, at=clock.now())
    answer = factories.decide(escalation, olivia, Action.STOP_AGENT)
    assert decision_rows.refused(answer) == (409, "SILENCE_OVER")
    escalation.refresh_from_db()
    assert escalation.state == "WITHDRAWN"
    assert desk.again().stopped_at is None
    assert decision_rows.refused(factories.decide(escalation, olivia, Action.STOP_AGENT)) == (
        409,
        "ALREADY_DECIDED",
    )


@pytest.mark.parametrize("how", ["stopped", "suspended", "retired"])
def test_whom_nobody_watches_now_needs_no_decision(desk: factories.Desk, how: str) -> None:
    escalation = fallen_silent.called(desk)
    if how == "stopped":
        stops.stop_agent(tenant="default", agent_id="monitor", actor="user:1", reason="A look.")
    else:
        agents.set_status(
            tenant="default", agent_id="monitor", status=AgentStatus(how.upper()), reason="", actor="user:1"
        )
    assert sweeper.sweep().silences == 1
    escalation.refresh_from_db()
    assert escalation.state == "WITHDRAWN"


def test_time_and_drift_resolve_nothing(
    desk: factories.Desk, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = fallen_silent.called(desk)
    later = clock.now() + timedelta(days=365)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert (deadlines.sweep(), drift_scan.revise_open()) == (0, 0)
    assert isinstance(factories.decide(escalation, olivia, Action.ACKNOWLEDGE), deciding.DecisionResult)


def test_the_owner_may_stop_it_but_not_acknowledge(desk: factories.Desk) -> None:
    owner = factories.user("oscar", groups=("trading-desk",))
    escalation = fallen_silent.called(desk)
    answer = factories.decide(escalation, owner, Action.ACKNOWLEDGE)
    assert decision_rows.refused(answer) == (403, "SEPARATION_OF_DUTY")
    assert isinstance(factories.decide(escalation, owner, Action.STOP_AGENT), deciding.DecisionResult)


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.MODIFY, Action.ABORT, Action.RESUME])
def test_the_actions_of_the_other_families_are_refused(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    answer = factories.decide(fallen_silent.called(desk), olivia, action, params=gate_cases.PARAMS)
    assert decision_rows.refused(answer) == (400, "ACTION_UNKNOWN")


def test_an_acknowledgement_needs_a_reason(desk: factories.Desk, olivia: User) -> None:
    answer = factories.decide(fallen_silent.called(desk), olivia, Action.ACKNOWLEDGE, justification="")
    assert decision_rows.refused(answer) == (400, "JUSTIFICATION_MISSING")


def test_there_is_nothing_to_ask_the_gate(desk: factories.Desk, olivia: User) -> None:
    escalation = fallen_silent.called(desk)
    answer = dry_running.dry_run(
        tenant="default",
        escalation_id=escalation.pk,
        person=factories.person(olivia),
        request=factories.decision_request(escalation, Action.MODIFY),
    )
    assert decision_rows.refused(answer) == (400, "ACTION_UNKNOWN")
    with pytest.raises(LookupError):
        evidence_revision.proposal_of(escalation)


def test_it_can_be_claimed_and_given_back(desk: factories.Desk, olivia: User) -> None:
    escalation = fallen_silent.called(desk)
    assert claiming.claim(tenant="default", escalation_id=escalation.pk, user=olivia) is None
    assert claiming.release(tenant="default", escalation_id=escalation.pk, user=olivia) is None


def test_an_agent_that_cancels_the_flow_has_spoken(desk: factories.Desk) -> None:
    escalation = fallen_silent.called(desk)
    flows.cancel(agent=desk.again(), dfid=escalation.flow_id, reason="I am here.")
    escalation.refresh_from_db()
    assert escalation.state == "WITHDRAWN"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (5400, "1 h 30 min"), (180_000, "2 d 2 h")],
)
def test_a_length_of_time_is_told_in_two_units(seconds: int, words: str) -> None:
    assert agent_silence.spoken(seconds) == words


def test_another_tenant_neither_sees_nor_decides(desk: factories.Desk, olivia: User) -> None:
    escalation = fallen_silent.called(desk)
    named: dict[str, Any] = {"escalation_id": escalation.pk, "user": olivia}
    answer = deciding.decide(
        tenant="other",
        person=factories.person(olivia),
        request=factories.decision_request(escalation, Action.STOP_AGENT),
        **named,
    )
    assert decision_rows.refused(answer) == (404, "ESCALATION_NOT_FOUND")
