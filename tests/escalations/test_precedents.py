"""What is a precedent, and what its draft says: pure rules first, then real decisions."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.events import StrategyRuleProposed
from audit.models import LedgerEntry
from audit.records import queries
from audit.verification import findings
from escalations import precedents
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.precedents import Case, Change
from escalations.services import precedent_cases, strategy_rules
from runtime.contracts.kind_types import OnFail
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.flows.services import record_feedback
from runtime.registry.models import Agent, Manifest, PolicyKind
from runtime.registry.queries import kind_versions, manifest_versions
from runtime.registry.services import manifests
from tests.support import factories, gate_cases

CASE = Case(
    record_id="dr_1",
    dfid="1",
    kind="BUY",
    check="limits",
    rule="max_notional",
    code="RISK_LIMIT_EXCEEDED",
    agent_id="trader",
    action="OVERRIDE",
    approvers=("user:1",),
    outcome="SUCCEEDED",
    value=110,
    limit=100,
)


def cases(count: int = 10, **changes: Any) -> list[Case]:
    """As many cases, by two people in turn, each with a larger value."""
    return [
        replace(
            CASE,
            **{
                "record_id": f"dr_{number}",
                "approvers": (f"user:{number % 2 + 1}",),
                "value": 110 + number,
                **changes,
            },
        )
        for number in range(count)
    ]


def test_what_was_always_let_through_proposes_the_largest_value() -> None:
    (found,) = precedents.find(cases(12))
    assert (found.change, found.agent_id, found.up_to) == (Change.RAISE_LIMIT, "trader", 121)
    assert (found.people, found.others, len(found.record_ids)) == (2, 0, 12)


@pytest.mark.parametrize(
    "given",
    [
        cases(9),
        cases(10, approvers=("user:1",)),
        cases(10, value=None),
        cases(10, rule=""),
        cases(10, check="confidence"),
        [*cases(), replace(CASE, action="ABORT", value=115)],
        [*cases(), replace(CASE, action="MODIFY", value=110)],
        [*cases(), replace(CASE, outcome="FAILED", value=112)],
        [*cases(), replace(CASE, assessments=("RIGHT", "UNSAFE"), value=112)],
        [replace(case, agent_id=f"agent-{at}") for at, case in enumerate(cases(12))],
    ],
)
def test_too_few_or_too_mixed_is_no_precedent(given: list[Case]) -> None:
    assert precedents.find(given) == []


def test_it_ends_below_the_first_that_was_not_let_through() -> None:
    refused = [replace(CASE, action="ABORT", value=125), replace(CASE, action="OVERRIDE", value=130)]
    (found,) = precedents.find([*cases(12), *refused])
    assert (found.up_to, found.others) == (121, 2)


def test_what_everybody_aborts_for_every_agent_can_be_rejected_at_once() -> None:
    given = cases(10, action="ABORT", outcome="", check="rules", rule="R_OPEN", value=None)
    given = [replace(case, agent_id=f"agent-{at % 3}") for at, case in enumerate(given)]
    (found,) = precedents.find(given)
    assert (found.change, found.agent_id, found.up_to) == (Change.REJECT_AT_ONCE, "", None)
    assert precedents.find([*given, replace(given[0], action="OVERRIDE")]) == []


def test_the_digest_is_of_what_is_shown() -> None:
    (found,) = precedents.find(cases())
    (more,) = precedents.find(cases(11))
    (others,) = precedents.find(cases(10, outcome=""))
    assert found.digest != more.digest
    assert found.digest == others.digest


@pytest.fixture
def people() -> tuple[User, User]:
    return factories.user("olivia"), factories.user("oscar")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases are enough."""
    monkeypatch.setattr(precedents, "LEAST_CASES", 2)


def decided(desk: factories.Desk, who: User, action: Action, cents: int = 150_000) -> Escalation:
    case = desk.escalate(params={**gate_cases.PARAMS, "notional_cents": cents})
    assert not isinstance(factories.decide(case, who, action), Problem)
    if action is Action.OVERRIDE:
        factories.cancel(desk, case)
    return case


@pytest.fixture
def allowed(db: None, few: None, people: tuple[User, User]) -> factories.Desk:
    desk = factories.desk()
    for who, cents in zip(people, (150_000, 120_000), strict=True):
        decided(desk, who, Action.OVERRIDE, cents)
    return desk


def offer() -> strategy_rules.Offer:
    (found,) = strategy_rules.list_offers(tenant="default")
    return found


def propose(digest: str, actor: str = "user:9") -> StrategyRuleProposed:
    made = strategy_rules.propose(tenant="default", digest=digest, actor=actor)
    assert not isinstance(made, Problem), made
    return made


def test_a_limit_of_the_manifest_is_drafted_and_rules_nothing(allowed: factories.Desk) -> None:
    shown = offer()
    assert (shown.change.place, shown.change.field) == ("manifest", "limits.max_notional_cents")
    made = propose(shown.precedent.digest)
    assert (made.value_before, made.value_after, made.cases, made.people) == ("100000", "150000", 2, 2)
    agent = Agent.objects.get(agent_id=made.name)
    draft = manifest_versions.get_version(agent=agent, version=made.version)
    assert draft is not None
    contract = manifest_versions.contract_of(draft)
    assert contract.limits == {**gate_cases.manifest().limits, "max_notional_cents": 150_000}
    assert agent.active_manifest_id != draft.pk
    assert allowed.escalate().state == "OPEN"
    records = {case.record_id for case in shown.precedent.cases}
    entry = LedgerEntry.objects.get(kind="strategy_rule:proposed")
    assert set(entry.payload["record_ids"]) == records
    assert [item for item in findings.verify_all().findings if item.stream[:5] != "user:"] == []


def test_who_drafted_it_cannot_activate_it_and_another_can(allowed: factories.Desk) -> None:
    anna, adam = (factories.user(name, "admin") for name in ("anna", "adam"))
    made = propose(offer().precedent.digest, f"user:{anna.pk}")
    given: dict[str, Any] = {"tenant": "default", "agent_id": made.name, "version": made.version}
    before = Agent.objects.get(agent_id=made.name).active_manifest
    assert before is not None
    given |= {"seen_active": before.version, "reason": "As always."}
    assert isinstance(manifests.activate(actor=f"user:{anna.pk}", **given), Problem)
    assert isinstance(manifests.activate(actor=f"user:{adam.pk}", **given), Manifest)
    assert [rule.state for rule in strategy_rules.list_proposed(tenant="default")] == ["ACTIVE"]
    # Today's rules follow it.
    assert strategy_rules.list_offers(tenant="default") == []


def test_a_form_sent_twice_drafts_once_and_one_that_is_out_of_date_nothing(allowed: factories.Desk) -> None:
    digest = offer().precedent.digest
    assert propose(digest) == propose(digest, "user:8")
    decided(allowed, factories.user("olga"), Action.OVERRIDE, 130_000)
    refused = strategy_rules.propose(tenant="default", digest=digest, actor="user:9")
    assert isinstance(refused, Problem)
    assert refused.code == "PRECEDENT_MOVED"
    assert LedgerEntry.objects.filter(kind="strategy_rule:proposed").count() == 1


def test_what_people_call_unsafe_is_no_precedent(allowed: factories.Desk, people: tuple[User, User]) -> None:
    found = queries.get(tenant="default", record_id=offer().precedent.cases[0].record_id)
    assert isinstance(found, queries.Record)
    given = record_feedback.give(
        tenant="default",
        record=found,
        author=people[0],
        form_id=uuid4(),
        assessment="UNSAFE",
        reason="Too many.",
    )
    assert not isinstance(given, Problem)
    assert strategy_rules.list_offers(tenant="default") == []


def test_what_everybody_aborts_is_drafted_into_the_kind(
    db: None, few: None, people: tuple[User, User]
) -> None:
    factories.configure_target()
    desk = factories.desk()
    for who in people:
        decided(desk, who, Action.ABORT)
    shown = offer()
    assert (shown.change.place, shown.change.field) == ("policy_kind", "limits.max_notional.on_exceed")
    made = propose(shown.precedent.digest)
    row = PolicyKind.objects.get(kind=made.name, version=made.version)
    assert not row.active
    (limit,) = kind_versions.contract_of(row).limits
    assert limit.on_exceed is OnFail.REJECT
    assert canonical.decode(bytes(row.body))["title"] == gate_cases.kind().title


def test_a_number_in_the_kind_is_raised_there(db: None, few: None, people: tuple[User, User]) -> None:
    bound = {"id": "max_notional", "value": "params.notional_cents", "limit": "100000"}
    factories.configure_target()
    desk = factories.desk(kind=gate_cases.kind(limits=[bound]))
    for who in people:
        decided(desk, who, Action.OVERRIDE)
    made = propose(offer().precedent.digest)
    row = PolicyKind.objects.get(kind=made.name, version=made.version)
    assert kind_versions.contract_of(row).limits[0].limit == "150000"


def test_old_cases_and_rewritten_evidence_count_for_nothing(
    allowed: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(precedent_cases.list_cases(tenant="default", now=clock.now())) == 2
    assert precedent_cases.list_cases(tenant="other", now=clock.now()) == []
    monkeypatch.setattr(precedent_cases, "DAYS", -1)
    assert precedent_cases.list_cases(tenant="default", now=clock.now()) == []
