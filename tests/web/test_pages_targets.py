"""The page on targets: circuits, what waits, the test, and closing a circuit by hand."""

from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts.states import CircuitState, IntentState
from runtime.core import clock
from runtime.execution.models import Circuit
from runtime.flows.models import Intent
from tests.support import (
    asked_for_results,
    factories,
    human_tasks,
    misbehaving_targets,
    reporting_target,
    trading_desk,
)
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/targets/"


def broken() -> Circuit:
    """The trial's broker with an open circuit, one intent waiting for it and one with a person."""
    desk = trading_desk.open_desk(base_url="http://127.0.0.1:1")
    desk.accept()
    Intent.objects.filter(pk=desk.accept()).update(state=IntentState.WITH_PERSON)
    return Circuit.objects.create(
        target="broker",
        state=CircuitState.OPEN,
        failures=5,
        openings=1,
        retry_at=clock.now() + timedelta(minutes=2),
        changed_at=clock.now(),
    )


def test_says_what_a_target_is_and_what_waits_for_it() -> None:
    broken()
    trading_desk.add_target("spare", "https://spare.example")
    factories.configure_target("spare", secret_env="SPARE_SECRET")
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    for words in (
        "broker",
        "http://127.0.0.1:1",
        "Unsigned",
        "Open",
        "next try",
        "1 waiting",
        "1 with a person",
    ):
        assert words in page
    for words in ("spare", "SPARE_SECRET", "Closed", "never failed", "none"):
        assert words in page
    assert 'href="/targets/" aria-current="page"' in page
    for words in ("Test<", "Close the circuit"):
        assert words not in page


def test_says_what_a_target_declares_of_itself() -> None:
    trading_desk.open_desk(base_url="http://127.0.0.1:1")
    factories.configure_target(honours_keys=True, health="/health")
    trading_desk.add_target("spare", "https://spare.example")
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    for words in (
        "honours idempotency keys: a repeated call takes effect once",
        "503 means the call had no effect",
        "health check at /health",
        "does not honour idempotency keys: a repeated call may take effect twice",
    ):
        assert words in page


def test_an_address_of_the_environment_is_shown_as_such(settings: Settings) -> None:
    broken()
    settings.DIR_TARGET_URLS = {"broker": "http://127.0.0.1:2"}
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    assert "http://127.0.0.1:2" in page
    assert "set by the environment" in page


def test_counts_failures_in_a_row_before_it_opens() -> None:
    broken()
    Circuit.objects.update(state=CircuitState.CLOSED, failures=3, retry_at=None)
    assert "3 failed in a row" in text_of(sign_in(Role.ADMIN), PAGE)


def test_says_so_where_there_is_no_target() -> None:
    assert "No target is configured" in text_of(sign_in(Role.ADMIN), PAGE)


def test_a_live_update_is_the_fragment_alone() -> None:
    broken()
    client = sign_in(Role.ADMIN)
    assert "<html" not in client.get(PAGE, headers={"HX-Request": "true"}).content.decode()
    assert "<html" in text_of(client, PAGE)


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.ADMIN])
def test_a_test_says_what_was_found_and_is_recorded(role: Role, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200)) as running:
        trading_desk.open_desk(base_url=running.base_url)
        client = sign_in(role)
        answer = client.post("/targets/broker/test/", follow=True)
        assert "broker can be called" in answer.content.decode()
        assert not running.seen
    looked = LedgerEntry.objects.get(stream="target:broker")
    assert looked.kind == "target:checked"
    assert "Target tested" in text_of(client, PAGE)


def test_a_test_says_why_a_target_cannot_be_called() -> None:
    broken()
    answer = sign_in(Role.OPERATOR).post("/targets/broker/test/", follow=True)
    assert "broker cannot be called" in answer.content.decode()
    assert "DIR_EGRESS_ALLOW" in answer.content.decode()


@pytest.mark.parametrize("role", [Role.SENIOR, Role.ADMIN])
def test_a_senior_or_an_admin_closes_a_circuit_with_a_reason(role: Role) -> None:
    row = broken()
    client = sign_in(role)
    assert "Close the circuit" in text_of(client, PAGE)
    assert client.post("/targets/broker/close/", {"reason": " "}).status_code == 400
    answer = client.post("/targets/broker/close/", {"reason": "They say it is mended"}, follow=True)
    assert "is closed. Pending calls" in answer.content.decode()
    assert "They say it is mended" in answer.content.decode()
    row.refresh_from_db()
    assert row.state == CircuitState.CLOSED
    again = client.post("/targets/broker/close/", {"reason": "Again"}, follow=True)
    assert "was already closed" in again.content.decode()


def test_an_operator_tests_and_does_not_close() -> None:
    broken()
    client = sign_in(Role.OPERATOR)
    page = text_of(client, PAGE)
    assert "Test<" in page
    assert "Close the circuit" not in page
    assert client.post("/targets/broker/close/", {"reason": "x"}).status_code == 403


@pytest.mark.parametrize("name", ["nobody", "no%00body"])
def test_a_target_that_is_not_there(name: str) -> None:
    client = sign_in(Role.ADMIN)
    assert client.post(f"/targets/{name}/test/").status_code == 404
    assert client.post(f"/targets/{name}/close/", {"reason": "x"}).status_code == 404


def test_shows_what_a_target_has_taken_on_and_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with misbehaving_targets.stand_in(misbehaving_targets.answer(202, b"")) as target:
        intent_id = reporting_target.open_desk(monkeypatch, settings, url=target.base_url).accept()
        human_tasks.attempt(intent_id)
        client = sign_in(Role.AUDITOR)
        page = text_of(client, PAGE)
        for words in ("1 waiting for a result", "none reported", "1 awaiting an answer"):
            assert words in page
        said = {"status": "progress", "number": 1, "percent": 40}
        assert reporting_target.report(reporting_target.address_of(target), said)[0] == 200
        page = text_of(client, PAGE)
        assert "40 %" in page
        assert str(trading_desk.intent(intent_id).flow_id) in page


def test_says_when_a_target_is_asked_next_and_not_where(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    with asked_for_results.opened() as warehouse:
        intent_id = asked_for_results.open_desk(monkeypatch, settings, warehouse).accept()
        human_tasks.attempt(intent_id)
        client = sign_in(Role.AUDITOR)
        page = text_of(client, PAGE)
        flow = text_of(client, f"/flows/{trading_desk.intent(intent_id).flow_id}/")
    assert "asked next at" in page
    assert asked_for_results.PLACE not in page
    assert "Waiting for the target" in flow
    assert "Awaiting an answer" in flow
