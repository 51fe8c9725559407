"""Decisions: what each action does, who may take it, and that a refusal is recorded and changes nothing."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from audit import canonical
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.epochs.models import Epoch
from runtime.flows.models import Feedback, Intent, Proposal
from runtime.flows.services import flows
from runtime.registry.models import Agent
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db

WEIGHTY = {"params": factories.HIGH_IMPACT}


def held_back(
    escalation: Escalation, account: User, *named: Any, expected: tuple[int, str], **fields: Any
) -> None:
    """A decision is refused so; the refusal is recorded, and nothing else changes."""
    before, entries = decision_rows.state_of(escalation), decision_rows.recorded(escalation)
    answer = factories.decide(escalation, account, *named, **fields)
    assert decision_rows.refused(answer) == expected
    assert decision_rows.state_of(escalation) == before
    added = decision_rows.recorded(escalation)[len(entries) :]
    assert added == [("escalation:refused", f"user:{account.pk}")]
    assert decision_rows.last_payload(escalation)["code"] == expected[1]


# what each action does


def test_an_override_runs_what_the_agent_proposed_by_a_stronger_author(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    answer = factories.decide(escalation, olivia)
    assert answer == deciding.DecisionResult(action=Action.OVERRIDE, dfid=escalation.flow_id)
    intent = Intent.objects.get()
    assert intent.flow.state == "ACCEPTED"
    assert intent.proposal.author == f"user:{olivia.pk}"
    assert canonical.decode(bytes(intent.proposal.body))["params"] == factories.OVER_LIMIT
    row = Escalation.objects.get()
    assert (row.state, row.resolution, row.version) == ("RESOLVED", "OVERRIDE", 2)
    kinds = [kind for kind, _ in decision_rows.recorded(escalation)]
    assert kinds[-6:] == [
        "escalation:decided",
        "proposal:submitted",
        "verdict:given",
        "flow:moved",
        "intent:created",
        "record:emitted",
    ]


def test_a_modify_runs_the_changed_parameters_and_tells_the_agent(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    changed = {**gate_cases.PARAMS, "notional_cents": 120_000, "quantity": 4}
    answer = factories.decide(escalation, olivia, Action.MODIFY, params=changed)
    assert isinstance(answer, deciding.DecisionResult)
    intent = Intent.objects.get()
    assert canonical.decode(bytes(intent.proposal.body))["params"] == changed
    told = Feedback.objects.get(event_type="ESCALATION_RESOLVED")
    assert canonical.decode(bytes(told.body)) == {
        "escalation_id": str(escalation.pk),
        "action": "MODIFY",
        "params": changed,
    }


@pytest.mark.parametrize("params", [factories.OVER_LIMIT, factories.HIGH_IMPACT], ids=["low", "high"])
def test_an_abort_needs_no_typing_no_reason_and_no_password(
    desk: factories.Desk, olivia: User, params: dict[str, Any]
) -> None:
    escalation = desk.escalate(params=params)
    answer = factories.decide(
        escalation,
        olivia,
        Action.ABORT,
        who=factories.person(olivia, confirmed_at_ms=None),
        justification="",
        typed_again="",
    )
    assert isinstance(answer, deciding.DecisionResult)
    assert escalation.flow.__class__.objects.get().state == "ABORTED"
    assert not Intent.objects.exists()
    told = list(Feedback.objects.order_by("seq").values_list("event_type", flat=True))
    assert set(told[-2:]) == {"FLOW_ABORTED", "ESCALATION_RESOLVED"}


def test_conditions_become_part_of_what_runs(desk: factories.Desk, olivia: User) -> None:
    condition = "context.facts.price.AAPL < 19000"
    factories.decide(desk.escalate(), olivia, conditions=(condition,))
    body = canonical.decode(bytes(Intent.objects.get().proposal.body))
    assert body["conditions"] == [condition]


def test_a_decision_holds_for_one_window_of_the_proposals_own_length(
    desk: factories.Desk, olivia: User
) -> None:
    factories.decide(desk.escalate(), olivia)
    row = Decision.objects.get()
    proposal = Intent.objects.get().proposal
    assert proposal.received_at == row.decided_at
    assert (proposal.valid_until - proposal.received_at).total_seconds() == 30
    assert canonical.decode(bytes(row.statement))["valid_until"].endswith("Z")


def test_a_passive_agents_granted_escalations_can_still_be_decided(olivia: User) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=1))
    granted = desk.escalate()
    assert desk.propose(desk.open(), params=factories.OVER_LIMIT)["verdict"] == "REJECT"
    assert desk.again().status == "PASSIVE"
    assert isinstance(factories.decide(granted, olivia), deciding.DecisionResult)


def test_a_persons_decision_spends_no_token_and_no_attempt(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    before = desk.again().escalation_millitokens
    factories.decide(escalation, olivia)
    assert desk.again().escalation_millitokens == before
    assert Intent.objects.get().flow.attempts_used == 0


# who may


def test_a_role_that_was_lost_after_the_page_loaded_is_refused(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    olivia.groups.clear()
    held_back(escalation, olivia, expected=(403, "ROLE_MISSING"))


@pytest.mark.parametrize("role", ["admin", "auditor"])
def test_an_admin_or_auditor_does_not_decide(desk: factories.Desk, role: str) -> None:
    held_back(desk.escalate(), factories.user("ada", role), Action.ABORT, expected=(403, "ROLE_MISSING"))


def test_who_may_not_decide_does_not_even_revise_what_has_drifted(desk: factories.Desk) -> None:
    escalation = desk.escalate()
    factories.write("price.AAPL", 99_999)
    held_back(escalation, factories.user("ada", "auditor"), expected=(403, "ROLE_MISSING"))


@pytest.mark.parametrize("age_s", [301, 10_000])
def test_a_password_given_too_long_ago_is_asked_for_again(
    desk: factories.Desk, olivia: User, age_s: int
) -> None:
    given_ms = factories.person(olivia).confirmed_at_ms
    assert given_ms is not None
    stale = factories.person(olivia, confirmed_at_ms=given_ms - age_s * 1000)
    held_back(desk.escalate(**WEIGHTY), olivia, who=stale, expected=(401, "STEP_UP"))


def test_the_owner_of_an_agent_does_not_decide_for_it(olivia: User) -> None:
    held_back(factories.desk(owner="olivia").escalate(), olivia, expected=(403, "SEPARATION_OF_DUTY"))


def test_a_member_of_the_owning_group_does_not_decide(desk: factories.Desk) -> None:
    member = factories.user("mara", groups=("operator", "trading-desk"))
    held_back(desk.escalate(), member, Action.MODIFY, expected=(403, "SEPARATION_OF_DUTY"))


def test_who_activated_the_manifest_in_the_last_days_does_not_decide(
    desk: factories.Desk, olivia: User
) -> None:
    factories.activate(desk.agent, gate_cases.manifest(version="1.5.0"), by=f"user:{olivia.pk}")
    held_back(desk.escalate(), olivia, expected=(403, "SEPARATION_OF_DUTY"))


def test_a_manifest_activated_after_the_page_loaded_binds_its_editor_too(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    factories.activate(desk.agent, gate_cases.manifest(version="1.5.0"), by=f"user:{olivia.pk}")
    first = factories.decide(escalation, olivia)
    assert decision_rows.refused(first) == (409, "EVIDENCE_CHANGED")
    held_back(escalation, olivia, expected=(403, "SEPARATION_OF_DUTY"))


def test_the_only_person_decides_on_their_own_agent_and_the_record_says_so(olivia: User) -> None:
    escalation = factories.desk(owner="olivia").escalate()
    answer = factories.decide(escalation, olivia, who=factories.person(olivia, is_solo=True))
    assert isinstance(answer, deciding.DecisionResult)
    row = Decision.objects.get()
    assert row.solo
    assert canonical.decode(bytes(row.statement))["solo"] is True


# what is missing


@pytest.mark.parametrize("typed", ["", "300001", "3000000", "300 000", "\uff13\uff10\uff10000"])
def test_the_amount_of_a_high_impact_decision_is_typed_again(
    desk: factories.Desk, olivia: User, typed: str
) -> None:
    held_back(desk.escalate(**WEIGHTY), olivia, typed_again=typed, expected=(400, "TYPE_AGAIN"))


def test_space_around_what_is_typed_again_does_not_matter(desk: factories.Desk, olivia: User) -> None:
    answer = factories.decide(desk.escalate(**WEIGHTY), olivia, typed_again=" 300000 ")
    assert isinstance(answer, deciding.DecisionResult)


def test_a_target_that_ends_in_a_space_can_be_typed_again(olivia: User) -> None:
    schema = {**gate_cases.KIND["params_schema"]}
    schema["properties"] = {**schema["properties"], "symbol": {"type": "string"}}
    kind = gate_cases.kind(
        params_schema=schema,
        limits=[],
        depends_on=[],
        constraints=[],
        predicts=[],
        effect="{action} {symbol}",
    )
    desk = factories.desk(kind=kind)
    params = {**factories.HIGH_IMPACT, "action": "SELL", "symbol": "AAPL "}
    assert isinstance(factories.decide(desk.escalate(params=params), olivia), deciding.DecisionResult)


@pytest.mark.parametrize(
    ("params", "reason"),
    [(factories.OVER_LIMIT, " "), (factories.HIGH_IMPACT, "agreed"), (factories.HIGH_IMPACT, " " * 40)],
)
def test_a_reason_is_written_before_anything_runs(
    desk: factories.Desk, olivia: User, params: dict[str, Any], reason: str
) -> None:
    escalation = desk.escalate(params=params)
    held_back(escalation, olivia, justification=reason, expected=(400, "JUSTIFICATION_MISSING"))


def test_a_modify_without_parameters_is_refused(desk: factories.Desk, olivia: User) -> None:
    held_back(desk.escalate(), olivia, Action.MODIFY, expected=(400, "PARAMS_MISSING"))


# what the gate refuses


@pytest.mark.parametrize(
    "change",
    [
        {"notional_cents": 150_001},
        {"quantity": 0},
        {"hidden": 1},
        {"__proto__": {"admin": True}},
        {"symbol": "GOOG"},
        {"action": "SELL"},
    ],
    ids=str,
)
def test_a_modify_beyond_what_was_shown_is_refused(
    desk: factories.Desk, olivia: User, change: dict[str, Any]
) -> None:
    params = {**factories.OVER_LIMIT, **change}
    held_back(desk.escalate(), olivia, Action.MODIFY, params=params, expected=(409, "GATE_REFUSED"))


def test_a_modify_does_not_weigh_more_than_what_was_shown(olivia: User) -> None:
    # A sale is of low impact here and a purchase of high: a fresh password was never asked for.
    kind = gate_cases.kind(impact="params.action == 'BUY' ? 'HIGH_IMPACT' : 'LOW_IMPACT'")
    escalation = factories.desk(kind=kind).escalate(params={**gate_cases.PARAMS, "action": "SELL"})
    held_back(escalation, olivia, Action.MODIFY, params=gate_cases.PARAMS, expected=(409, "IMPACT_RAISED"))


def test_a_modify_may_weigh_less_than_what_was_shown(olivia: User) -> None:
    kind = gate_cases.kind(impact="params.action == 'SELL' ? 'HIGH_IMPACT' : 'LOW_IMPACT'")
    escalation = factories.desk(kind=kind).escalate(params={**gate_cases.PARAMS, "action": "SELL"})
    answer = factories.decide(escalation, olivia, Action.MODIFY, params=gate_cases.PARAMS)
    assert isinstance(answer, deciding.DecisionResult)


def test_the_refusal_of_the_gate_says_why(desk: factories.Desk, olivia: User) -> None:
    params = {**factories.OVER_LIMIT, "notional_cents": 150_001}
    answer = factories.decide(desk.escalate(), olivia, Action.MODIFY, params=params)
    assert isinstance(answer, Problem)
    (violation,) = answer.violations
    assert violation.pointer == "/limits"
    assert "150001 is above the limit of 100000" in violation.message


def test_the_refusal_of_the_gate_writes_amounts_with_their_unit(olivia: User) -> None:
    (limit,) = gate_cases.KIND["limits"]
    kind = gate_cases.kind(limits=[{**limit, "unit": "cents USD"}])
    params = {**factories.OVER_LIMIT, "notional_cents": 150_001}
    answer = factories.decide(factories.desk(kind=kind).escalate(), olivia, Action.MODIFY, params=params)
    assert isinstance(answer, Problem)
    assert [item.message for item in answer.violations] == [
        "RISK_LIMIT_EXCEEDED: max_notional: 1,500.01 USD is above the limit of 1,000.00 USD"
    ]


@pytest.mark.parametrize(
    "condition", ["context.facts.price.AAPL < 1", "context.facts.price.GOOG < 1", "budget.escalation_tokens"]
)
def test_a_condition_that_does_not_hold_at_the_gate_is_refused(
    desk: factories.Desk, olivia: User, condition: str
) -> None:
    held_back(desk.escalate(), olivia, conditions=(condition,), expected=(409, "GATE_REFUSED"))


@pytest.mark.parametrize("condition", ["1 +", "nothing == 1", "params.all(p, true)", "x" * 2001])
def test_a_condition_that_cannot_be_read_is_refused(
    desk: factories.Desk, olivia: User, condition: str
) -> None:
    held_back(desk.escalate(), olivia, conditions=(condition,), expected=(400, "CONDITION_UNREADABLE"))


def test_a_condition_may_read_facts_and_history_that_the_kind_does_not(
    desk: factories.Desk, olivia: User
) -> None:
    factories.write("cash.main", 10)
    conditions = ("context.facts.cash.main == 10", "history.proposals_1h >= 1")
    assert isinstance(
        factories.decide(desk.escalate(), olivia, conditions=conditions), deciding.DecisionResult
    )


def test_an_override_of_a_fail_is_refused_but_an_abort_is_not(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    factories.write("market.state", "CLOSED")
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    held_back(escalation, olivia, expected=(409, "NOT_LIFTABLE"))
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.DecisionResult)


@pytest.mark.parametrize("status", ["SUSPENDED", "LOCKED", "RETIRED"])
def test_nothing_of_a_barred_agent_runs_but_it_can_be_aborted(
    desk: factories.Desk, olivia: User, status: str
) -> None:
    escalation = desk.escalate()
    Agent.objects.update(status=status)
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    held_back(escalation, olivia, expected=(409, "NOT_LIFTABLE"))
    held_back(escalation, olivia, Action.MODIFY, params=gate_cases.PARAMS, expected=(409, "GATE_REFUSED"))
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.DecisionResult)


# the families


@pytest.mark.parametrize("action", [Action.RESUME, Action.MARK_DONE])
def test_the_actions_of_the_other_family_are_refused(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    held_back(desk.escalate(), olivia, action, expected=(400, "ACTION_UNKNOWN"))


def test_an_unknown_escalation_and_another_tenants_are_not_found(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    for tenant, escalation_id in (("default", uuid4()), ("other", escalation.pk)):
        answer = deciding.decide(
            tenant=tenant,
            escalation_id=escalation_id,
            person=factories.person(olivia),
            user=olivia,
            request=factories.decision_request(escalation),
        )
        assert decision_rows.refused(answer) == (404, "ESCALATION_NOT_FOUND")


def test_an_escalation_of_a_flow_that_its_agent_withdrew_is_closed(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    flows.cancel(agent=desk.again(), dfid=escalation.flow_id, reason="no longer wanted")
    assert Escalation.objects.get().state == "WITHDRAWN"
    held_back(escalation, olivia, Action.ABORT, expected=(409, "ALREADY_DECIDED"))
    assert Proposal.objects.count() == 1
    assert clock.now() >= Escalation.objects.get().opened_at


def test_after_a_restore_only_an_abort_is_taken(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    Epoch.objects.update(restored_at=clock.now(), missing=b"{}")
    held_back(escalation, olivia, expected=(503, "RECOVERY"))
    answer = factories.decide(escalation, olivia, Action.ABORT)
    assert answer == deciding.DecisionResult(action=Action.ABORT, dfid=escalation.flow_id)
