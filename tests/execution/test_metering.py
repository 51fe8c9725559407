"""Meters of steps: what answers say was used counts for the budget of the flow, once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry
from audit.verification import findings
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.resources.models import ComputeBudget, UsageReport
from runtime.resources.queries import budget_figures, compute_left
from tests.support import misbehaving_targets, trading_desk
from tests.support.misbehaving_targets import Answering

pytestmark = pytest.mark.django_db
METER = "meter: {tokens: answer.body.usage.total_tokens, cost_usd: answer.body.usage.cost}"
USED = b'{"status":"FILLED","usage":{"total_tokens":840,"cost":0.0067}}'


@pytest.fixture(autouse=True)
def _loopback(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]


@contextmanager
def desk_at(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, *, compute: str = "", more: str = ""
) -> Iterator[tuple[trading_desk.Desk, misbehaving_targets.StandIn]]:
    """A desk whose only step has a meter, at a target that answers so."""
    text = trading_desk.PACK.replace("path: /orders}}", f"path: /orders}}, {METER}{more}}}")
    if compute:
        text = text.replace("escalations_per_hour: 3}", f"escalations_per_hour: 3, compute: {compute}}}")
        assert compute in text
    monkeypatch.setattr(trading_desk, "PACK", text)
    with misbehaving_targets.stand_in(answering) as target:
        yield trading_desk.open_desk(base_url=target.base_url), target
    assert [item.detail for item in findings.verify_all().findings] == []


def attempt(intent_id: UUID) -> None:
    attempting.attempt(intent_id, owner=trading_desk.OWNER)


def metered(intent_id: UUID) -> list[dict[str, Any]]:
    stream = str(trading_desk.intent(intent_id).flow_id)
    return [entry.payload for entry in LedgerEntry.objects.filter(stream=stream, kind="usage:reported")]


def test_what_an_answer_says_counts_for_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(misbehaving_targets.answer(200, USED), monkeypatch) as (desk, _):
        intent_id = desk.accept()
        attempt(intent_id)
        flow = trading_desk.flow_of(intent_id)
        budget = ComputeBudget.objects.get(flow=flow)
        assert (budget.tokens_used, budget.cost_used_micros, budget.tool_calls_used) == (840, 6700, 0)
        (said,) = metered(intent_id)
        assert (said["intent_id"], said["number"]) == (str(intent_id), 1)
        assert (said["tokens"], said["cost_usd"]) == (840, "0.0067")
        record = DecisionRecord.objects.filter(dfid=flow.pk).latest("seq")
        assert canonical.decode(bytes(record.body))["budget_usage"]["tokens"] == 840
        row = UsageReport.objects.get()
        assert (row.target, row.agent.agent_id) == ("broker", trading_desk.AGENT)
        ((agent_id, tokens, micros, is_metered),) = budget_figures.list_use_by_agent(
            tenant="default", now=row.reported_at
        )
        assert (agent_id, tokens, micros, is_metered) == (trading_desk.AGENT, 840, 6700, True)


def test_an_answer_that_says_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(misbehaving_targets.answer(200, b'{"status":"FILLED"}'), monkeypatch) as (desk, _):
        intent_id = desk.accept()
        attempt(intent_id)
        (said,) = metered(intent_id)
        assert (said["tokens"], said["unread"]) == (0, ["tokens", "cost_usd"])
        assert not UsageReport.objects.exists()


def test_a_call_that_failed_has_no_answer_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(misbehaving_targets.answer(503, USED), monkeypatch) as (desk, _):
        intent_id = desk.accept()
        attempt(intent_id)
        assert metered(intent_id) == []


def test_what_passes_the_cap_was_used_and_the_intent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = misbehaving_targets.answer(200, USED)
    with desk_at(answering, monkeypatch, compute="{tokens: 800}") as (desk, target):
        intent_id = desk.accept()
        attempt(intent_id)
        assert trading_desk.states(intent_id)[0] == "DONE"
        assert len(target.seen) == 1
        flow = trading_desk.flow_of(intent_id)
        assert compute_left.left_in(flow, at=clock.now())["tokens_left"] == 0
        assert ComputeBudget.objects.get(flow=flow).tokens_used == 840
