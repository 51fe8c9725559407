"""Judging one claim: the world that expressions read, the rows that make a verdict replayable, and a second
hearing for what waits for a person."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentStatus, Decision
from runtime.core import clock
from runtime.flows.models import Flow, Proposal, Verdict
from runtime.kernel.gate import pipeline
from runtime.proposals.queries import gate_facts
from runtime.proposals.services import judging
from runtime.registry.models import Agent, Bundle
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


def with_rule(require: str) -> KindDocument:
    """A kind with one more rule."""
    return gate_cases.kind(rules=[{"id": "R_TEST", "require": require}])


def world(kind: KindDocument, *conditions: str) -> set[str]:
    """The facts that are loaded for the plain proposal."""
    found = gate_facts.get_world(
        tenant="default", kind=kind, params=dict(gate_cases.PARAMS), conditions=conditions
    )
    return set(found)


# rows


def test_every_verdict_is_judged_again_to_the_same_bytes_from_its_rows(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    desk.escalate()
    desk.propose(desk.open(), params={"symbol": "AAPL", "quantity": 1e-5})
    desk.propose(desk.open(), policy_kind="UNKNOWN")
    rows = Verdict.objects.select_related("bundle", "proposal")
    assert rows.count() == 4
    for row in rows:
        judged = pipeline.judge_bytes(bytes(row.input), bytes(row.bundle.body))
        assert judged == bytes(row.body)
        assert canonical.digest(bytes(row.input)) == row.input_digest
        assert canonical.digest(bytes(row.bundle.body)) == row.bundle_id
        assert canonical.digest(bytes(row.proposal.body)) == row.proposal.digest


def test_the_same_rules_are_stored_once(desk: factories.Desk) -> None:
    flow = desk.open()
    desk.propose(flow, params={})
    desk.propose(flow, params={})
    assert Proposal.objects.count() == 2
    assert Bundle.objects.count() == 1


def test_a_number_that_no_reader_would_keep_rejects_and_is_stored() -> None:
    huge = gate_cases.kind(
        steps=[
            {
                "id": "order",
                "target": "broker",
                "request": {"path": "/o", "body": "{'n': double(params.quantity) * 1e18}"},
            }
        ],
        predicts=[{"fact": "price.AAPL", "value": "double(params.quantity) * 1e18"}],
    )
    desk = factories.desk(kind=huge)
    answer = desk.propose(desk.open())
    assert [one["code"] for one in answer["reasons"]] == ["RENDERING_FAILED"]
    assert Verdict.objects.get().decision == "REJECT"


# the world


def test_only_what_the_kind_reads_is_loaded(desk: factories.Desk) -> None:
    factories.write("cash.main", 1)
    assert world(gate_cases.kind()) == {"price.AAPL", "price.MSFT", "market.state"}
    plain = gate_cases.kind(constraints=[], predicts=[], rules=[])
    assert world(plain) == {"price.AAPL", "market.state"}


@pytest.mark.parametrize(
    "source",
    [
        "context.facts.cash.main > 0",
        "has(context.facts.cash.main)",
        'context["facts"]["cash"]["main"] > 0',
        "context .facts . cash.main > 0",
        "size(context.facts.cash) > 0",
        "'main' in context.facts.cash",
        "context.facts.cash[params.symbol] > 0",
        "context.facts.cash.size() > 0",
        "size(context.facts) > 0",
    ],
)
def test_a_fact_is_loaded_however_it_is_written(desk: factories.Desk, source: str) -> None:
    factories.write("cash.main", 1)
    assert "cash.main" in world(with_rule(source))
    assert "cash.main" in world(gate_cases.kind(), source)


@pytest.mark.parametrize("source", ["params.context.facts.cash == 1", "'context.facts.cash.main' == ''"])
def test_what_only_looks_like_a_fact_is_not_loaded(desk: factories.Desk, source: str) -> None:
    factories.write("cash.main", 1)
    assert "cash.main" not in world(with_rule(source))


def test_a_rule_over_a_whole_namespace_sees_all_of_it() -> None:
    # With one entry missing from the world this rule would hold.
    desk = factories.desk(kind=with_rule("size(context.facts.blocked) == 0"))
    factories.write("blocked.AAPL", True)
    assert [one["code"] for one in desk.propose(desk.open())["reasons"]] == ["R_TEST"]


def test_the_facts_of_a_request_path_are_loaded_and_a_broken_path_rejects() -> None:
    step: dict[str, Any] = {"id": "order", "target": "broker"}
    good = gate_cases.kind(steps=[{**step, "request": {"path": "/o/${context.facts.cash.main}"}}])
    desk = factories.desk(kind=good)
    factories.write("cash.main", 7)
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    factories.policy_kind(
        gate_cases.kind(version="1.3.0", steps=[{**step, "request": {"path": "/o/${params.symbol"}}])
    )
    assert desk.propose(desk.open())["reasons"][0]["code"] == "RENDERING_FAILED"


def test_another_tenants_facts_are_not_of_this_world(desk: factories.Desk) -> None:
    assert gate_facts.get_world(tenant="other", kind=gate_cases.kind(), params={}) == {}


def test_history_is_counted_only_where_something_reads_it(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    facts = pipeline.Judgement.from_bytes(bytes(Verdict.objects.get().input)).facts
    assert facts.history is None


# a second hearing


def reconsidered(desk: factories.Desk) -> judging.Rejudgement:
    """The proposal of the only escalation, judged again."""
    row = Proposal.objects.get()
    return judging.reconsider(flow=Flow.objects.get(), agent=desk.again(), proposal=row, at=clock.now())


def test_what_waits_for_a_person_is_found_as_it_was(desk: factories.Desk) -> None:
    desk.escalate()
    before = Verdict.objects.get()
    again = reconsidered(desk)
    assert again.verdict.decision is Decision.ESCALATE
    assert canonical.digest(again.rules.to_bytes()) == before.bundle_id
    assert gate_cases.codes(again.verdict) == ["RISK_LIMIT_EXCEEDED"]
    assert Verdict.objects.count() == 1


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (AgentStatus.PASSIVE, ["RISK_LIMIT_EXCEEDED"]),
        (AgentStatus.SUSPENDED, ["AGENT_SUSPENDED"]),
        (AgentStatus.LOCKED, ["AGENT_LOCKED"]),
    ],
)
def test_a_passive_agents_granted_escalation_is_heard_and_a_suspended_ones_is_not(
    desk: factories.Desk, status: AgentStatus, codes: list[str]
) -> None:
    desk.escalate()
    Agent.objects.update(status=status)
    assert gate_cases.codes(reconsidered(desk).verdict) == codes


def test_an_empty_bucket_and_spent_attempts_say_nothing_about_the_proposal() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=1, proposals_per_minute=1))
    desk.escalate()
    Flow.objects.update(attempts_used=3)
    assert gate_cases.codes(reconsidered(desk).verdict) == ["RISK_LIMIT_EXCEEDED"]
