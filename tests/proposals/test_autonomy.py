"""An agent's level of autonomy: what lowers it, what it holds back, and how only a person raises it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from pytest_django.fixtures import Settings

from audit import actors
from audit.models import LedgerEntry
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.contracts.states import AutonomyLevel
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Outcome, Proposal
from runtime.flows.queries import due_intents
from runtime.flows.services import autonomy_checks
from runtime.maintenance.services import autonomy_rounds, sweeper
from runtime.registry.models import Agent
from runtime.registry.queries import autonomy_levels
from runtime.registry.services import agents, autonomy
from tests.support import factories, gate_cases, misbehaving_targets, risky_agent

pytestmark = pytest.mark.django_db
AUTONOMOUS, SUPERVISED, READ_ONLY = AutonomyLevel


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


@pytest.fixture
def desk(target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch) -> factories.Desk:
    factories.configure_target(base_url=target.base_url)
    return risky_agent.desk()


@pytest.fixture
def ada() -> User:
    return factories.user("ada", "admin")


@pytest.fixture(autouse=True)
def _bob() -> User:
    """Another admin: so nobody is alone."""
    return factories.user("bob", "admin")


def raise_to(desk: factories.Desk, who: User, level: AutonomyLevel, **fields: Any) -> Agent | Problem:
    recorded = autonomy_levels.get_recorded(desk.again())
    return autonomy.raise_level(
        **{
            "tenant": "default",
            "agent_id": "trader",
            "level": level,
            "shown": recorded.digest,
            "reason": "Its prompt was mended.",
            "actor": actors.user(who.pk),
            **fields,
        }
    )


def code(answer: object) -> str:
    assert isinstance(answer, Problem), answer
    return str(answer.code)


def test_rejections_lower_the_level_and_the_ledger_has_the_score(desk: factories.Desk) -> None:
    risky_agent.reject(desk)
    assert (risky_agent.level(desk), risky_agent.changes()) == (AUTONOMOUS, [])
    risky_agent.reject(desk)
    assert risky_agent.level(desk) is SUPERVISED
    risky_agent.reject(desk, 2)
    assert risky_agent.level(desk) is READ_ONLY
    first, second = risky_agent.changes()
    assert (first["from_level"], first["to_level"], first["score"]) == ("AUTONOMOUS", "SUPERVISED", 20)
    parts = dict(zip(first["signals"], zip(first["counts"], first["points"], strict=True), strict=True))
    assert parts["rejections"] == (2, 20)
    assert parts["variations"] == (1, 0)
    assert (first["supervised_at"], first["read_only_at"], first["counts_from"]) == (20, 40, None)
    assert first["window_from"] is not None
    assert (second["from_level"], second["to_level"], second["score"]) == ("SUPERVISED", "READ_ONLY", 40)
    row = Agent.objects.get()
    assert (row.autonomy_score, row.autonomy_by) == (40, "system")
    assert row.autonomy_reason == "Risk score 40 of 100: rejections 40"
    assert risky_agent.broken() == []


def test_at_the_lowest_level_nothing_more_is_counted(desk: factories.Desk) -> None:
    risky_agent.reject(desk, 6)
    assert len(risky_agent.changes()) == 2


def test_what_is_older_than_the_window_does_not_count(desk: factories.Desk) -> None:
    risky_agent.reject(desk)
    Proposal.objects.update(received_at=F("received_at") - timedelta(hours=1, seconds=1))
    risky_agent.reject(desk)
    assert risky_agent.level(desk) is AUTONOMOUS


def test_kinds_that_are_not_granted_are_probing(desk: factories.Desk) -> None:
    factories.change_manifest("trader", autonomy={**risky_agent.RULE, "supervised_at": 30})
    factories.policy_kind(gate_cases.kind(kind="WIRE_MONEY"))
    assert desk.propose(desk.open(), policy_kind="WIRE_MONEY")["verdict"] == "REJECT"
    assert risky_agent.level(desk) is AUTONOMOUS
    assert desk.propose(desk.open(), policy_kind="NO_SUCH_KIND")["verdict"] == "REJECT"
    assert risky_agent.level(desk) is READ_ONLY
    (change,) = risky_agent.changes()
    assert dict(zip(change["signals"], change["counts"], strict=True))["ungranted_kinds"] == 2


def test_a_supervised_agent_asks_a_person_whose_override_runs(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    factories.policy_kind(gate_cases.kind(version="1.3.0", undo_s=0))
    risky_agent.reject(desk, 2)
    answer = desk.propose(desk.open())
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("ESCALATE", "AGENT_SUPERVISED")
    escalation = Escalation.objects.get()
    done = factories.decide(escalation, factories.user())
    assert isinstance(done, deciding.DecisionResult), done
    held = attempting.attempt(Intent.objects.get().pk, owner="worker")
    assert held.status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1
    assert risky_agent.broken() == []


def test_a_read_only_agent_is_rejected_with_the_reason(desk: factories.Desk) -> None:
    risky_agent.reject(desk, 4)
    answer = desk.propose(desk.open())
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("REJECT", "AGENT_READ_ONLY")


def test_what_was_accepted_before_the_fall_is_not_called(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    intent = Intent.objects.get()
    risky_agent.reject(desk, 4)
    held = attempting.attempt(intent.pk, owner="worker")
    assert (held.status, held.detail) == (AttemptStatus.HELD, "AGENT_READ_ONLY")
    assert due_intents.list_due(at=clock.now(), limit=10) == []
    assert target.seen == []
    # As of a suspended agent, it waits for its window to end.
    Intent.objects.update(valid_until=clock.now())
    assert attempting.attempt(intent.pk, owner="worker").status is AttemptStatus.EXPIRED
    assert target.seen == []


def test_a_row_raised_by_hand_is_not_obeyed_and_is_a_finding(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    intent = Intent.objects.get()
    risky_agent.reject(desk, 4)
    never = {
        "autonomy": AUTONOMOUS,
        "autonomy_score": 0,
        "autonomy_at": None,
        "autonomy_by": "",
        "autonomy_reason": "",
    }
    Agent.objects.update(**never)
    broken = risky_agent.broken()
    assert any("agent.autonomy " in detail for detail in broken), broken
    answer = desk.propose(desk.open())
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("REJECT", "AGENT_READ_ONLY")
    told = LedgerEntry.objects.filter(kind="row:mismatched").latest("id").payload
    assert (told["row"], told["row_id"]) == ("agent.autonomy", "trader")
    held = attempting.attempt(intent.pk, owner="worker")
    assert (held.status, held.detail) == (AttemptStatus.HELD, "AGENT_READ_ONLY")
    assert target.seen == []
    # The claim has put the row back as it was recorded.
    assert risky_agent.level(desk) is READ_ONLY
    assert Agent.objects.get().autonomy_score == 40


def test_an_entry_that_cannot_be_read_lets_nothing_through(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = autonomy_levels.read
    monkeypatch.setattr(autonomy_levels, "read", lambda stored: read(b"{"))
    answer = desk.propose(desk.open())
    assert answer["reasons"][0]["code"] == "AGENT_READ_ONLY"


def test_an_entry_that_cannot_be_read_is_told_once_however_often_a_call_is_tried(
    desk: factories.Desk, target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    intent = Intent.objects.get()
    read = autonomy_levels.read
    monkeypatch.setattr(autonomy_levels, "read", lambda stored: read(b"{"))
    tries = [attempting.attempt(intent.pk, owner="worker").status for _ in range(3)]
    assert (tries, target.seen) == ([AttemptStatus.HELD] * 3, [])
    assert LedgerEntry.objects.filter(kind="row:mismatched").count() == 1


def test_a_row_lowered_by_hand_holds_calls_only_until_the_agent_proposes_again(desk: factories.Desk) -> None:
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    intent = Intent.objects.get()
    Agent.objects.update(autonomy=READ_ONLY, autonomy_at=clock.now(), autonomy_by="user:1")
    assert due_intents.list_due(at=clock.now(), limit=5) == []
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    assert risky_agent.level(desk) is AUTONOMOUS
    assert intent.pk in [due.intent_id for due in due_intents.list_due(at=clock.now(), limit=5)]


def test_a_person_raises_it_and_what_was_before_does_not_count_again(desk: factories.Desk, ada: User) -> None:
    risky_agent.reject(desk, 4)
    raised = raise_to(desk, ada, SUPERVISED)
    assert isinstance(raised, Agent), raised
    assert risky_agent.level(desk) is SUPERVISED
    change = risky_agent.changes()[-1]
    assert (change["to_level"], change["reason"], change["solo"]) == (
        "SUPERVISED",
        "Its prompt was mended.",
        False,
    )
    raised = raise_to(desk, ada, AUTONOMOUS)
    assert isinstance(raised, Agent), raised
    risky_agent.reject(desk)
    assert risky_agent.level(desk) is AUTONOMOUS
    risky_agent.reject(desk)
    assert risky_agent.level(desk) is SUPERVISED
    assert risky_agent.changes()[-1]["counts_from"] > change["counts_from"]
    assert risky_agent.broken() == []


def test_only_the_last_change_that_was_shown_is_raised_from(desk: factories.Desk, ada: User) -> None:
    risky_agent.reject(desk, 2)
    shown = autonomy_levels.get_recorded(desk.again()).digest
    risky_agent.reject(desk, 2)
    assert code(raise_to(desk, ada, AUTONOMOUS, shown=shown)) == "AUTONOMY_MOVED"
    assert code(raise_to(desk, ada, AUTONOMOUS, shown="")) == "AUTONOMY_MOVED"
    assert code(raise_to(desk, ada, AUTONOMOUS, reason=" ")) == "REASON_MISSING"
    assert code(raise_to(desk, ada, READ_ONLY)) == "AUTONOMY_NOT_RAISED"
    assert code(raise_to(desk, ada, AUTONOMOUS, agent_id="nobody")) == "NOT_FOUND"
    Agent.objects.update(status="RETIRED")
    assert code(raise_to(desk, ada, AUTONOMOUS)) == "AUTONOMY_NOT_RAISED"
    assert risky_agent.level(desk) is READ_ONLY


def test_nobody_raises_an_agent_that_they_own(desk: factories.Desk, ada: User) -> None:
    risky_agent.reject(desk, 2)
    owner = factories.user("otto", "admin", groups=("trading-desk",))
    assert code(raise_to(desk, owner, AUTONOMOUS)) == "SEPARATION_OF_DUTY"
    Agent.objects.update(owner="ada")
    assert code(raise_to(desk, ada, AUTONOMOUS)) == "SEPARATION_OF_DUTY"
    assert risky_agent.level(desk) is SUPERVISED


def test_the_only_admin_may_and_it_is_recorded(desk: factories.Desk) -> None:
    User.objects.filter(username="bob").delete()
    alone = factories.user("carl", "admin", groups=("trading-desk",))
    risky_agent.reject(desk, 2)
    assert isinstance(raise_to(desk, alone, AUTONOMOUS), Agent)
    assert risky_agent.changes()[-1]["solo"] is True


def test_the_sweeper_counts_deviations_of_outcomes(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    factories.policy_kind(
        gate_cases.kind(
            version="1.3.0",
            steps=[
                {
                    "id": "order",
                    "target": "broker",
                    "request": {"path": "/orders"},
                    "receipt_schema": {"type": "object", "required": ["fills"]},
                    "on_misfit": {"severity": "LOW"},
                }
            ],
        )
    )
    factories.change_manifest("trader", autonomy={**risky_agent.RULE, "supervised_at": 15})
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    assert sweeper.sweep().lowered == 0
    attempting.attempt(Intent.objects.get().pk, owner="worker")
    outcome = Outcome.objects.get()
    assert outcome.deviated_at == outcome.recorded_at
    assert sweeper.sweep().lowered == 1
    (change,) = risky_agent.changes()
    assert dict(zip(change["signals"], change["counts"], strict=True))["deviations"] == 1
    assert sweeper.sweep().lowered == 0
    assert risky_agent.broken() == []


def test_the_sweeper_counts_open_escalations(desk: factories.Desk) -> None:
    heavy = {**risky_agent.RULE, "open_escalations": {"points": 10, "most": 100}}
    factories.change_manifest("trader", autonomy=heavy)
    desk.escalate()
    assert sweeper.sweep().lowered == 0
    desk.escalate()
    assert sweeper.sweep().lowered == 1
    assert risky_agent.level(desk) is SUPERVISED


def test_a_retired_agent_is_left_alone(desk: factories.Desk) -> None:
    risky_agent.reject(desk, 1)
    moved = agents.set_status(
        tenant="default",
        agent_id="trader",
        status=agents.S.RETIRED,
        reason="done",
        actor="user:1",
    )
    assert isinstance(moved, Agent)
    assert not autonomy_rounds.lower_one(desk.agent.pk)


def test_an_agent_whose_round_failed_is_counted_in_a_later_one(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy = {**risky_agent.RULE, "open_escalations": {"points": 10, "most": 100}}
    factories.change_manifest("trader", autonomy=heavy)
    desk.escalate()
    desk.escalate()
    with monkeypatch.context() as patched:
        patched.setattr(autonomy_checks, "lower_if_due", lambda **_: 1 / 0)
        assert sweeper.sweep().failed == 1
    # The round of the second is long past what happened.
    for later in (timedelta(minutes=10), timedelta(minutes=20)):
        assert autonomy_rounds.list_due(at=clock.now() + later) == [desk.agent.pk]
    assert sweeper.sweep().lowered == 1


def test_an_agent_that_a_restored_backup_does_not_have_is_waited_for_by_nobody() -> None:
    autonomy_rounds._rounds.waiting.add(2**40)
    assert autonomy_rounds.list_due(at=clock.now()) == []
