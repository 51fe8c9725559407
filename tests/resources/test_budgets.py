"""The compute budget of a flow, its hard stop, and the refill of an agent's escalation bucket."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contexts.services import usage
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, FlowState, IntentState
from runtime.core import clock, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.execution.services import claiming
from runtime.flows.models import Feedback, Flow, Intent
from runtime.maintenance.services import sweeper
from runtime.registry.models import Agent
from runtime.registry.services import agents
from runtime.resources.models import ComputeBudget, UsageReport
from runtime.resources.services import budgets
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db
COMPUTE = {"tokens": 1_000, "cost_usd": "0.50", "tool_calls": 3}


def desk(**compute: Any) -> factories.Desk:
    return factories.desk(manifest=gate_cases.manifest(compute={**COMPUTE, **compute}))


def report(
    of: factories.Desk, flow: factories.Opened, *, key: str = "", body: bytes = b"{}", **asked: Any
) -> api_schemas.UsageAnswer | Problem:
    return usage.report(
        agent=of.again(),
        dfid=flow.dfid,
        asked=api_schemas.UsageRequest(**{"tokens": 0, **asked}),
        repeatable=IdempotentRequest(key=key, path="/usage", body=body) if key else None,
    )


def paid(answer: api_schemas.UsageAnswer | Problem) -> api_schemas.UsageAnswer:
    assert isinstance(answer, api_schemas.UsageAnswer), answer
    return answer


def refused(answer: api_schemas.UsageAnswer | Problem) -> tuple[int, str]:
    assert isinstance(answer, Problem), answer
    return answer.status, answer.code


def test_tells_what_is_left_to_the_last_millionth() -> None:
    of = desk()
    flow = of.open()
    report(of, flow, tokens=100, cost_usd="0.1", tool_calls=1)
    left = paid(report(of, flow, tokens=1, cost_usd="0.000001"))
    assert (left.tokens_left, left.cost_left_usd, left.tool_calls_left) == (899, "0.399999", 2)
    assert (left.wall_clock_left_s, left.state) == (None, FlowState.ACTIVE)


def test_all_of_the_budget_may_be_used() -> None:
    of = desk()
    flow = of.open()
    left = paid(report(of, flow, tokens=1_000, cost_usd="0.50", tool_calls=3))
    assert (left.tokens_left, left.cost_left_usd, left.tool_calls_left) == (0, "0.00", 0)
    assert of.propose(flow)["verdict"] == "ACCEPT"


@pytest.mark.parametrize("asked", [{"tokens": 1_001}, {"cost_usd": "0.500001"}, {"tool_calls": 4}])
def test_past_a_cap_the_flow_is_aborted_for_good(asked: dict[str, Any]) -> None:
    of = desk()
    flow = of.open()
    assert refused(report(of, flow, **asked)) == (429, "BUDGET_EXCEEDED")
    row = flow.row()
    assert (row.state, row.reason) == (FlowState.ABORTED, Reason.BUDGET_EXCEEDED)
    told = Feedback.objects.filter(flow=row).order_by("-seq")[0]
    assert told.event_type == "FLOW_ABORTED"
    assert b"BUDGET_EXCEEDED" in bytes(told.body)
    assert flow.entries()[-3:] == ["usage:reported", "flow:moved", "record:emitted"]
    answer = of.submit(flow)
    assert isinstance(answer, Problem)
    assert answer.code == "FLOW_NOT_OPEN"
    # What passed the cap was used, so it counts; what comes after finds the flow ended.
    assert refused(report(of, flow, tokens=1)) == (429, "BUDGET_EXCEEDED")
    assert UsageReport.objects.count() == 1
    assert isinstance(verify_database(), Whole)


def test_without_a_cap_usage_is_kept_and_nothing_stops() -> None:
    of = factories.desk()
    flow = of.open()
    left = paid(report(of, flow, tokens=10**12))
    assert (left.tokens_left, left.cost_left_usd) == (None, None)
    assert ComputeBudget.objects.get(flow=flow.dfid).tokens_used == 10**12


def test_the_caps_are_those_of_the_opening() -> None:
    of = desk()
    flow = of.open()
    factories.activate(of.agent, gate_cases.manifest(version="1.5.0", compute={"tokens": 5}))
    assert paid(report(of, flow, tokens=6)).tokens_left == 994


def test_a_repeat_under_the_same_key_adds_nothing() -> None:
    of = desk()
    flow = of.open()
    first = paid(report(of, flow, key="k", tokens=7))
    assert paid(report(of, flow, key="k", tokens=7)) == first
    assert ComputeBudget.objects.get(flow=flow.dfid).tokens_used == 7
    assert refused(report(of, flow, key="k", body=b"[]", tokens=7)) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_repeat_of_the_report_that_stopped_the_flow_is_refused_alike() -> None:
    of = desk()
    flow = of.open()
    first = report(of, flow, key="k", tokens=2_000)
    assert report(of, flow, key="k", tokens=2_000) == first
    assert refused(first) == (429, "BUDGET_EXCEEDED")


def test_a_waiting_intent_is_cancelled_by_the_stop() -> None:
    of = desk()
    flow = of.open()
    intent_id = of.propose(flow)["intent_id"]
    assert refused(report(of, flow, tokens=2_000)) == (429, "BUDGET_EXCEEDED")
    assert Intent.objects.get(pk=intent_id).state == IntentState.CANCELLED
    assert flow.row().state == FlowState.ABORTED


def test_an_intent_under_way_is_left_to_its_outcome() -> None:
    of = desk()
    flow = of.open()
    intent_id = UUID(of.propose(flow)["intent_id"])
    transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a-worker"))
    answer = report(of, flow, tokens=2_000)
    assert refused(answer) == (429, "BUDGET_EXCEEDED")
    assert isinstance(answer, Problem)
    assert "in progress" in answer.detail
    assert Intent.objects.get(pk=intent_id).state == IntentState.CLAIMED
    assert flow.row().state == FlowState.EXECUTING
    assert UsageReport.objects.count() == 1


def test_the_stop_withdraws_what_a_person_was_asked() -> None:
    of = desk()
    escalation = of.escalate()
    flow = factories.Opened(dfid=escalation.flow_id, context_ref="")
    assert refused(report(of, flow, tokens=2_000)) == (429, "BUDGET_EXCEEDED")
    assert Escalation.objects.get(pk=escalation.pk).resolved_at is not None
    assert flow.row().state == FlowState.ABORTED


def test_another_agents_flow_and_an_ended_one_take_no_report() -> None:
    of, stranger = desk(), factories.desk(agent_id="stranger")
    flow = of.open()
    assert refused(report(stranger, flow, tokens=1)) == (404, "FLOW_NOT_FOUND")
    Flow.objects.filter(dfid=flow.dfid).update(state=FlowState.CLOSED, ended_at=clock.now())
    assert refused(report(of, flow, tokens=1)) == (409, "FLOW_NOT_OPEN")


def late(flow: factories.Opened) -> None:
    ComputeBudget.objects.filter(flow=flow.dfid).update(ends_at=clock.now() - timedelta(seconds=1))


def test_the_sweeper_ends_a_flow_whose_time_is_over() -> None:
    of = desk(wall_clock_s=60)
    flow = of.open()
    assert paid(report(of, flow, tokens=1)).wall_clock_left_s in {59, 60}
    assert sweeper.sweep().overdue_flows == 0
    late(flow)
    assert sweeper.sweep().overdue_flows == 1
    assert sweeper.sweep().overdue_flows == 0
    assert (flow.row().state, flow.row().reason) == (FlowState.ABORTED, Reason.BUDGET_EXCEEDED)


def test_a_flow_that_waits_for_a_person_is_not_out_of_time() -> None:
    of = desk(wall_clock_s=60)
    escalation = of.escalate()
    flow = factories.Opened(dfid=escalation.flow_id, context_ref="")
    late(flow)
    assert sweeper.sweep().overdue_flows == 0
    assert not transactions.retry_on_conflict(lambda: usage.stop_overdue(flow.dfid))
    assert paid(report(of, flow, tokens=1)).wall_clock_left_s == 0


def test_the_gate_refuses_a_proposal_after_the_time_and_ends_the_flow() -> None:
    of = desk(wall_clock_s=60)
    flow = of.open()
    late(flow)
    answer = of.propose(flow)
    assert (answer["verdict"], answer["state"]) == ("REJECT", "ABORTED")
    assert "BUDGET_EXCEEDED" in [reason["code"] for reason in answer["reasons"]]
    assert flow.row().reason == Reason.BUDGET_EXCEEDED


def test_a_flow_that_is_gone_or_in_time_is_not_stopped() -> None:
    of = desk(wall_clock_s=60)
    assert not transactions.retry_on_conflict(lambda: usage.stop_overdue(UUID(int=0)))
    assert not transactions.retry_on_conflict(lambda: usage.stop_overdue(of.open().dfid))


def refill(agent_id: str = "trader") -> Agent | Problem:
    return budgets.refill(tenant="default", agent_id=agent_id, actor="user:1", reason="Looked into it.")


def test_a_refill_fills_the_bucket_and_restores_the_agent() -> None:
    of = factories.desk()
    for _ in range(3):
        of.escalate()
    assert of.propose(of.open(), params=factories.OVER_LIMIT)["verdict"] == "REJECT"
    assert of.again().status == AgentStatus.PASSIVE
    assert isinstance(refill(), Agent)
    assert (of.again().status, of.again().escalation_millitokens) == (AgentStatus.ACTIVE, 3_000)
    of.escalate()
    kinds = LedgerEntry.objects.filter(stream="agent:trader", actor="user:1").values_list("kind", flat=True)
    assert list(kinds.order_by("seq")) == ["budget:refilled", "agent:status_changed"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (AgentStatus.PASSIVE, "Watch it."),
        (AgentStatus.SUSPENDED, Reason.ESCALATION_BUDGET_EXHAUSTED.value),
    ],
)
def test_a_refill_does_not_lift_what_a_person_has_set(status: AgentStatus, reason: str) -> None:
    of = factories.desk()
    agents.set_status(tenant="default", agent_id="trader", status=status, reason=reason, actor="user:1")
    assert isinstance(refill(), Agent)
    assert of.again().status == status


def test_a_refill_needs_an_agent_with_a_manifest() -> None:
    missing = refill("nobody")
    assert isinstance(missing, Problem)
    assert missing.status == 404
    Agent.objects.create(
        agent_id="bare", role="MONITOR", owner="desk", mission="Wait.", created_at=clock.now()
    )
    bare = refill("bare")
    assert isinstance(bare, Problem)
    assert bare.code == "NO_MANIFEST"
