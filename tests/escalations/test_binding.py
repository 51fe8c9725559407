"""What you saw is what you signed: a decision holds for one revision, once."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit import canonical
from escalations.contracts import Action
from escalations.models import Decision, Escalation, Evidence
from escalations.services import deciding, drifting, revising
from escalations.services.wishes import Wish
from runtime.contracts.problem import Problem
from runtime.models import Intent, PolicyKind
from tests import builders, factories
from tests.escalations import ground

pytestmark = pytest.mark.django_db


def send(escalation: Escalation, account: User, wish: Wish) -> deciding.Decided | Problem:
    """Post a form as it was captured."""
    return deciding.decide(
        tenant="default",
        escalation_id=escalation.pk,
        person=factories.person(account),
        user=account,
        wish=wish,
    )


def revisions(escalation: Escalation) -> list[str]:
    """Why each revision of the evidence was made."""
    rows = Evidence.objects.filter(escalation=escalation).order_by("revision")
    return list(rows.values_list("why", flat=True))


@pytest.mark.parametrize("action", [Action.OVERRIDE, Action.ABORT])
def test_a_captured_decision_posted_again_is_refused(
    desk: factories.Desk, olivia: User, action: Action
) -> None:
    escalation = desk.escalate()
    wish = factories.wish(escalation, action)
    assert isinstance(send(escalation, olivia, wish), deciding.Decided)
    before = ground.state_of(escalation)
    for account in (olivia, factories.user("mallory")):
        assert ground.refused(send(escalation, account, wish)) == (409, "ALREADY_DECIDED")
    assert ground.state_of(escalation) == before
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
    before = ground.state_of(escalation)
    wish = factories.wish(escalation)
    shown = wish.evidence_hash
    assert shown.upper() != shown
    assert ground.refused(send(escalation, olivia, replace(wish, evidence_hash=mangle(shown)))) == expected
    assert ground.state_of(escalation) == before
    assert ground.recorded(escalation)[-1] == ("escalation:refused", f"user:{olivia.pk}")


def test_the_hash_of_another_escalation_decides_nothing(desk: factories.Desk, olivia: User) -> None:
    mine, other = desk.escalate(), desk.escalate()
    wish = replace(factories.wish(mine), evidence_hash=other.evidence_hash)
    assert ground.refused(send(mine, olivia, wish)) == (409, "EVIDENCE_CHANGED")
    assert not Decision.objects.exists()


def test_the_form_of_another_escalation_decides_nothing(desk: factories.Desk, olivia: User) -> None:
    mine, other = desk.escalate(), desk.escalate()
    assert ground.refused(send(mine, olivia, factories.wish(other))) == (409, "EVIDENCE_CHANGED")


@pytest.mark.parametrize("version", [0, 2, 4_294_967_295])
def test_another_version_is_refused(desk: factories.Desk, olivia: User, version: int) -> None:
    escalation = desk.escalate()
    wish = replace(factories.wish(escalation), version=version)
    assert ground.refused(send(escalation, olivia, wish)) == (409, "VERSION_CHANGED")


@pytest.mark.parametrize("impact", ["HIGH_IMPACT", "", "low_impact"])
def test_another_impact_than_the_one_shown_is_refused(
    desk: factories.Desk, olivia: User, impact: str
) -> None:
    escalation = desk.escalate()
    wish = replace(factories.wish(escalation), impact=impact)
    assert ground.refused(send(escalation, olivia, wish)) == (409, "IMPACT_CHANGED")


# drift


def test_evidence_that_changed_after_rendering_is_409_and_the_next_revision_tells_the_difference(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    wish = factories.wish(escalation)
    factories.write("price.AAPL", 25_000)
    answer = send(escalation, olivia, wish)
    assert ground.refused(answer) == (409, "EVIDENCE_CHANGED")
    assert isinstance(answer, Problem)
    assert "price.AAPL moved" in answer.detail
    row = Escalation.objects.get()
    assert (row.state, row.revision, row.version) == ("OPEN", 2, 2)
    assert row.evidence_hash != wish.evidence_hash
    assert revisions(escalation) == ["opened", "price.AAPL moved"]
    kinds = [kind for kind, _ in ground.recorded(escalation)]
    assert kinds[-2:] == ["escalation:revised", "escalation:refused"]
    first, second = [
        {fact["path"]: fact["value"] for fact in canonical.decode(bytes(item.body))["facts"]}
        for item in Evidence.objects.order_by("revision")
    ]
    assert (first["price.AAPL"], second["price.AAPL"]) == (18_950, 25_000)
    assert ground.refused(send(escalation, olivia, wish)) == (409, "EVIDENCE_CHANGED")
    assert isinstance(factories.decide(escalation, olivia), deciding.Decided)
    assert Decision.objects.get().revision == 2


@pytest.mark.parametrize("price", [18_856, 18_951, 19_044])
def test_a_price_that_moved_within_its_bounds_lets_the_decision_stand(
    desk: factories.Desk, olivia: User, price: int
) -> None:
    escalation = desk.escalate()
    wish = factories.wish(escalation)
    factories.write("price.AAPL", price)
    assert isinstance(send(escalation, olivia, wish), deciding.Decided)
    assert revisions(escalation) == ["opened"]


@pytest.mark.parametrize("price", [18_900, 19_000, 19_044])
def test_an_amount_that_ticks_with_the_price_does_not_make_the_decision_impossible(
    olivia: User, price: int
) -> None:
    bound = {
        "id": "max_notional",
        "value": builders.LIVE_NOTIONAL,
        "limit": "manifest.limits.max_notional_cents",
    }
    desk = factories.desk(kind=builders.kind(limits=[bound]))
    escalation = desk.escalate(params={**builders.PARAMS, "quantity": 10})
    wish = factories.wish(escalation)
    factories.write("price.AAPL", price)
    assert isinstance(send(escalation, olivia, wish), deciding.Decided)
    assert revisions(escalation) == ["opened"]


def test_a_tick_that_makes_it_weigh_more_is_shown_before_it_is_decided(olivia: User) -> None:
    kind = builders.kind(impact="context.facts.price.AAPL > 19000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'")
    escalation = factories.desk(kind=kind).escalate()
    wish = factories.wish(escalation)
    factories.write("price.AAPL", 19_010)
    assert ground.refused(send(escalation, olivia, wish)) == (409, "EVIDENCE_CHANGED")
    assert revisions(escalation)[-1] == "the impact is another"
    assert Escalation.objects.get().impact == "HIGH_IMPACT"
    stale = factories.person(olivia, confirmed_at_ms=None)
    assert ground.refused(factories.decide(escalation, olivia, who=stale)) == (401, "STEP_UP")


def test_many_small_moves_add_up_against_what_was_shown(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    for price in (19_000, 19_050):
        factories.write("price.AAPL", price)
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")


def test_a_fact_that_nothing_depends_on_is_no_drift(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    factories.write("price.MSFT", 1)
    assert isinstance(factories.decide(escalation, olivia), deciding.Decided)


def test_a_manifest_changed_between_verdict_and_override_is_drift(desk: factories.Desk, olivia: User) -> None:
    escalation = desk.escalate()
    limits = {"max_notional_cents": 10}
    factories.activate(desk.agent, builders.manifest(version="1.5.0", limits=limits))
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert revisions(escalation)[-1] == "the rules in force changed"
    shown = revising.get_shown(Escalation.objects.get())
    assert shown["agent"]["manifest_version"] == "1.5.0"
    assert [item["limit"] for item in shown["findings"] if item["outcome"] == "REFER"] == ["10"]


def test_a_manifest_that_no_longer_grants_the_kind_leaves_only_the_abort(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    factories.activate(desk.agent, builders.manifest(version="1.5.0", policy_kinds=["TRANSFER_FUNDS"]))
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "NOT_LIFTABLE")
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.Decided)


@pytest.mark.parametrize("withdrawn", ["kind", "manifest"])
def test_rules_that_were_withdrawn_leave_only_the_abort(
    desk: factories.Desk, olivia: User, withdrawn: str
) -> None:
    escalation = desk.escalate()
    if withdrawn == "kind":
        PolicyKind.objects.update(active=False)
    else:
        type(desk.agent).objects.update(active_manifest=None)
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "NOT_LIFTABLE")
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.Decided)


def test_a_new_version_of_the_kind_is_drift_and_the_override_runs_under_it(
    desk: factories.Desk, olivia: User
) -> None:
    escalation = desk.escalate()
    factories.policy_kind(builders.kind(version="1.3.0", title="Another title"))
    assert ground.refused(factories.decide(escalation, olivia)) == (409, "EVIDENCE_CHANGED")
    assert isinstance(factories.decide(escalation, olivia), deciding.Decided)
    assert Intent.objects.get().proposal.policy_version == "1.3.0"


def test_a_passive_agent_is_shown_as_it_is_in_the_next_revision() -> None:
    desk = factories.desk(manifest=builders.manifest(escalations_per_hour=1))
    escalation = desk.escalate()
    desk.propose(desk.open(), params=factories.OVER_LIMIT)
    factories.write("price.AAPL", 25_000)
    assert drifting.revise_open() == 1
    shown = revising.get_shown(Escalation.objects.get(pk=escalation.pk))
    assert shown["agent"]["status"] == "PASSIVE"
    assert shown["decision"] == "ESCALATE"
