"""Intake: one transaction from a proposal to its answer, the same answer for the same key."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from audit import canonical, ledger
from audit.models import LedgerEntry, Payload
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.core import clock, ports, transactions
from runtime.core.models import Answer
from runtime.flows.models import Feedback, Intent, Proposal, Verdict
from runtime.proposals.services import judging
from runtime.registry.models import Agent, Bundle, Key, Session
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db

REJECTED: dict[str, Any] = {"params": {"symbol": "AAPL"}}


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


def everything() -> dict[str, int]:
    """How many rows there are of all that intake writes."""
    models = (Proposal, Verdict, Bundle, Intent, Escalation, Answer, Feedback, LedgerEntry, Payload)
    return {model.__name__: model._default_manager.count() for model in models}


def refused(answer: Any) -> Problem:
    """The answer as the Problem it is."""
    assert isinstance(answer, Problem), answer
    return answer


def heard(flow: factories.Opened) -> list[str]:
    """The feedback of a flow, in order."""
    return list(
        Feedback.objects.filter(flow_id=flow.dfid).order_by("seq").values_list("event_type", flat=True)
    )


# accepted


def test_an_accepted_proposal_leaves_an_intent_and_rings_after_the_commit(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    rung: list[Any] = []
    monkeypatch.setattr(ports, "ring", rung.append)
    flow = desk.open()
    with django_capture_on_commit_callbacks(execute=True):
        answer = desk.propose(flow)
        assert rung == []
    intent = Intent.objects.get()
    assert rung == [[intent.pk]]
    assert (answer["verdict"], answer["state"], answer["intent_id"]) == (
        "ACCEPT",
        "ACCEPTED",
        str(intent.intent_id),
    )
    assert answer["reasons"] == []
    assert answer["attempts_left"] == 3
    (step,) = canonical.decode(bytes(intent.requests))["steps"]
    assert step["path"] == "/orders/AAPL"
    assert intent.valid_until == intent.proposal.valid_until
    assert flow.entries()[-5:] == [
        "proposal:submitted",
        "verdict:given",
        "flow:moved",
        "intent:created",
        "record:emitted",
    ]


def test_a_kind_without_steps_closes_its_flow_at_once() -> None:
    desk = factories.desk(kind=gate_cases.kind(steps=[]))
    flow = desk.open()
    assert desk.propose(flow)["state"] == "CLOSED"
    assert not Intent.objects.exists()
    assert flow.row().ended_at is not None
    assert heard(flow) == ["VALIDATION_FEEDBACK", "FLOW_CLOSED"]


def test_the_window_counts_from_the_servers_clock(desk: factories.Desk) -> None:
    flow = desk.open()
    desk.propose(flow, execution_constraints={"validity_window_sec": 0.25})
    row = Proposal.objects.get()
    assert row.valid_until - row.received_at == timedelta(milliseconds=250)


# rejected


def test_a_reject_spends_an_attempt_and_the_third_aborts_the_flow(desk: factories.Desk) -> None:
    flow = desk.open()
    answers = [desk.propose(flow, **REJECTED) for _ in range(3)]
    assert [(one["attempts_left"], one["state"]) for one in answers] == [
        (2, "ACTIVE"),
        (1, "ACTIVE"),
        (0, "ABORTED"),
    ]
    assert answers[2]["reasons"][-1]["code"] == "REASONING_EXHAUSTION"
    assert (flow.row().state, flow.row().reason) == ("ABORTED", "REASONING_EXHAUSTION")
    assert heard(flow)[-1] == "FLOW_ABORTED"
    assert refused(desk.submit(flow)).code == "FLOW_NOT_OPEN"
    assert desk.again().status == "ACTIVE"


@pytest.mark.parametrize("context_ref", [None, "f" * 64])
def test_a_proposal_without_context_costs_an_attempt_and_says_what_to_do(
    desk: factories.Desk, context_ref: str | None
) -> None:
    (reason,) = desk.propose(desk.open(), context_ref=context_ref)["reasons"]
    assert reason["code"] == "CONTEXT_UNKNOWN"
    assert "Ask for a context first" in reason["message"]


def test_a_context_of_another_flow_is_unknown(desk: factories.Desk) -> None:
    # One fact has moved in between, so the second flow was never given the first one's context.
    first = desk.open()
    factories.write("price.AAPL", 18_900)
    second = desk.open()
    assert desk.propose(second, context_ref=first.context_ref)["reasons"][0]["code"] == "CONTEXT_UNKNOWN"


def test_a_fact_that_moved_after_the_context_makes_it_stale(desk: factories.Desk) -> None:
    flow = desk.open()
    factories.write("price.AAPL", 25_000)
    assert desk.propose(flow)["reasons"][0]["code"] == "STALE_CONTEXT"
    assert desk.propose(desk.look(flow.dfid))["verdict"] == "ACCEPT"


@pytest.mark.parametrize("status", ["PASSIVE", "LOCKED", "SUSPENDED", "RETIRED"])
def test_an_agent_that_is_barred_is_refused_and_the_refusal_is_stored(
    desk: factories.Desk, status: str
) -> None:
    flow = desk.open()
    Agent.objects.update(status=status)
    assert desk.propose(flow)["reasons"][0]["code"] == f"AGENT_{status}"
    assert Verdict.objects.get().decision == "REJECT"


def test_a_key_revoked_in_mid_flight_is_unauthorized(desk: factories.Desk) -> None:
    flow = desk.open()
    Key.objects.update(revoked_at=clock.now())
    assert desk.propose(flow)["reasons"][0]["code"] == "UNAUTHORIZED"


def test_a_session_that_ended_in_mid_flight_is_unauthorized(desk: factories.Desk) -> None:
    flow = desk.open()
    Session.objects.update(expires_at=clock.now())
    assert desk.propose(flow)["reasons"][0]["code"] == "UNAUTHORIZED"


def test_a_rate_limit_counts_the_agents_own_proposals() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(proposals_per_minute=2, max_intent_retries=9))
    flow = desk.open()
    codes = [desk.propose(flow, **REJECTED)["reasons"] for _ in range(2)]
    assert all(one["code"] == "INVALID_SCHEMA" for reasons in codes for one in reasons)
    assert [one["code"] for one in desk.propose(flow)["reasons"]] == ["RATE_LIMITED"]


def test_rules_read_the_agents_history() -> None:
    rule = {"id": "R_FIRST", "require": "history.accepted_1h < 1 && history.proposals_1h < 3"}
    desk = factories.desk(kind=gate_cases.kind(rules=[rule], steps=[]))
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    assert [one["code"] for one in desk.propose(desk.open())["reasons"]] == ["R_FIRST"]


# escalated


def test_an_escalation_spends_a_token_and_freezes_its_evidence(desk: factories.Desk) -> None:
    flow = desk.open()
    answer = desk.propose(flow, params=factories.OVER_LIMIT)
    row = Escalation.objects.get()
    assert (answer["verdict"], answer["state"]) == ("ESCALATE", "ESCALATED")
    assert (answer["escalation_id"], answer["evidence_hash"]) == (str(row.pk), row.evidence_hash)
    assert answer["reasons"][0]["proposed_value"] == 150_000
    assert answer["reasons"][0]["limit"] == 100_000
    assert "intent_id" not in answer
    assert desk.again().escalation_millitokens == 2_000
    assert flow.entries()[-4:] == ["flow:moved", "escalation:opened", "budget:spent", "record:emitted"]
    asked = Feedback.objects.get(event_type="ESCALATION_REQUIRED")
    assert canonical.decode(bytes(asked.body))["details"] == {"proposed_value": 150_000, "limit": 100_000}


def test_the_token_after_the_last_makes_the_agent_passive_and_aborts_its_own_flow_only() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=1))
    granted = desk.escalate()
    flow = desk.open()
    answer = desk.propose(flow, params=factories.OVER_LIMIT)
    assert (answer["verdict"], answer["state"]) == ("REJECT", "ABORTED")
    assert answer["reasons"][0]["code"] == "ESCALATION_BUDGET_EXHAUSTED"
    agent = desk.again()
    assert (agent.status, agent.status_reason) == ("PASSIVE", "ESCALATION_BUDGET_EXHAUSTED")
    assert Escalation.objects.get().state == "OPEN"
    assert granted.flow.state == "ESCALATED"
    stream = LedgerEntry.objects.filter(stream="agent:trader").order_by("seq")
    assert stream.values_list("kind", flat=True).last() == "agent:status_changed"
    reasons = desk.propose(desk.open())["reasons"]
    assert [one["code"] for one in reasons] == ["AGENT_PASSIVE"]


def test_an_agent_that_is_already_passive_is_demoted_once() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=0))
    first, second = desk.open(), desk.open()
    assert desk.propose(first, params=factories.OVER_LIMIT)["state"] == "ABORTED"
    assert desk.propose(second, params=factories.OVER_LIMIT)["reasons"][0]["code"] == "AGENT_PASSIVE"
    assert LedgerEntry.objects.filter(kind="agent:status_changed").count() == 1


def test_what_time_has_filled_is_there_to_be_spent(desk: factories.Desk) -> None:
    desk.escalate()
    spent_at = desk.again().bucket_at
    assert spent_at is not None
    Agent.objects.update(bucket_at=spent_at - timedelta(hours=1))
    desk.escalate()
    assert desk.again().escalation_millitokens == 2_000


def test_a_clock_set_back_does_not_fill_the_bucket_twice(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.escalate()
    spent_at = desk.again().bucket_at
    assert spent_at is not None
    flow = desk.open()
    # The flow's own clock never runs back, so the flow is made older than the clock set back.
    type(flow.row()).objects.update(updated_at=spent_at - timedelta(hours=1))
    Session.objects.update(expires_at=spent_at + timedelta(hours=1))
    monkeypatch.setattr(clock, "now", lambda: spent_at - timedelta(minutes=30))
    assert desk.propose(flow, params=factories.OVER_LIMIT)["verdict"] == "ESCALATE"
    agent = desk.again()
    assert (agent.escalation_millitokens, agent.bucket_at) == (1_000, spent_at)


# keys


def test_the_same_key_and_body_get_the_same_bytes_and_change_nothing(desk: factories.Desk) -> None:
    flow = desk.open()
    first = desk.submit(flow, key="k1")
    before = everything()
    assert desk.submit(flow, key="k1") == first
    assert everything() == before


def test_a_repeat_is_answered_even_after_the_flow_has_ended(desk: factories.Desk) -> None:
    flow = desk.open()
    answers = [desk.submit(flow, key=f"k{number}", **REJECTED) for number in range(3)]
    assert flow.row().state == "ABORTED"
    assert [desk.submit(flow, key=f"k{number}", **REJECTED) for number in range(3)] == answers


def test_the_same_key_with_another_body_is_refused(desk: factories.Desk) -> None:
    flow = desk.open()
    desk.submit(flow, key="k1", **REJECTED)
    before = everything()
    problem = refused(desk.submit(flow, key="k1"))
    assert (problem.status, problem.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert everything() == before


def test_the_same_key_at_another_path_is_another_call(desk: factories.Desk) -> None:
    first, second = desk.open(), desk.open()
    desk.submit(first, key="k1")
    assert desk.propose(second, key="k1")["verdict"] == "ACCEPT"


# what costs nothing


def test_an_unknown_flow_is_not_found_and_leaves_nothing(desk: factories.Desk) -> None:
    before = everything()
    problem = refused(desk.submit(factories.Opened(dfid=uuid4(), context_ref="none")))
    assert (problem.status, problem.code) == (404, "FLOW_NOT_FOUND")
    assert everything() == before


def test_another_agents_flow_looks_unknown(desk: factories.Desk) -> None:
    flow = desk.open()
    stranger = factories.desk(agent_id="stranger")
    assert refused(stranger.submit(flow)).code == "FLOW_NOT_FOUND"


def test_a_flow_that_is_with_a_person_takes_no_proposal_and_loses_no_attempt(desk: factories.Desk) -> None:
    flow = desk.open()
    desk.propose(flow, params=factories.OVER_LIMIT)
    before = everything()
    problem = refused(desk.submit(flow))
    assert (problem.status, problem.code, problem.dfid) == (409, "FLOW_NOT_OPEN", str(flow.dfid))
    assert everything() == before


# all or nothing


def test_nothing_stays_when_the_ledger_cannot_be_written(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = desk.open()
    before = everything()

    def fail(**_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ledger, "append", fail)
    with pytest.raises(OSError, match="disk full"):
        desk.submit(flow, params=factories.OVER_LIMIT)
    assert everything() == before
    assert desk.again().escalation_millitokens == 0
    assert flow.row().state == "ACTIVE"


def test_a_lost_race_is_judged_again_from_the_first_read(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = desk.open()
    real, lost = judging.judge, [True]

    def judge(**named: Any) -> Any:
        if lost.pop() if lost else False:
            raise transactions.ConcurrentUpdateError
        return real(**named)

    monkeypatch.setattr(judging, "judge", judge)
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    assert Proposal.objects.count() == 1


def test_hostile_text_comes_back_as_it_was_sent(desk: factories.Desk) -> None:
    explain = "<script>alert(1)</script>\u202e{{7*7}}\n=1+1"
    desk.propose(desk.open(), explain=explain, policy_kind="<b>NO</b>")
    row = Proposal.objects.get()
    assert (row.explain, row.policy_kind, row.policy_version) == (explain, "<b>NO</b>", "")
