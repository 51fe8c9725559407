"""A target that books and then fails: one intent has one effect, whatever it answers and whoever waits."""

from collections.abc import Callable, Iterator

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.states import FlowState, IntentState
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries import calls_in_doubt
from runtime.packs.services import packs
from runtime.registry.queries import kind_checks
from tests.support import booking_targets, factories, trading_desk
from tests.support.booking_targets import AFTER_THE_EFFECT, Bank, attempt, walk

pytestmark = pytest.mark.django_db
Opening = Callable[..., tuple[Bank, trading_desk.Desk]]
FAULTS = sorted(AFTER_THE_EFFECT)


@pytest.fixture
def opening(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opening]:
    """Opens a bank and a desk. In the end the ledger is whole, and no key is booked twice."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    banks = []

    def opened(*, knows_keys: bool, on_unknown: str, **said: object) -> tuple[Bank, trading_desk.Desk]:
        manager = booking_targets.opened(knows_keys=knows_keys)
        bank = manager.__enter__()
        banks.append((manager, bank))
        monkeypatch.setattr(trading_desk, "PACK", booking_targets.pack(on_unknown=on_unknown, **said))  # type: ignore[arg-type]
        return bank, trading_desk.open_desk(base_url=bank.base_url)

    yield opened
    for manager, bank in banks:
        manager.__exit__(None, None, None)
        assert all(count == 1 for count in bank.effects.values()), bank.effects
    assert isinstance(verify_database(), Whole)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_person_is_asked_at_once(opening: Opening, fault: str) -> None:
    bank, desk = opening(knows_keys=False, on_unknown="person")
    bank.faults = [fault] * 5
    intent_id = desk.accept()
    assert walk(intent_id) == ["WITH_PERSON"]
    assert (bank.calls, bank.total) == (1, 1)
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)
    assert Escalation.objects.get().reason == "IN_DOUBT"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("times", [1, 3])
def test_the_same_key_is_sent_again_where_it_is_honoured(opening: Opening, fault: str, times: int) -> None:
    bank, desk = opening(knows_keys=True, on_unknown="resend", honours_keys=True)
    bank.faults = [fault] * times
    intent_id = desk.accept()
    assert walk(intent_id) == [*["RETRY_LATER"] * times, "SUCCEEDED"]
    assert (bank.calls, bank.total) == (times + 1, 1)
    intent = Intent.objects.get(pk=intent_id)
    assert booking_targets.receipt_of(intent) == {"order_id": next(iter(bank.effects))[:8]}
    assert not calls_in_doubt.is_in_doubt(intent=intent)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("knows_keys", [True, False])
def test_the_target_is_asked_before_anything_is_sent_again(
    opening: Opening, fault: str, knows_keys: bool
) -> None:
    bank, desk = opening(knows_keys=knows_keys, on_unknown="probe")
    bank.faults = [fault] * 5
    intent_id = desk.accept()
    assert walk(intent_id) == ["RETRY_LATER", "SUCCEEDED"]
    assert (bank.calls, bank.asked, bank.total) == (1, 1, 1)


@pytest.mark.parametrize("on_unknown", ["person", "probe"])
def test_a_target_that_hangs_after_the_booking_is_no_different(opening: Opening, on_unknown: str) -> None:
    bank, desk = opening(knows_keys=False, on_unknown=on_unknown, timeout_s=1)
    bank.hangs = True
    walk(desk.accept())
    assert (bank.calls, bank.total) == (1, 1)


def test_a_target_that_hangs_and_honours_keys_gets_the_key_again(opening: Opening) -> None:
    bank, desk = opening(knows_keys=True, on_unknown="resend", honours_keys=True, timeout_s=1)
    bank.hangs = True
    assert walk(desk.accept()) == ["RETRY_LATER", "SUCCEEDED"]
    assert (bank.calls, bank.total) == (2, 1)


def test_the_fourth_unknown_result_calls_a_person(opening: Opening) -> None:
    bank, desk = opening(knows_keys=True, on_unknown="resend", honours_keys=True)
    bank.faults = ["500", "502", "reset", "503"]
    assert walk(desk.accept()) == ["RETRY_LATER", "RETRY_LATER", "RETRY_LATER", "WITH_PERSON"]
    assert (bank.calls, bank.total) == (4, 1)
    assert Escalation.objects.get().reason == "IN_DOUBT"


@pytest.mark.parametrize("status", [425, 429, 503])
def test_a_refusal_is_tried_again_and_the_fourth_calls_a_person(opening: Opening, status: int) -> None:
    bank, desk = opening(knows_keys=False, on_unknown="person", refuses="[503]")
    bank.refusals = [status] * 3
    assert walk(desk.accept()) == ["RETRY_LATER"] * 3 + ["SUCCEEDED"]
    assert (bank.calls, bank.total) == (4, 1)

    bank.refusals = [status] * 4
    assert walk(desk.accept()) == ["RETRY_LATER"] * 3 + ["WITH_PERSON"]
    assert Escalation.objects.get().reason == "REPEATED_FAILURE"
    assert bank.total == 1


def test_a_refusal_after_a_doubt_settles_nothing(opening: Opening) -> None:
    bank, desk = opening(knows_keys=True, on_unknown="resend", honours_keys=True, refuses="[503]")
    bank.faults = ["500"]
    intent_id = desk.accept()
    attempt(intent_id)
    bank.refusals = [422]
    assert attempt(intent_id).detail == "IN_DOUBT"
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


@pytest.mark.parametrize(("fault", "on_unknown"), [("refusal", "person"), ("500", "resend")])
def test_a_targets_own_wait_is_the_least(opening: Opening, fault: str, on_unknown: str) -> None:
    bank, desk = opening(knows_keys=True, on_unknown=on_unknown, honours_keys=True, refuses="[503]")
    bank.refusals, bank.retry_after = [503 if fault == "refusal" else 500], "40"
    intent_id = desk.accept()
    attempt(intent_id)
    row, intent = Attempt.objects.get(intent=intent_id), Intent.objects.get(pk=intent_id)
    assert row.finished_at is not None
    assert (intent.next_at - row.finished_at).total_seconds() >= 40


def test_resend_needs_a_target_that_honours_keys(opening: Opening) -> None:
    bank, _ = opening(knows_keys=False, on_unknown="person")
    resending = trading_desk.PACK.replace("on_unknown: person", "on_unknown: resend").replace(
        "1.0.0", "2.0.0"
    )
    refused = booking_targets.reload(resending, base_url=bank.base_url)
    assert isinstance(refused, packs.PackRefused)
    (problem,) = refused.problems
    assert "on_unknown: resend can cause a second effect at broker" in problem
    assert "honours_keys: true" in problem


def test_a_target_may_not_forget_keys_under_a_kind_that_relies_on_them(opening: Opening) -> None:
    bank, _ = opening(knows_keys=True, on_unknown="resend", honours_keys=True)
    moved = 'pack: other\nversion: 1.0.0\ntargets: {broker: {base_url: "BASE_URL"}}\n'
    refused = booking_targets.reload(moved, base_url=bank.base_url)
    assert isinstance(refused, packs.PackRefused)
    (problem,) = refused.problems
    assert "targets.broker.honours_keys: BUY 1.0.0, which is active, resends unknown results" in problem


@pytest.mark.parametrize("when", ["before the call", "before the next call"])
def test_a_key_is_not_sent_again_to_a_target_that_no_longer_honours_it(opening: Opening, when: str) -> None:
    bank, desk = opening(knows_keys=False, on_unknown="resend", honours_keys=True)
    bank.faults = ["500"]
    intent_id = desk.accept()
    if when == "before the next call":
        assert attempt(intent_id).status == "RETRY_LATER"
    # By a way around the check of packs, as from an older version.
    factories.configure_target(honours_keys=False)
    walk(intent_id)
    assert (bank.calls, bank.total) == (1, 1)
    assert trading_desk.states(intent_id) == (IntentState.IN_DOUBT, FlowState.ESCALATED)


@pytest.mark.parametrize(
    ("action", "status", "paths"),
    [("FALL_BACK, step: spare", "FELL_BACK", 2), ("CLOSE", "FAILED", 1), ("RETRY_LATER", "RETRY_LATER", 2)],
)
def test_a_route_follows_a_probe_that_found_nothing(
    opening: Opening, action: str, status: str, paths: int
) -> None:
    routes = f"[{{when: \"outcome.error_category == 'NOT_HAPPENED'\", action: {action}}}]"
    bank, desk = opening(knows_keys=False, on_unknown="probe", routes=routes)
    bank.lost = 1
    intent_id = desk.accept()
    assert attempt(intent_id).status == "RETRY_LATER"
    assert attempt(intent_id).status == status
    walk(intent_id)
    assert bank.calls == paths
    assert bank.total == paths - 1
    assert not calls_in_doubt.is_in_doubt(intent=Intent.objects.get(pk=intent_id))


@pytest.mark.parametrize("action", ["FALL_BACK, step: spare", "CLOSE", "RETRY_LATER"])
@pytest.mark.parametrize("fault", ["500", "502", "503", "303", "reset"])
def test_no_route_follows_what_may_have_taken_effect(opening: Opening, action: str, fault: str) -> None:
    bank, desk = opening(
        knows_keys=False, on_unknown="person", routes=f"[{{when: 'true', action: {action}}}]"
    )
    bank.faults = [fault]
    assert walk(desk.accept()) == ["WITH_PERSON"]
    assert (bank.calls, bank.total) == (1, 1)


def test_a_kind_in_force_that_lost_its_ground_is_named(opening: Opening) -> None:
    opening(knows_keys=True, on_unknown="resend", honours_keys=True)
    assert not kind_checks.check_active(app_configs=None, databases=["default"])
    factories.configure_target(honours_keys=False)
    (warning,) = kind_checks.check_active(app_configs=None, databases=["default"])
    assert warning.msg == (
        "BUY 1.0.0 (active): on_unknown: resend can cause a second effect at broker:"
        " the target does not declare honours_keys: true; a person is asked instead."
    )
