"""Usage deltas of many racers add up exactly; the same key adds once; the cap stops the flow once."""

from runtime.contexts.services import usage
from runtime.contracts import api_schemas
from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState
from runtime.core.idempotency import IdempotentRequest
from runtime.resources.models import ComputeBudget, UsageReport
from tests.support import factories, gate_cases, racing

RACERS = 40


def report(
    desk: factories.Desk, flow: factories.Opened, *, tokens: int, key: str = ""
) -> api_schemas.UsageAnswer | Problem:
    repeatable = IdempotentRequest(key=key, path=f"/flows/{flow.dfid}/usage", body=b"{}") if key else None
    return usage.report(
        agent=desk.agent,
        dfid=flow.dfid,
        asked=api_schemas.UsageRequest(tokens=tokens, cost_usd="0.01"),
        repeatable=repeatable,
    )


def test_forty_racers_add_up_exactly(real_db: str) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(compute={"tokens": 1_000_000, "cost_usd": "1.00"}))
    flow = desk.open()
    answers = racing.race(RACERS, lambda number: report(desk, flow, tokens=number))
    assert all(isinstance(answer, api_schemas.UsageAnswer) for answer in answers)
    row = ComputeBudget.objects.get(flow=flow.dfid)
    assert row.tokens_used == sum(range(RACERS))
    assert row.cost_used_micros == RACERS * 10_000
    assert UsageReport.objects.count() == RACERS


def test_forty_repeats_under_one_key_add_once(real_db: str) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(compute={"tokens": 100}))
    flow = desk.open()
    answers = racing.race(RACERS, lambda number: report(desk, flow, tokens=7, key="once"))
    assert len({str(answer) for answer in answers}) == 1
    assert ComputeBudget.objects.get(flow=flow.dfid).tokens_used == 7
    assert flow.entries().count("usage:reported") == 1


def test_racers_past_the_cap_stop_the_flow_once(real_db: str) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(compute={"tokens": 100}))
    flow = desk.open()
    answers = racing.race(RACERS, lambda number: report(desk, flow, tokens=10))
    paid = [answer for answer in answers if isinstance(answer, api_schemas.UsageAnswer)]
    refused = [answer for answer in answers if isinstance(answer, Problem)]
    assert len(paid) == 10
    assert {(problem.status, problem.code) for problem in refused} == {(429, "BUDGET_EXCEEDED")}
    assert flow.row().state == FlowState.ABORTED
    # The eleventh is what passed the cap: it was used, so it counts. The others found the flow ended.
    assert ComputeBudget.objects.get(flow=flow.dfid).tokens_used == 110
    assert flow.entries().count("usage:reported") == 11
