"""What you saw is what you signed: a decision holds for one revision, once."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from escalations.contracts import Action
from escalations.models import Decision, Escalation, Evidence
from escalations.services import deciding, drift_scan
from runtime.contracts.problem import Problem
from runtime.flows.models import Intent
from runtime.registry.models import PolicyKind
from tests.support import decision_rows, factories, gate_cases

pytestmark = pytest.mark.django_db


def revisions(escalation: Escalation) -> list[str]:
    """Why each revision of the evidence was made."""
    rows = Evidence.objects.filter(escalation=escalation).order_by("revision")
    return list(rows.values_list("why", flat=True))


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.ABORT])
def test_a_captured_decision_posted_again_is_refused(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    escalation = desk.escalate()
    request = factories.decision_request(escalation, action)
    assert isinstance(factories.send(escalation, olivia, request), deciding.DecisionResult)
    before = decision_rows.state_of(escalation)
    for account in (olivia, factories.user("mallory")):
        assert decision_rows.refused(factories.send(escalation, account, request)) == (409, "ALREADY_DECIDED")
    assert decision_rows.state_of(escalation) == before
    assert Intent.objects.count() == (action is Action.OVERRIDE)
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    ("mangle", "expected"),
    [
        (lambda text: "", (400, "HASH_UNREADABLE")),
        (lambda text: text.upper(), (400, "HASH_UNREADABLE")),
        (lambda text: text[:-1], (400, "HASH_UNREADABLE")),
        (lambda text: text + "0", (400, "HASH_UNREADABLE")),
        (lambda text: " " + text[1:], (400, "HASH_UNREADABLE")),
        (lambda text: "sha256:" + text[7:], (400, "HASH_UNREADABLE")),
        (lambda text: "\uff11" * 64, (400, "HASH_UNREADABLE")),
        (lambda text: text[::-1], (409, "EVIDENCE_CHANGED")),
        (lambda text: "0" * 64, (409, "EVIDENCE_CHANGED")),
    ],
)
def test_a_hash_is_the_one_that_was_shown_and_is_written_as_it_was_shown(
    desk: factories.Desk, olivia: User, mangle: Any, expected: tuple[int, str]
) -> None:
    escalation = desk.escalate(params={**factories.OVER_LIMIT, "notional_cents": 150_003})
    before = decision_rows.state_of(escalation)
    request = factories.decision_request(escalation)
    shown = request.evidence_hash
    assert shown.upper() != shown
    assert (
        decision_rows.refused(
            factories.send(escalation, olivia, replace(request, evidence_hash=mangle(shown)))
        )
        == expected
    )
    assert decision_rows.state_of(escalation) == before
    assert decision_rows.recorded(escalation)[-1] == ("escalation:refused", f"user:{olivia.pk}")


def test_the_hash_of_another_escalation_decides_nothing(desk: factories.Desk, olivia: User) -> None:
    mine, other = desk.escalate(), desk.escalate()
    request = replace(factories.decision_request(mine), evidence_hash=other.evidence_hash)
    assert decision_rows.refused(factories.send(mine, olivia, request)) == (409, "EVIDENCE_CHANGED")
    assert not Decision.objects.exists()


def test_the_form_of_another_escalation_decides_nothing(desk: factories.Desk, olivia: User) -> None:
    mine, other = desk.escalate(), desk.escalate()
    assert decision_rows.refused(factories.send(mine, olivia, factories.decision_request(other))) == (
        409,
        "EVIDENCE_CHANGED",
    )


@pytest.mark.parametrize("version", [0, 2, 4_294_967_295])
def test_another_version_is_refused(desk: factories.Desk, olivia: User, version: int) -> None:
    escalation = desk.escalate()
    request = replace(factories.decision_request(escalation), version=version)
    assert decision_rows.refused(factories.send(escalation, olivia, request)) == (409, "VERSION_CHANGED")


@pytest.mark.parametrize("impact", ["HIGH_IMPACT", "", "low_impact"])
def test_another_impact_than_the_one_shown_is_refused(
    desk: factories.Desk, olivia: User, impact: str
) -> None:
    escalation = desk.escalate()
    request = replace(factories.decision_request(escalation), impact=impact)
    assert decision_rows.refused(factories.send(escalation, olivia, request)) == (409, "IMPACT_CHANGED")


# drift


def test_evidence_that_changed_after_rendering_is_409_and_the_next_revision_tells_the_difference(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    request = factories.decision_request(escalation)
    factories.write("price.AAPL", 25_000)
    answer = factories.send(escalation, olivia, request)
    assert decision_rows.refused(answer) == (409, "EVIDENCE_CHANGED")
    assert isinstance(answer, Problem)
    assert "price.AAPL changed" in answer.detail
    row = Escalation.objects.get()
    assert (row.state, row.revision, row.version) == ("OPEN", 2, 2)
    assert row.evidence_hash != request.evidence_hash
    assert revisions(escalation) == ["opened", "price.AAPL changed"]
    kinds = [kind for kind, _ in decision_rows.recorded(escalation)]
    assert kinds[-2:] == ["escalation:revised", "escalation:refused"]
    first, second = [
        {fact["path"]: fact["value"] for fact in canonical.decode(bytes(item.body))["facts"]}
        for item in Evidence.objects.order_by("revision")
    ]
    assert (first["price.AAPL"], second["price.AAPL"]) == (18_950, 25_000)
    assert decision_rows.refused(factories.send(escalation, olivia, request)) == (409, "EVIDENCE_CHANGED")
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)
    assert Decision.objects.get().revision == 2


@pytest.mark.parametrize("price", [18_856, 18_951, 19_044])
def test_a_price_that_moved_within_its_bounds_lets_the_decision_stand(
    desk: factories.Desk, olivia: User, price: int
) -> None:
    escalation = desk.escalate()
    request = factories.decision_request(escalation)
    factories.write("price.AAPL", price)
    assert isinstance(factories.send(escalation, olivia, request), deciding.DecisionResult)
    assert revisions(escalation) == ["opened"]


@pytest.mark.parametrize("price", [18_900, 19_000, 19_044])
def test_an_amount_that_ticks_with_the_price_does_not_make_the_decision_impossible(
    olivia: User, price: int
) -> None:
    bound = {
        "id": "max_notional",
        "value": gate_cases.LIVE_NOTIONAL,
        "limit": "manifest.limits.max_notional_cents",
    }
    desk = factories.desk(kind=gate_cases.kind(limits=[bound]))
    escalation = desk.escalate(params={**gate_cases.PARAMS, "quantity": 10})
    request = factories.decision_request(escalation)
    factories.write("price.AAPL", price)
    assert isinstance(factories.send(escalation, olivia, request), deciding.DecisionResult)
    assert revisions(escalation) == ["opened"]


def test_a_tick_that_makes_it_weigh_more_is_shown_before_it_is_decided(olivia: User) -> None:
    kind = gate_cases.kind(impact="context.facts.price.AAPL > 19000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'")
    escalation = factories.desk(kind=kind).escalate()
    request = factories.decision_request(escalation)
    factories.write("price.AAPL", 19_010)
    assert decision_rows.refused(factories.send(escalation, olivia, request)) == (409, "EVIDENCE_CHANGED")
    assert revisions(escalation)[-1] == "the impact changed"
    assert Escalation.objects.get().impact == "HIGH_IMPACT"
    stale = factories.person(olivia, confirmed_at_ms=None)
    assert decision_rows.refused(factories.decide(escalation, olivia, who=stale)) == (401, "STEP_UP")


def test_many_small_moves_add_up_against_what_was_shown(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    for price in (19_000, 19_050):
        factories.write("price.AAPL", price)
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")


def test_a_fact_that_nothing_depends_on_is_no_drift(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    factories.write("price.MSFT", 1)
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)


def test_a_manifest_changed_between_verdict_and_override_is_drift(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    limits = {"max_notional_cents": 10}
    factories.activate(desk.agent, gate_cases.manifest(version="1.5.0", limits=limits))
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert revisions(escalation)[-1] == "the active rules changed"
    shown = factories.evidence_of(Escalation.objects.get())
    assert shown.agent.manifest_version == "1.5.0"
    assert [item.limit for item in shown.findings if item.outcome == "REFER"] == ["10"]


def test_a_manifest_that_no_longer_grants_the_kind_leaves_only_the_abort(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    factories.activate(desk.agent, gate_cases.manifest(version="1.5.0", policy_kinds=["TRANSFER_FUNDS"]))
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "NOT_LIFTABLE")
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.DecisionResult)


@pytest.mark.parametrize("withdrawn", ["kind", "manifest"])
def test_rules_that_were_withdrawn_leave_only_the_abort(
    desk: factories.Desk, olivia: User, withdrawn: str
) -> None:
    escalation = desk.escalate()
    if withdrawn == "kind":
        PolicyKind.objects.update(active=False)
    else:
        type(desk.agent).objects.update(active_manifest=None)
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "NOT_LIFTABLE")
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.DecisionResult)


def test_a_new_version_of_the_kind_is_drift_and_the_override_runs_under_it(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    factories.policy_kind(gate_cases.kind(version="1.3.0", title="Another title"))
    assert decision_rows.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)
    assert Intent.objects.get().proposal.policy_version == "1.3.0"


def test_a_passive_agent_is_shown_as_it_is_in_the_next_revision() -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=1))
    escalation = desk.escalate()
    desk.propose(desk.open(), params=factories.OVER_LIMIT)
    factories.write("price.AAPL", 25_000)
    assert drift_scan.revise_open() == 1
    shown = factories.evidence_of(Escalation.objects.get(pk=escalation.pk))
    assert shown.agent.status == "PASSIVE"
    assert shown.decision == "ESCALATE"


# what the effect is expected to change


def predicting(**prediction: Any) -> factories.Desk:
    """A desk whose kind predicts a position that it does not depend on; somebody else trades as well."""
    value = "context.facts.position[params.symbol] + params.quantity"
    kind = gate_cases.kind(predicts=[{"fact": "position.${params.symbol}", "value": value, **prediction}])
    desk = factories.desk(kind=kind)
    factories.write("position.AAPL", 94)
    return desk


def expects(escalation: Escalation) -> list[tuple[Any, Any]]:
    shown = factories.evidence_of(Escalation.objects.get(pk=escalation.pk))
    return [(item.current, item.proposed) for item in shown.difference]


def test_a_prediction_whose_base_has_moved_is_drift(olivia: User) -> None:
    escalation = predicting().escalate()
    request = factories.decision_request(escalation)
    assert expects(escalation) == [(94, 99)]
    factories.write("position.AAPL", 112)
    assert decision_rows.refused(factories.send(escalation, olivia, request)) == (409, "EVIDENCE_CHANGED")
    assert revisions(escalation)[-1] == "position.AAPL changed"
    assert expects(escalation) == [(112, 117)]
    assert isinstance(factories.decide(escalation, olivia), deciding.DecisionResult)


def test_an_open_page_hears_of_it_without_a_decision(olivia: User) -> None:
    escalation = predicting().escalate()
    assert drift_scan.revise_open() == 0
    factories.write("position.AAPL", 112)
    assert drift_scan.revise_open() == 1
    assert drift_scan.revise_open() == 0
    assert expects(escalation) == [(112, 117)]


def test_a_base_that_moved_within_the_bounds_of_its_prediction_lets_the_decision_stand(olivia: User) -> None:
    escalation = predicting(unless="current * 10 >= seen * 9 && current * 10 <= seen * 11").escalate()
    request = factories.decision_request(escalation)
    factories.write("position.AAPL", 96)
    assert drift_scan.revise_open() == 0
    assert isinstance(factories.send(escalation, olivia, request), deciding.DecisionResult)


def test_a_ticking_price_in_a_prediction_does_not_make_the_decision_impossible(olivia: User) -> None:
    value = "context.facts.cash.desk - params.quantity * context.facts.price[params.symbol]"
    desk = factories.desk(kind=gate_cases.kind(predicts=[{"fact": "cash.desk", "value": value}]))
    factories.write("cash.desk", 1_000_000)
    escalation = desk.escalate()
    request = factories.decision_request(escalation)
    for price in (18_951, 18_960, 18_940):
        factories.write("price.AAPL", price)
        assert drift_scan.revise_open() == 0
    assert isinstance(factories.send(escalation, olivia, request), deciding.DecisionResult)


def test_a_predicted_fact_that_comes_to_be_is_drift(olivia: User) -> None:
    kind = gate_cases.kind(predicts=[{"fact": "order.${params.symbol}", "value": "'placed'"}])
    escalation = factories.desk(kind=kind).escalate()
    assert expects(escalation) == [(None, "placed")]
    assert drift_scan.revise_open() == 0
    factories.write("order.AAPL", "placed")
    assert drift_scan.revise_open() == 1
    assert expects(escalation) == [("placed", "placed")]


# an abort


@pytest.mark.parametrize("is_revised", [False, True])
def test_an_abort_is_taken_on_any_revision_that_was_shown_and_signs_that_one(
    desk: factories.Desk, olivia: User, is_revised: bool
) -> None:
    escalation = desk.escalate()
    seen = factories.decision_request(escalation, Action.ABORT)
    factories.write("price.AAPL", 25_000)
    if is_revised:
        assert drift_scan.revise_open() == 1
    assert isinstance(factories.send(escalation, olivia, seen), deciding.DecisionResult)
    decision = Decision.objects.get()
    said = canonical.decode(bytes(decision.statement))
    assert (decision.revision, decision.evidence_hash) == (1, seen.evidence_hash)
    assert (said["revision"], said["evidence_hash"]) == (1, seen.evidence_hash)
    assert said.get("revision_in_force") == (2 if is_revised else None)
    assert Escalation.objects.get().flow.state == "ABORTED"


def test_an_abort_signs_the_impact_of_the_revision_that_was_shown(olivia: User) -> None:
    kind = gate_cases.kind(impact="context.facts.price.AAPL > 19000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'")
    escalation = factories.desk(kind=kind).escalate()
    seen = factories.decision_request(escalation, Action.ABORT)
    factories.write("price.AAPL", 19_010)
    assert drift_scan.revise_open() == 1
    wrong = replace(seen, impact="HIGH_IMPACT")
    assert decision_rows.refused(factories.send(escalation, olivia, wrong)) == (409, "IMPACT_CHANGED")
    assert isinstance(factories.send(escalation, olivia, seen), deciding.DecisionResult)
    assert canonical.decode(bytes(Decision.objects.get().statement))["impact"] == "LOW_IMPACT"


def test_an_abort_of_evidence_that_was_never_shown_is_refused(desk: factories.Desk, olivia: User) -> None:
    mine, other = desk.escalate(), desk.escalate()
    request = factories.decision_request(mine, Action.ABORT)
    for made, code in (
        (replace(request, evidence_hash=other.evidence_hash), "EVIDENCE_CHANGED"),
        (replace(request, version=2), "VERSION_CHANGED"),
    ):
        assert decision_rows.refused(factories.send(mine, olivia, made)) == (409, code)
    short = replace(request, evidence_hash=request.evidence_hash[:-1])
    assert decision_rows.refused(factories.send(mine, olivia, short)) == (400, "HASH_UNREADABLE")
    assert not Decision.objects.exists()


# the queue


def test_the_queue_shows_the_figures_of_the_revision_in_force(olivia: User) -> None:
    bound = {
        "id": "max_notional",
        "value": gate_cases.LIVE_NOTIONAL,
        "limit": "manifest.limits.max_notional_cents",
    }
    desk = factories.desk(kind=gate_cases.kind(limits=[bound]))
    escalation = desk.escalate(params={**gate_cases.PARAMS, "quantity": 10})
    assert (escalation.proposed_value, escalation.limit) == ("189500", "100000")
    factories.write("price.AAPL", 25_000)
    assert drift_scan.revise_open() == 1
    row = Escalation.objects.get()
    assert (row.revision, row.proposed_value, row.limit) == (2, "250000", "100000")
    factories.write("price.AAPL", 1)
    assert drift_scan.revise_open() == 1
    row = Escalation.objects.get()
    assert (row.revision, row.proposed_value, row.limit) == (3, "", "")
