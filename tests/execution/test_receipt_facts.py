"""Facts taken from a receipt: new versions with the success, and before and after in the outcome."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical
from audit.access.roles import Role
from audit.verification.verify import Whole, verify_database
from runtime.contexts.services import agent_events
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting, recovery
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Outcome
from runtime.flows.services.flow_transaction import Journal
from runtime.state.models import Fact, FactVersion, WorldVersion
from tests.support import misbehaving_targets, trading_desk
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
WRITES = (
    '{fact: "order.${params.symbol}", value: "receipt.order_id"}, '
    '{fact: price.ABC, value: "receipt.price + params.quantity"}'
)
RECEIPT = b'{"order_id":"o1","price":120}'


@pytest.fixture
def target(settings: Settings) -> Iterator[misbehaving_targets.StandIn]:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, RECEIPT)) as running:
        yield running
    assert isinstance(verify_database(), Whole)


def desk(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch, writes: str = WRITES
) -> trading_desk.Desk:
    text = trading_desk.PACK.replace("path: /orders}}", f"path: /orders}}, writes: [{writes}]}}")
    monkeypatch.setattr(trading_desk, "PACK", text)
    return trading_desk.open_desk(base_url=target.base_url)


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def stored(intent_id: UUID, column: str) -> Any:
    return canonical.decode(bytes(getattr(Outcome.objects.get(pk=intent_id), column)))


def test_each_write_is_a_new_version_by_the_intent_with_before_and_after(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = desk(target, monkeypatch).accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    writer = f"intent:{intent_id}"
    written = {fact.path: (fact.version, bytes(fact.value)) for fact in Fact.objects.filter(writer=writer)}
    assert written == {"order.ABC": (1, b'"o1"'), "price.ABC": (2, b"122")}
    assert FactVersion.objects.filter(writer=writer).count() == 2
    # Both are one version of the world.
    (made,) = WorldVersion.objects.filter(writer=writer)
    assert set(FactVersion.objects.filter(writer=writer).values_list("write_id", flat=True)) == {
        made.write_id
    }
    assert stored(intent_id, "writes") == [
        {"fact": "order.ABC", "version": 1, "before": None, "after": "o1"},
        {"fact": "price.ABC", "version": 2, "before": 100, "after": 122},
    ]
    assert stored(intent_id, "deviations") == []
    assert trading_desk.kinds(intent_id, after="attempt:started") == [
        "attempt:finished",
        "fact:written",
        "fact:written",
        "outcome:recorded",
        "flow:moved",
        "record:emitted",
    ]


def test_a_write_that_gives_no_value_is_a_deviation_and_the_outcome_stands(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = '{fact: order.fee, value: "receipt.fee"}, {fact: order.id, value: "receipt.order_id"}'
    intent_id = desk(target, monkeypatch, writes).accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
    assert [item["fact"] for item in stored(intent_id, "writes")] == ["order.id"]
    why = "the expression reads a field that is not there"
    missed = {"fact": "order.fee", "expected": "receipt.fee", "observed": None, "why": why}
    assert stored(intent_id, "deviations") == [missed]
    assert trading_desk.told(intent_id)[0][1]["deviations"] == [missed]
    assert "fact:not_written" in trading_desk.kinds(intent_id)


def test_a_failure_writes_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(422)) as refusing:
        intent_id = desk(refusing, monkeypatch).accept()
        assert attempt(intent_id).status is AttemptStatus.FAILED
    assert not Fact.objects.filter(path="order.ABC").exists()
    assert stored(intent_id, "writes") == []


def test_what_a_person_found_is_written_like_an_answer(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent_id = desk(target, monkeypatch).accept()
    Intent.objects.filter(pk=intent_id).update(state=IntentState.WITH_PERSON)
    row = trading_desk.intent(intent_id)
    row.flow.state = FlowState.ESCALATED
    row.flow.save()
    journal = Journal(flow=row.flow, actor="user:1", at=clock.now())
    receipt = {"order_id": "o9", "price": 1}
    recovery.mark_done(journal=journal, intent=row, receipt=receipt, actor="user:1", at=clock.now())
    journal.write()
    assert [item["after"] for item in stored(intent_id, "writes")] == ["o9", 3]


def test_an_agent_that_watches_the_fact_hears_of_it_as_from_a_feed(
    target: misbehaving_targets.StandIn,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    office = desk(target, monkeypatch)
    trading_desk.write_fact("price.ABC", 100)
    agent_events.begin(agent=office.agent)
    intent_id = office.accept()
    start = agent_events.read(agent=office.agent, after=0).next
    rung: list[str] = []
    monkeypatch.setattr("audit.live.hints.hint", lambda *, tenant, stream, seq: rung.append(stream))
    with django_capture_on_commit_callbacks(execute=True):
        assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    # Its long poll waits for the stream of whoever wrote the fact last.
    assert "feed:trial" in rung
    heard = agent_events.read(agent=office.agent, after=start).events
    changed = [event.data for event in heard if event.event_type == "FACT_CHANGED"]
    assert {"path": "price.ABC", "version": 3} in changed


def test_writes_of_several_steps_are_all_told_with_the_outcome(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = '{fact: order.ABC, value: "receipt.order_id + \'!\'"}, {fact: order.fee, value: "receipt.fee"}'
    later = f"- {{id: later, target: broker, request: {{path: /later}}, writes: [{more}]}}"
    monkeypatch.setattr(
        trading_desk,
        "PACK",
        trading_desk.PACK.replace(
            "path: /orders}}",
            f"path: /orders}}, compensate: {{path: /undo}}, writes: [{WRITES}]}}\n      {later}",
        ),
    )
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    assert attempt(intent_id).status is AttemptStatus.ADVANCED
    assert Fact.objects.get(path="order.ABC").version == 1
    # The price that the first step wrote is no news to the second one.
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert [(item["fact"], item["version"], item["after"]) for item in stored(intent_id, "writes")] == [
        ("order.ABC", 1, "o1"),
        ("price.ABC", 2, 122),
        ("order.ABC", 2, "o1!"),
    ]
    assert [item["fact"] for item in stored(intent_id, "deviations")] == ["order.fee"]


def test_the_flow_page_shows_predicted_beside_actual_and_marks_what_deviates(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = """predicts: [{fact: order.status, value: "'FILLED'"}]"""
    new = """predicts: [{fact: price.ABC, value: "120"}, {fact: order.ABC, value: "'o1'"},
      {fact: order.fee, value: "1"}]"""
    assert old in trading_desk.PACK
    monkeypatch.setattr(trading_desk, "PACK", trading_desk.PACK.replace(old, new))
    office = desk(target, monkeypatch)
    trading_desk.write_fact("price.ABC", 100)
    intent_id = office.accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    (missed,) = stored(intent_id, "deviations")
    assert (missed["fact"], missed["expected"], missed["observed"]) == ("price.ABC", 120, 122)
    page = text_of(sign_in(Role.AUDITOR), f"/flows/{trading_desk.flow_of(intent_id).dfid}/")
    table = page.split("Predicted and actual")[2].split("</table>")[0]
    for words in ("Deviates", "As predicted", "Not observed", "120", "122", "receipt, v3", "none recorded"):
        assert words in table
    # Not what the call did, so it is told apart from what a receipt says.
    trading_desk.write_fact("order.fee", 7)
    table = page_of(intent_id, reader="aud")
    assert "live value now <bdi>7</bdi>" in table
    assert "live value now <bdi>122" not in table


def page_of(intent_id: UUID, *, reader: str = "reader") -> str:
    """The table of predicted and actual values on the page of the intent's flow; empty without one."""
    page = text_of(sign_in(Role.AUDITOR, name=reader), f"/flows/{trading_desk.flow_of(intent_id).dfid}/")
    return "".join(page.split("Predicted and actual")[2:]).split("</table>")[0]


def test_a_prediction_is_not_yet_known_before_there_is_an_outcome_and_none_of_a_call_without_effect(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(422)) as refusing:
        intent_id = desk(refusing, monkeypatch).accept()
        table = page_of(intent_id)
        assert "order.status" in table
        assert "Not yet known" in table
        assert "live value now" not in table
        assert attempt(intent_id).status is AttemptStatus.FAILED
    assert page_of(intent_id, reader="aud") == ""


def test_the_flow_page_shows_what_was_written_and_what_was_not(
    target: misbehaving_targets.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = f'{WRITES}, {{fact: order.fee, value: "receipt.fee"}}'
    intent_id = desk(target, monkeypatch, writes).accept()
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    page = text_of(sign_in(Role.AUDITOR), f"/flows/{trading_desk.flow_of(intent_id).dfid}/")
    assert "Facts taken from the receipt" in page
    for words in ("price.ABC", "version 2", '<bdi class="mono">100</bdi>', '<bdi class="mono">122</bdi>'):
        assert words in page
    assert "order.fee: not written, the expression reads a field that is not there" in page
