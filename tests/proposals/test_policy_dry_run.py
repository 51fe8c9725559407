"""Dry run over the past: what other rules would have said, and where the past does not hold enough."""

from typing import Any

import pytest

from audit.models import LedgerEntry
from runtime.contracts import pack
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Decision
from runtime.contracts.verdict import VerdictDocument
from runtime.core import clock
from runtime.flows.models import Proposal, Verdict
from runtime.kernel.gate.gate_input import FIRST, PolicyBundle
from runtime.kernel.gate.pipeline import Judgement
from runtime.proposals.queries import policy_dry_run
from runtime.registry.models import Agent
from runtime.resources.services import resources
from runtime.state.models import FactVersion
from tests.support import factories, gate_cases

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


def of_kind(draft: KindDocument) -> policy_dry_run.DryRunReport:
    rows = policy_dry_run.list_of_kind(tenant=factories.TENANT, kind=draft.kind)
    return policy_dry_run.rejudge(
        rows=rows, swap=lambda then: PolicyBundle(manifest=then.manifest, kind=draft)
    )


def ruled(require: str, **fields: Any) -> KindDocument:
    """The plain kind's next version with one rule more."""
    rules = [*gate_cases.KIND["rules"], {"id": "R_NEW", "require": require, "message": "Not this"}]
    return gate_cases.kind(version="1.3.0", rules=rules, **fields)


def test_the_same_rules_change_nothing_and_nothing_is_written(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    desk.escalate()
    desk.propose(desk.open(), params={})
    before = (LedgerEntry.objects.count(), Proposal.objects.count(), Verdict.objects.count())
    report = of_kind(gate_cases.kind())
    assert (report.looked_at, report.changes, report.other_reasons, report.untold) == (3, (), 0, ())
    assert (LedgerEntry.objects.count(), Proposal.objects.count(), Verdict.objects.count()) == before


def test_one_proposal_is_judged_whole(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    (row,) = policy_dry_run.list_of_kind(tenant=factories.TENANT, kind="ADJUST_POSITION")
    draft = gate_cases.kind(version="1.3.0", effect="Do {action}", impact="'HIGH_IMPACT'")
    found = policy_dry_run.judge_one(
        row=row, swap=lambda then: PolicyBundle(manifest=then.manifest, kind=draft)
    )
    assert not isinstance(found, str)
    assert (found.effect_text, found.impact) == ("Do BUY", "HIGH_IMPACT")
    counted = ruled("history.proposals_1h < 100")
    untold = policy_dry_run.judge_one(
        row=row, swap=lambda then: PolicyBundle(manifest=then.manifest, kind=counted)
    )
    assert untold == "the counts over the agent's history were not stored"


def test_a_new_rule_says_which_verdicts_change_and_why(desk: factories.Desk) -> None:
    small, large = desk.open(), desk.open()
    desk.propose(small)
    desk.propose(large, params=factories.OVER_LIMIT)
    report = of_kind(ruled("params.notional_cents < 100000"))
    (change,) = report.changes
    assert (change.dfid, change.agent_id) == (large.dfid, "trader")
    assert (change.was, change.now) == (Decision.ESCALATE, Decision.REJECT)
    assert [item.code for item in change.was_reasons] == ["RISK_LIMIT_EXCEEDED"]
    assert [item.code for item in change.now_reasons] == ["R_NEW", "RISK_LIMIT_EXCEEDED"]
    assert report.moves == ((Decision.ESCALATE, Decision.REJECT, 1),)


def test_what_an_older_gate_judged_is_not_evaluated_where_it_does_not_fit_the_draft(
    desk: factories.Desk,
) -> None:
    desk.propose(desk.open())
    (row,) = policy_dry_run.list_of_kind(tenant=factories.TENANT, kind="ADJUST_POSITION")
    asked = Judgement.from_bytes(bytes(row.input))
    row.input = asked.model_copy(update={"gate_version": FIRST}).to_bytes()
    few = {**gate_cases.KIND["params_schema"]["properties"], "quantity": {"type": "integer", "maximum": 4}}
    schema = {**gate_cases.KIND["params_schema"], "properties": few}

    def judged(kind: KindDocument) -> VerdictDocument:
        found = policy_dry_run.judge_one(
            row=row, swap=lambda then: PolicyBundle(manifest=then.manifest, kind=kind)
        )
        assert not isinstance(found, str)
        return found

    refused = judged(gate_cases.kind(version="1.3.0", params_schema=schema, impact="'LOW_IMPACT'"))
    assert (refused.decision, refused.impact) == (Decision.REJECT, "HIGH_IMPACT")
    granted = judged(gate_cases.kind(version="1.3.0", impact="'LOW_IMPACT'"))
    assert (granted.decision, granted.gate_version) == (Decision.ACCEPT, FIRST)
    unsafe = judged(gate_cases.kind(version="1.3.0", impact="params.action.matches(params.symbol) ? '' : ''"))
    assert gate_cases.codes(unsafe) == ["KIND_UNSAFE"]


def test_the_same_verdict_for_another_reason_is_counted_apart(desk: factories.Desk) -> None:
    desk.escalate()
    report = of_kind(gate_cases.kind(version="1.3.0", limits=[], rules=[ESCALATED]))
    assert (report.changes, report.other_reasons) == ((), 1)


ESCALATED = {"id": "R_LARGE", "require": "params.notional_cents < 100000", "on_fail": "ESCALATE"}


def test_a_version_that_was_agreed_then_counts_as_agreed_now(desk: factories.Desk) -> None:
    desk.propose(desk.open(), policy_version="1.0.0")
    desk.propose(desk.open(), policy_version="7.0.0")
    assert of_kind(gate_cases.kind(version="2.0.0")).changes == ()


def test_a_persons_order_is_left_out(desk: factories.Desk) -> None:
    factories.decide(desk.escalate(), factories.user())
    assert of_kind(gate_cases.kind()).looked_at == 1


def test_a_fact_that_only_the_draft_reads_is_taken_as_it_was(desk: factories.Desk) -> None:
    factories.write("desk.mood", "CALM")
    desk.propose(desk.open())
    factories.write("desk.mood", "WILD")
    calm, dependent = "context.facts.desk.mood == 'CALM'", [*gate_cases.KIND["depends_on"], "desk.mood"]
    assert of_kind(ruled(calm, depends_on=dependent)).changes == ()
    desk.propose(desk.open())
    (change,) = of_kind(ruled(calm, depends_on=dependent)).changes
    assert change.now is Decision.REJECT


def test_a_fact_that_did_not_exist_then_is_missing(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    factories.write("desk.mood", "CALM")
    (change,) = of_kind(ruled("context.facts.desk.mood == 'CALM'")).changes
    assert change.now is Decision.REJECT


def test_a_fact_whose_version_of_then_was_deleted_cannot_be_told(desk: factories.Desk) -> None:
    factories.write("desk.mood", "CALM")
    desk.propose(desk.open())
    factories.write("desk.mood", "WILD")
    FactVersion.objects.filter(path="desk.mood", version=1).delete()
    report = of_kind(ruled("context.facts.desk.mood == 'CALM'"))
    assert report.untold == (("the versions of desk.mood of that time are not kept any more", 1),)


def test_a_whole_namespace_is_taken_as_it_was(desk: factories.Desk) -> None:
    for name in ("one", "two"):
        factories.write(f"desk.{name}", 1)
    desk.propose(desk.open())
    desk.propose(desk.open())
    factories.write("desk.one", 2)
    assert of_kind(ruled("context.facts.desk.all(name, context.facts.desk[name] == 1)")).changes == ()
    assert of_kind(ruled("context.facts.all(name, name != 'none')")).changes == ()


def test_too_many_facts_cannot_be_told(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_dry_run, "MOST_LOOKUPS", 1)
    for name in ("one", "two"):
        factories.write(f"desk.{name}", 1)
    desk.propose(desk.open())
    report = of_kind(ruled("context.facts.desk.all(name, true)"))
    assert report.untold == (("the draft reads too many facts that were not stored with the proposal", 1),)


def test_counts_and_capacities_that_were_not_kept_cannot_be_told(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    counted = of_kind(ruled("history.proposals_1h < 100"))
    assert counted.untold == (("the counts over the agent's history were not stored", 1),)
    claimed = of_kind(ruled("true", claims=[{"resource": "cash", "amount": "1"}]))
    assert claimed.untold == (("the free amount of cash was not stored", 1),)


def test_a_claim_on_a_resource_that_was_kept_is_judged() -> None:
    given = pack.PackResource(name="cash", capacity=100_000, unit="cents")
    resources.store(tenant=factories.TENANT, given=given, actor="system", at=clock.now())
    claims = [{"resource": "cash", "amount": "params.notional_cents"}]
    desk = factories.desk(kind=gate_cases.kind(claims=claims))
    desk.propose(desk.open())
    doubled = [{"resource": "cash", "amount": "params.notional_cents * 2"}]
    (change,) = of_kind(ruled("true", claims=doubled)).changes
    assert [item.code for item in change.now_reasons] == ["INSUFFICIENT_LIQUIDITY"]


def test_proposals_from_before_the_kind_was_there_are_judged_under_it() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(policy_kinds=["ADJUST_POSITION", "NOT_YET"]))
    desk.propose(desk.open(), policy_kind="NOT_YET")
    report = of_kind(gate_cases.kind(kind="NOT_YET"))
    assert report.moves == ((Decision.REJECT, Decision.ACCEPT, 1),)


def test_a_kind_withdrawn_is_a_rejection(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    rows = policy_dry_run.list_of_kind(tenant=factories.TENANT, kind="ADJUST_POSITION")
    report = policy_dry_run.rejudge(
        rows=rows, swap=lambda then: PolicyBundle(manifest=then.manifest, kind=None)
    )
    assert report.moves == ((Decision.ACCEPT, Decision.REJECT, 1),)


def test_an_agents_own_proposals_under_another_manifest(desk: factories.Desk) -> None:
    desk.propose(desk.open())
    desk.escalate()
    agent: Agent = desk.again()
    draft: ManifestDocument = gate_cases.manifest(version="1.5.0", limits={"max_notional_cents": 200_000})
    report = policy_dry_run.rejudge(
        rows=policy_dry_run.list_of_agent(agent=agent),
        swap=lambda then: PolicyBundle(manifest=draft, kind=then.kind),
    )
    assert report.moves == ((Decision.ESCALATE, Decision.ACCEPT, 1),)
    assert policy_dry_run.list_of_agent(agent=agent, limit=1)[0].decision == "ESCALATE"


def test_a_new_rate_limit_counts_the_proposals_that_were_stored(desk: factories.Desk) -> None:
    for _ in range(3):
        desk.propose(desk.open())
    draft: ManifestDocument = gate_cases.manifest(version="1.5.0", proposals_per_minute=2)
    report = policy_dry_run.rejudge(
        rows=policy_dry_run.list_of_agent(agent=desk.again()),
        swap=lambda then: PolicyBundle(manifest=draft, kind=then.kind),
    )
    (change,) = report.changes
    assert [item.code for item in change.now_reasons] == ["RATE_LIMITED"]
    assert change.proposal_id == policy_dry_run.list_of_agent(agent=desk.again(), limit=1)[0].pk


def test_a_name_that_no_database_can_compare_has_no_past() -> None:
    assert policy_dry_run.list_of_kind(tenant=factories.TENANT, kind="A\x00B") == []
