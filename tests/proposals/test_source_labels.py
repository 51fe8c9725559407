"""Labels of what agents receive: they stick, hold the agent to its rules, and end by time or a person."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from audit import events
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification import findings
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.contracts.source_labels import LabelSource
from runtime.core import clock
from runtime.execution.services import attempting, intent_transitions
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Outcome, Verdict
from runtime.flows.queries import risk_signals
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.maintenance.services import sweeper
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.registry.models import Agent
from runtime.registry.queries import agent_entries
from runtime.registry.queries import agent_labels as recorded_labels
from runtime.registry.services import agent_labels
from tests.support import factories, gate_cases, ledger_tampering

pytestmark = pytest.mark.django_db
RULE = {"id": "outward", "after": ["untrusted"]}
TRADER = "trader"
AUTONOMY = {"labels": {"points": {"untrusted": 7}, "most": 20}}


@pytest.fixture
def desk() -> factories.Desk:
    kind = gate_cases.kind(steps=[{"id": "order", "executor": "simulated"}], labels=["untrusted"])
    return factories.desk(kind=kind, manifest=gate_cases.manifest(label_rules=[RULE]))


class Hand:
    """The one port of time, moved by hand: on PostgreSQL the clock of the database cannot be moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def shift(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Hand:
    hand = Hand(clock.now())
    monkeypatch.setattr(clock, "now", lambda: hand.now)
    return hand


def labels_of() -> list[str]:
    recorded = recorded_labels.get_recorded(Agent.objects.get(agent_id=TRADER))
    assert recorded is not None
    return list(recorded.at(clock.now()))


def changes() -> list[dict[str, Any]]:
    return [row.payload for row in LedgerEntry.objects.filter(kind="agent:labels_changed").order_by("id")]


def carry_out(desk: factories.Desk) -> str:
    """A flow whose result is labelled; its dfid."""
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    attempting.attempt(Intent.objects.get(flow=flow.dfid).pk, owner="w")
    return str(flow.dfid)


def give(labels: tuple[str, ...] = ("untrusted",)) -> None:
    agent = Agent.objects.get(agent_id=TRADER)
    agent_labels.receive(agent=agent, labels=labels, because=LabelSource.MEMORY, source="notes")


def end(label: str, *, shown: str | None = None, actor: str = "user:1") -> Agent | Problem:
    recorded = recorded_labels.get_recorded(Agent.objects.get(agent_id=TRADER))
    assert recorded is not None
    return agent_labels.end(
        tenant="default",
        agent_id=TRADER,
        labels=[label],
        shown=recorded.digest if shown is None else shown,
        reason="The page was ours.",
        actor=actor,
    )


def test_a_result_labels_the_agent_and_the_next_effect_asks_a_person(desk: factories.Desk) -> None:
    dfid = carry_out(desk)
    (gained,) = changes()
    assert (gained["because"], gained["source"], gained["gained"]) == ("RESULT", dfid, ["untrusted"])
    assert labels_of() == ["untrusted"]
    # A new flow washes nothing.
    flow = desk.open()
    answer = desk.propose(flow)
    assert answer["verdict"] == "ESCALATE"
    assert [(reason["check"], reason["code"]) for reason in answer["reasons"]] == [("labels", "LABELLED")]
    replayed = flow_replay.replay(tenant="default", dfid=flow.dfid)
    assert isinstance(replayed, ReplayEqual), replayed
    assert findings.verify_all().findings == []
    # Who decides has seen what the label is about.
    decided = factories.decide(Escalation.objects.get(), factories.user("olivia", "operator"))
    assert not isinstance(decided, Problem)
    assert Verdict.objects.filter(proposal__flow=flow.dfid).latest("judged_at").decision == "ACCEPT"


def test_a_receipt_that_comes_late_is_labelled_as_any(desk: factories.Desk) -> None:
    dfid = carry_out(desk)
    intent = Intent.objects.get()
    with transaction.atomic():
        flow = locks.lock_one(dfid=intent.flow_id)
        assert flow is not None
        journal = Journal(flow=flow, actor="system", at=clock.now())
        journal.add(events.AttemptReportedLate(intent_id=str(intent.pk), number=1, result="SUCCEEDED"))
        intent_transitions.report_late_receipt(journal, intent, receipt=b'{"note":"from a page"}')
        journal.write()
    assert [(change["because"], change["source"]) for change in changes()] == [("RESULT", dfid)] * 2


def test_what_was_never_called_labels_nobody(desk: factories.Desk) -> None:
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    factories.change_manifest(TRADER, policy_kinds=[])
    done = attempting.attempt(Intent.objects.get().pk, owner="w")
    assert done.status is AttemptStatus.BLOCKED
    assert Outcome.objects.exists()
    assert changes() == []


def test_labelled_results_alone_lower_a_level_in_the_next_round(desk: factories.Desk) -> None:
    heavy = {"supervised_at": 20, "labels": {"points": {"untrusted": 20}, "most": 40}}
    factories.change_manifest(TRADER, label_rules=[], autonomy=heavy)
    carry_out(desk)
    assert sweeper.sweep().lowered == 1
    assert desk.again().autonomy == "SUPERVISED"
    assert sweeper.sweep().lowered == 0


def test_each_labelled_result_counts_for_the_risk_score(desk: factories.Desk) -> None:
    factories.change_manifest(TRADER, label_rules=[], autonomy=AUTONOMY)
    carry_out(desk)
    carry_out(desk)
    agent = desk.again()
    manifest = gate_cases.manifest(autonomy=AUTONOMY)
    assessed = risk_signals.assess(agent=agent, manifest=manifest, raised_at=None, at=clock.now())
    assert assessed.score.total == 14
    later = risk_signals.assess(agent=agent, manifest=manifest, raised_at=clock.now(), at=clock.now())
    assert later.score.total == 0


def test_time_ends_a_label_as_the_manifest_says(desk: factories.Desk, now: Hand) -> None:
    factories.change_manifest(TRADER, label_rules=[RULE], labels_end_after_s={"untrusted": 600})
    give()
    now.shift(599)
    assert desk.propose(desk.open())["verdict"] == "ESCALATE"
    now.shift(1)
    assert labels_of() == []
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"


def test_time_counts_from_when_a_label_was_received_last(desk: factories.Desk, now: Hand) -> None:
    factories.change_manifest(TRADER, labels_end_after_s={"untrusted": 60})
    give()
    give()
    assert len(changes()) == 1
    now.shift(59)
    give()
    assert len(changes()) == 2
    now.shift(59)
    assert labels_of() == ["untrusted"]
    now.shift(1)
    assert labels_of() == []


def test_the_same_again_is_not_written_again(desk: factories.Desk, now: Hand) -> None:
    give()
    now.shift(600)
    give()
    give(())
    assert len(changes()) == 1


def test_an_admin_ends_a_label_that_was_shown(desk: factories.Desk) -> None:
    give(("secret", "untrusted"))
    for shown, label in (("0" * 64, "untrusted"), (None, "unknown")):
        refused = end(label, shown=shown)
        assert isinstance(refused, Problem)
        assert refused.code == "LABELS_MOVED"
    assert isinstance(end("untrusted"), Agent)
    assert labels_of() == ["secret"]
    assert changes()[-1]["ended"] == ["untrusted"]
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    silent = agent_labels.end(
        tenant="default", agent_id=TRADER, labels=["secret"], shown="", reason=" ", actor="user:1"
    )
    nobody = agent_labels.end(
        tenant="default", agent_id="nobody", labels=["secret"], shown="", reason="x", actor="user:1"
    )
    assert [problem.code for problem in (silent, nobody) if isinstance(problem, Problem)] == [
        "REASON_MISSING",
        "NOT_FOUND",
    ]


def test_who_owns_the_agent_does_not_end_its_labels(desk: factories.Desk) -> None:
    owner, other = (factories.user(name, "admin") for name in ("ada", "bob"))
    Agent.objects.update(owner=owner.username)
    give()
    refused = end("untrusted", actor=f"user:{owner.pk}")
    assert isinstance(refused, Problem)
    assert refused.code == "SEPARATION_OF_DUTY"
    assert isinstance(end("untrusted", actor=f"user:{other.pk}"), Agent)


def test_labels_that_cannot_be_read_refuse_what_asks_for_them(desk: factories.Desk) -> None:
    give()
    ledger_tampering.execute(
        "UPDATE audit_ledgerentry SET body = %s WHERE kind = 'agent:labels_changed'", [b"{}"]
    )
    answer = desk.propose(desk.open())
    assert answer["verdict"] == "REJECT"
    assert answer["reasons"][0]["code"] == "KIND_UNSAFE"
    # Nothing that is gained hides it.
    give(("secret",))
    assert LedgerEntry.objects.filter(kind="agent:labels_changed").count() == 1
    # What it passes on says so.
    assert agent_labels.held_by(desk.again(), at=clock.now()) == ("unreadable",)
    assert agent_entries.list_newest(desk.again(), Kind.AGENT_LABELS_CHANGED) == []
    refused = agent_labels.end(
        tenant="default", agent_id=TRADER, labels=["untrusted"], shown="", reason="x", actor="user:1"
    )
    assert isinstance(refused, Problem)


def test_a_manifest_that_asks_for_no_labels_costs_no_look_at_them(desk: factories.Desk) -> None:
    factories.change_manifest(TRADER, label_rules=[])
    give()
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    assert b'"labels"' not in bytes(Verdict.objects.get(proposal__flow=flow.dfid).input)
