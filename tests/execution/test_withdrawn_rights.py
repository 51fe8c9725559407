"""Rights taken away after ACCEPT: what waits is asked again of the rules in force before its call."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from pytest_django.fixtures import Settings

from audit import events
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Feedback, Intent, Outcome
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Manifest, PolicyKind
from runtime.registry.services import manifests
from runtime.stops.services import stops
from tests.support import decision_rows, factories, fake_target, gate_cases, misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db
CROSSED = "RISK_LIMIT_EXCEEDED"


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, b'{"order_id":"o1"}')) as running:
        yield running


@pytest.fixture
def desk(target: misbehaving_targets.StandIn) -> factories.Desk:
    factories.configure_target(base_url=target.base_url)
    return factories.desk()


@pytest.fixture
def olivia() -> User:
    return factories.user()


def put_in_force(version: str, **fields: Any) -> None:
    """Draft and activate a version of the trader's manifest, as two admins do on its pages."""
    seen = Manifest.objects.filter(activated_at__isnull=False).order_by("-activated_at", "-pk")[0].version
    text = gate_cases.manifest(version=version, **fields).to_bytes().decode()
    made = manifests.draft(tenant="default", agent_id="trader", text=text, actor="user:901")
    assert isinstance(made, Manifest), made
    done = manifests.activate(
        tenant="default",
        agent_id="trader",
        version=version,
        seen_active=seen,
        reason="less from now on",
        actor="user:902",
    )
    assert isinstance(done, Manifest), done


def limit(version: str, cents: int) -> None:
    put_in_force(version, limits={"max_notional_cents": cents})


def accepted(desk: factories.Desk) -> Intent:
    flow = desk.open()
    assert desk.propose(flow)["verdict"] == "ACCEPT"
    return Intent.objects.get(flow_id=flow.dfid)


def attempt(intent: Intent) -> attempting.AttemptResult:
    return attempting.attempt(intent.pk, owner="worker")


def states(intent: Intent) -> tuple[IntentState, FlowState]:
    return trading_desk.states(intent.pk)


def asked() -> Escalation:
    return Escalation.objects.get(state="OPEN")


def decide(escalation: Escalation, who: User, action: Action, **fields: Any) -> None:
    answer = factories.decide(escalation, who, action, **fields)
    assert isinstance(answer, deciding.DecisionResult), answer


def test_what_waits_does_not_run_above_a_limit_tightened_since(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    intent = accepted(desk)
    stops.stop_all(tenant="default", actor="user:1", reason="look first")
    assert attempt(intent).status is AttemptStatus.HELD
    limit("1.5.0", 100)
    assert stops.resume_all(tenant="default", actor="user:901")

    found = attempt(intent)

    assert (found.status, found.detail) == (AttemptStatus.WITH_PERSON, CROSSED)
    assert target.seen == []
    assert states(intent) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    row = asked()
    assert (row.family, row.reason, row.proposed_value, row.limit) == ("OPERATIONAL", CROSSED, "94750", "100")
    shown = factories.evidence_of(row)
    assert (shown.agent.manifest_version, shown.manifest_limits) == (
        "1.5.0",
        {"max_notional_cents": 100},
    )
    assert shown.type_again == "94750"
    assert trading_desk.kinds(intent.pk)[:2] == ["record:emitted", "intent:blocked"]
    assert isinstance(verify_database(), Whole)


def test_rules_that_changed_elsewhere_stop_nothing(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    intent = accepted(desk)
    limit("1.5.0", 94_750)
    factories.policy_kind(gate_cases.kind(version="1.3.0", title="Adjust it"))
    assert attempt(intent).status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


def test_what_no_longer_fits_the_kind_in_force_is_for_a_person(
    desk: factories.Desk, target: misbehaving_targets.StandIn, olivia: User
) -> None:
    intent = accepted(desk)
    few = {**gate_cases.KIND["params_schema"]["properties"], "quantity": {"type": "integer", "maximum": 4}}
    narrower = {**gate_cases.KIND["params_schema"], "properties": few}
    factories.policy_kind(gate_cases.kind(version="1.3.0", params_schema=narrower))

    found = attempt(intent)

    assert (found.status, found.detail) == (AttemptStatus.WITH_PERSON, "INVALID_SCHEMA")
    assert target.seen == []
    decide(asked(), olivia, Action.RESUME)
    assert LedgerEntry.objects.get(kind="intent:resumed").payload["lifted"] == ["ADJUST_POSITION 1.3.0"]
    assert attempt(intent).status is AttemptStatus.SUCCEEDED
    assert isinstance(verify_database(), Whole)


def test_a_person_resumes_it_against_the_limit_that_was_shown_and_no_tighter_one(
    desk: factories.Desk, target: misbehaving_targets.StandIn, olivia: User
) -> None:
    intent = accepted(desk)
    limit("1.5.0", 200)
    attempt(intent)
    decide(asked(), olivia, Action.RESUME)
    resumed = LedgerEntry.objects.get(kind="intent:resumed").payload
    assert resumed["lifted"] == ["max_notional"]

    limit("1.6.0", 199)
    assert attempt(intent).status is AttemptStatus.WITH_PERSON
    decide(asked(), olivia, Action.RESUME)
    limit("1.7.0", 300)

    assert attempt(intent).status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


def test_an_override_lifts_the_limit_that_the_person_saw_and_no_tighter_one(
    desk: factories.Desk, target: misbehaving_targets.StandIn, olivia: User
) -> None:
    decide(desk.escalate(), olivia, Action.OVERRIDE)
    first = Intent.objects.get()
    limit("1.5.0", 100_000)
    assert attempt(first).status is AttemptStatus.SUCCEEDED

    decide(desk.escalate(), olivia, Action.OVERRIDE)
    second = Intent.objects.exclude(pk=first.pk).get()
    limit("1.6.0", 99_999)
    assert attempt(second).status is AttemptStatus.WITH_PERSON
    assert len(target.seen) == 1


def test_an_abort_ends_it_and_something_smaller_can_run_in_its_place(
    desk: factories.Desk, target: misbehaving_targets.StandIn, olivia: User
) -> None:
    ended, replaced = accepted(desk), accepted(desk)
    limit("1.5.0", 50_000)
    attempt(ended)
    decide(asked(), olivia, Action.ABORT)
    assert states(ended) == (IntentState.FAILED, FlowState.ABORTED)

    attempt(replaced)
    less = {**gate_cases.PARAMS, "quantity": 2, "notional_cents": 37_900}
    decide(asked(), olivia, Action.MODIFY, params=less)
    assert states(replaced)[0] is IntentState.CANCELLED
    (new,) = Intent.objects.filter(state=IntentState.PENDING)
    assert attempt(new).status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


def test_what_weighs_is_typed_again_before_it_runs_above_a_limit(
    target: misbehaving_targets.StandIn, olivia: User
) -> None:
    heavy = factories.desk(kind=gate_cases.kind(impact="'HIGH_IMPACT'"))
    intent = accepted(heavy)
    limit("1.5.0", 100)
    attempt(intent)
    refused = factories.decide(asked(), olivia, Action.RESUME, typed_again="")
    assert isinstance(refused, Problem)
    assert decision_rows.refused(refused) == (400, "TYPE_AGAIN")
    decide(asked(), olivia, Action.RESUME)


@pytest.mark.parametrize("narrowed", [{"policy_kinds": []}, {"scope": {"symbol": ["MSFT"]}}])
def test_a_right_that_is_gone_ends_it_with_its_reason(
    desk: factories.Desk, target: misbehaving_targets.StandIn, narrowed: dict[str, Any]
) -> None:
    intent = accepted(desk)
    put_in_force("1.5.0", **narrowed)
    found = attempt(intent)
    assert (found.status, found.detail) == (AttemptStatus.BLOCKED, "UNAUTHORIZED")
    assert states(intent) == (IntentState.FAILED, FlowState.ABORTED)
    assert Outcome.objects.get(pk=intent.pk).error_category == "UNAUTHORIZED"
    assert [row.event_type for row in Feedback.objects.filter(flow_id=intent.flow_id).order_by("seq")][
        -1
    ] == ("FLOW_ABORTED")
    assert (target.seen, Escalation.objects.count()) == ([], 0)


def test_a_kind_of_which_no_version_is_in_force_ends_it(
    desk: factories.Desk, target: misbehaving_targets.StandIn
) -> None:
    intent = accepted(desk)
    PolicyKind.objects.update(active=False)
    found = attempt(intent)
    assert (found.status, found.detail, target.seen) == (AttemptStatus.BLOCKED, "CAPABILITY_NOT_FOUND", [])


def record_unknown(intent: Intent) -> None:
    """The entries of the intent's first attempt, which ended unknown."""
    with transaction.atomic():
        journal = Journal(flow=trading_desk.flow_of(intent.pk), actor="system", at=clock.now())
        journal.add(
            events.AttemptStarted(
                intent_id=str(intent.pk),
                number=1,
                step="order",
                target_key="k" * 64,
                lease_until=clock.now(),
            ),
            events.AttemptFinished(intent_id=str(intent.pk), number=1, result="UNKNOWN"),
        )
        journal.write()


@pytest.mark.parametrize("changed", [{"limits": {"max_notional_cents": 1}}, {"policy_kinds": []}])
def test_what_is_in_doubt_goes_to_a_person_whatever_was_taken(
    desk: factories.Desk, target: misbehaving_targets.StandIn, changed: dict[str, Any]
) -> None:
    intent = accepted(desk)
    intent.attempt_rows.create(
        number=1,
        step="order",
        target_key="k" * 64,
        lease_owner="worker",
        state="UNKNOWN",
        started_at=clock.now(),
    )
    Intent.objects.filter(pk=intent.pk).update(attempts=1)
    record_unknown(intent)
    put_in_force("1.5.0", **changed)
    attempt(intent)
    assert states(intent) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert (asked().reason, target.seen) == ("IN_DOUBT", [])


def test_a_right_taken_between_two_steps_turns_back_and_undoing_asks_for_none(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack())
    with fake_target.opened() as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        assert fake_target.attempt(intent_id).status is AttemptStatus.ADVANCED
        factories.activate(
            trading_desk.intent(intent_id).flow.agent, gate_cases.manifest(version="2.0.0", policy_kinds=[])
        )
        assert fake_target.walk(intent_id)[-1] == AttemptStatus.COMPENSATED
        assert book.order == ["/reserve", "/reserve/undo"]
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
