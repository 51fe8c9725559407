"""Sending events to a webhook: what arrives, in which order, and what becomes of failures."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from audit import canonical, chain
from audit.models import Leaf, LedgerEntry, Tree
from runtime.contracts.problem import Problem
from runtime.contracts.receiver import ReceiverState
from runtime.core import clock
from runtime.epochs.services import epochs
from runtime.outward.models import Receiver
from runtime.outward.services import delivery, receivers, sending
from tests.support import event_receivers, incident_story, ledger_tampering, misbehaving_targets
from tests.support.event_receivers import again, codes, hook, make_due, seal

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    event_receivers.allow(settings, monkeypatch)


def test_an_event_can_be_read_and_proved_with_what_others_wrote() -> None:
    with hook() as (place, row):
        seal("ONE")
        assert sending.send_due() == 1
        event = event_receivers.read(place.target.seen[0])
        data = event_receivers.data_of(place.target.seen[0])
    entry = LedgerEntry.objects.get(kind="request:refused")
    leaf, tree = Leaf.objects.get(entry_id=entry.pk), Tree.objects.get()
    assert event.get_id() == bytes(entry.hash).hex()
    assert event.get_source() == f"/{tree.origin}/agent:trader"
    assert event.get_type() == "dir-console.request:refused"
    assert event.get_subject() == "agent:trader"
    assert event.get_time() == entry.at
    assert event.get_extension("sequence") == f"{leaf.index:020d}"
    assert canonical.encode(data) == bytes(entry.body)
    hashed = chain.entry_hash(bytes.fromhex(event.get_extension("prevhash")), canonical.encode(data))
    assert hashed.hex() == event.get_id()
    row = again(row)
    assert (row.next_leaf, row.tries, row.error) == (tree.size, 0, "")
    assert row.taken_at is not None


def test_only_what_is_sealed_and_wanted_is_sent_and_in_order() -> None:
    with hook() as (place, row):
        incident_story.refuse(code="NOT_SEALED_YET")
        assert sending.send_due() == 0
        seal("TWO", "THREE")
        assert sending.send_due() == 3
        assert codes(place.target.seen) == ["NOT_SEALED_YET", "TWO", "THREE"]
        seal()
        assert sending.send_due() == 0
    # The entry about the receiver itself is sealed too, and not wanted: it is passed over.
    assert again(row).next_leaf == Tree.objects.get().size


def test_a_new_receiver_gets_what_comes_or_everything() -> None:
    seal("BEFORE")
    with hook(name="new") as (new, _), hook(name="all", from_beginning=True) as (everything, _):
        seal("AFTER")
        sending.send_due()
        assert codes(new.target.seen) == ["AFTER"]
        assert codes(everything.target.seen) == ["BEFORE", "AFTER"]


def test_sending_writes_nothing_that_is_sent_in_its_turn() -> None:
    with hook(patterns=("*",), from_beginning=True) as (place, _):
        seal("ONE")
        sending.send_due()
        place.status = 500
        seal("TWO")
        sending.send_due()
        written = LedgerEntry.objects.count()
        place.status = 204
        for _ in range(3):
            make_due()
            seal()
            sending.send_due()
        assert LedgerEntry.objects.count() == written
        assert len(set(place.ids)) == written


def test_a_failure_keeps_the_order_of_its_receiver_and_costs_no_other() -> None:
    with hook(name="bad") as (bad, row), hook(name="good") as (good, _):
        bad.status = 503
        seal("ONE", "TWO")
        assert sending.send_due() == 2
        assert codes(good.target.seen) == ["ONE", "TWO"]
        assert codes(bad.target.seen) == ["ONE"]
        row = again(row)
        assert (row.tries, row.error) == (1, "the receiver answered 503")
        assert row.failing_since is not None
        assert row.next_at > clock.now()
        assert sending.send_due() == 0
        bad.status = 204
        make_due()
        assert sending.send_due() == 2
        assert codes(bad.target.seen) == ["ONE", "ONE", "TWO"]
        assert bad.ids[0] == bad.ids[1] != bad.ids[2]
        assert bad.ids[1] != good.ids[0]
        row = again(row)
        assert (row.tries, row.error, row.failing_since) == (0, "", None)


def test_waits_grow_and_a_receiver_may_ask_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    headers = {"Retry-After": "120"}
    waits: list[float] = []
    asked: list[dict[str, str]] = [{}, {}, headers, {"Retry-After": "999999"}]

    def answering(request: Any) -> None:
        misbehaving_targets.answer(429, b"", headers=asked[len(waits)])(request)

    with misbehaving_targets.stand_in(answering) as target:
        row = event_receivers.add(f"{target.base_url}/hook")
        seal("ONE")
        for _ in asked:
            make_due()
            sending.send_due()
            waits.append((again(row).next_at - now) / timedelta(seconds=1))
    assert waits == [2.0, 4.0, 120.0, sending.LONGEST_WAIT_S]


def test_one_that_is_gone_for_good_is_paused_and_says_so() -> None:
    with hook() as (place, row):
        place.status = 410
        seal("ONE", "TWO")
        assert sending.send_due() == 0
        row = again(row)
        assert row.state == ReceiverState.PAUSED
        assert "410" in row.paused_why
        entry = LedgerEntry.objects.get(kind="receiver:paused")
        assert (entry.actor, entry.payload["reason"]) == ("system", row.paused_why)
        make_due()
        assert sending.send_due() == 0
        place.status = 204
        given: dict[str, Any] = {"tenant": "default", "receiver_id": row.pk, "actor": "user:1"}
        assert not isinstance(receivers.resume(reason="It is back.", **given), Problem)
        assert sending.send_due() == 2
        assert codes(place.target.seen) == ["ONE", "ONE", "TWO"]
    assert ledger_tampering.differences() == []


@pytest.mark.parametrize("status", [302, 404, 500])
def test_no_answer_outside_2xx_counts_as_taken(status: int) -> None:
    with hook() as (place, row):
        place.status = status
        seal("ONE")
        assert sending.send_due() == 0
        assert again(row).error == f"the receiver answered {status}"


def test_without_its_secret_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with hook() as (place, row):
        monkeypatch.delenv(event_receivers.SECRET_ENV)
        seal("ONE")
        assert sending.send_due() == 0
        assert place.target.seen == []
        assert again(row).error == f"the variable {event_receivers.SECRET_ENV} is not set"


def test_a_crash_after_the_send_sends_the_same_message_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with hook() as (place, row):
        seal("ONE", "TWO")
        with monkeypatch.context() as patch:

            def crash(*given: Any) -> None:
                raise RuntimeError("the process died")

            patch.setattr(sending, "_move", crash)
            assert sending.send_due() == 0
        stood = again(row)
        assert stood.next_leaf == row.next_leaf
        # The lease of who died keeps others away until it ends.
        assert sending.send_due() == 0
        make_due()
        assert sending.send_due() == 2
        assert codes(place.target.seen) == ["ONE", "ONE", "TWO"]
        assert place.ids[0] == place.ids[1]


@pytest.mark.parametrize("act", ["pause", "move", "change"])
def test_what_a_person_does_during_a_send_is_not_undone(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with hook() as (place, row):
        seal("ONE", "TWO")
        real = delivery.send

        def slow(*given: Any) -> Any:
            answer = real(*given)
            named: dict[str, Any] = {"tenant": "default", "receiver_id": row.pk, "actor": "user:1"}
            if act == "pause":
                done: Any = receivers.pause(reason="Stop.", **named)
            elif act == "move":
                done = receivers.move(from_leaf=row.next_leaf, to_leaf=0, reason="Again.", **named)
            else:
                done = receivers.change(wanted=event_receivers.wanted(place.url), **named)
            assert not isinstance(done, Problem), done
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(delivery, "send", slow)
            assert sending.send_due() == 0
        stands = again(row)
        assert stands.next_leaf == (0 if act == "move" else row.next_leaf)
        assert (stands.state == ReceiverState.PAUSED) is (act == "pause")
        assert codes(place.target.seen) == ["ONE"]


def test_a_sender_that_outlived_its_lease_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with hook() as (place, row):
        seal("ONE", "TWO")
        real = delivery.send
        others: list[Any] = []

        def slow(*given: Any) -> Any:
            answer = real(*given)
            if not others:
                others.append("begins")
                make_due()
                others.append(sending.send_due())
            return answer

        monkeypatch.setattr(delivery, "send", slow)
        assert sending.send_due() == 0
        assert others == ["begins", 2]
        assert codes(place.target.seen) == ["ONE", "ONE", "TWO"]
        moved = again(row).next_leaf
        assert moved == Tree.objects.get().size


def test_an_entry_that_was_changed_is_not_sent_nor_anything_after_it() -> None:
    with hook() as (place, row):
        seal("ONE", "TWO", "THREE")
        second = LedgerEntry.objects.filter(kind="request:refused").order_by("pk")[1]
        ledger_tampering.execute(
            "UPDATE audit_ledgerentry SET body = %s WHERE id = %s",
            [bytes(second.body).replace(b"TWO", b"2WO"), second.pk],
        )
        assert sending.send_due() == 1
        assert codes(place.target.seen) == ["ONE"]
        leaf = Leaf.objects.get(entry_id=second.pk).index
        assert again(row).next_leaf == leaf
        assert again(row).error == f"the entry of leaf {leaf} was changed: run manage.py verify_ledger"


def test_nothing_is_sent_in_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    with hook() as (place, _):
        seal("ONE")
        monkeypatch.setattr(epochs, "refuse_while_recovering", lambda: epochs.WAITING)
        assert sending.send_due() == 0
        assert place.target.seen == []


def test_a_test_event_is_signed_recorded_and_moves_nothing() -> None:
    with hook() as (place, row):
        named: dict[str, Any] = {"tenant": "default", "receiver_id": row.pk, "actor": "user:1"}
        assert receivers.test(**named) == ""
        assert event_receivers.read(place.target.seen[0]).get_type() == "dir-console.receiver:test"
        place.status = 500
        assert receivers.test(**named) == "the receiver answered 500"
        entries = LedgerEntry.objects.filter(kind="receiver:tested").order_by("id")
        told = [entry.payload["error"] for entry in entries]
        assert told == ["", "the receiver answered 500"]
        assert (again(row).next_leaf, again(row).tries) == (row.next_leaf, 0)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "With Space"}, "name"),
        ({"patterns": ()}, "patterns"),
        ({"patterns": ("escalation:nothing",)}, "patterns"),
        ({"place": "http://example.com/hook"}, "place"),
        ({"place": "https://10.0.0.7/hook"}, "place"),
        ({"place": "https://user:word@example.com/hook"}, "place"),
        ({"secret_env": ""}, "secret_env"),
        ({"secret_env": "whsec_not-a-name"}, "secret_env"),
    ],
)
def test_what_cannot_be_used_is_refused_at_its_field(changes: dict[str, Any], field: str) -> None:
    wanted = event_receivers.wanted(**{"place": "https://example.com/hook", **changes})
    answer = receivers.add(tenant="default", wanted=wanted, from_beginning=False, actor="user:1")
    assert isinstance(answer, Problem)
    assert [wrong.pointer for wrong in answer.violations] == [field]
    assert not Receiver.objects.exists()


def test_a_position_is_moved_only_from_where_it_was_shown() -> None:
    with hook() as (place, row):
        seal("ONE")
        sending.send_due()
        named: dict[str, Any] = {"tenant": "default", "receiver_id": row.pk, "actor": "user:1"}
        stale = receivers.move(from_leaf=row.next_leaf, to_leaf=0, reason="Again.", **named)
        assert isinstance(stale, Problem)
        at = again(row).next_leaf
        beyond = receivers.move(from_leaf=at, to_leaf=at + 1, reason="Again.", **named)
        assert isinstance(beyond, Problem)
        assert not isinstance(receivers.move(from_leaf=at, to_leaf=0, reason="Again.", **named), Problem)
        sending.send_due()
        assert codes(place.target.seen) == ["ONE", "ONE"]
        assert place.ids[0] == place.ids[1]
    assert ledger_tampering.differences() == []
