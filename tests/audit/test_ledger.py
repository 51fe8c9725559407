"""Writing entries: chained, in one transaction, told after the commit."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from audit import chain, ledger, queries
from audit.events import Event, Kind, SystemResumed, SystemStopped
from audit.ledger import GENESIS, Head
from audit.live import hints
from audit.models import LedgerEntry, Payload, StreamHead

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STOP = SystemStopped(reason="drill")
GO = SystemResumed()

pytestmark = pytest.mark.django_db


def write(
    *, head: Head = GENESIS, events: Sequence[Event] = (STOP,), stream: str = "flow-1", at: datetime = AT
) -> Head:
    return ledger.append(tenant="default", stream=stream, head=head, actor="system", at=at, events=events)


def write_to(stream: str = "system", *, events: Sequence[Event] = (STOP,), at: datetime = AT) -> Head:
    return ledger.append_to(tenant="default", stream=stream, actor="system", at=at, events=events)


def test_entries_are_chained_from_genesis() -> None:
    head = write(head=write(), events=[GO, STOP])
    entries = list(LedgerEntry.objects.filter(tenant="default", stream="flow-1").order_by("seq"))
    assert [(entry.seq, entry.kind) for entry in entries] == [
        (1, Kind.SYSTEM_STOPPED),
        (2, Kind.SYSTEM_RESUMED),
        (3, Kind.SYSTEM_STOPPED),
    ]
    assert bytes(entries[0].prev_hash) == bytes(32)
    assert [bytes(entry.hash) for entry in entries[:-1]] == [bytes(entry.prev_hash) for entry in entries[1:]]
    assert (head.seq, head.hash, head.at) == (3, bytes(entries[-1].hash), AT)


def test_an_entry_stores_its_payload_in_its_body() -> None:
    write()
    entry = LedgerEntry.objects.get(tenant="default", stream="flow-1", seq=1)
    assert entry.payload == {"reason": "drill", "under_way": []}
    assert str(entry) == "flow-1 #1 system:stopped"


def test_a_batch_is_one_insert(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        head = write(events=[STOP, GO, STOP])
    with django_assert_num_queries(1):
        write(head=head)


def test_no_events_write_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert write(events=[]) is GENESIS


def test_time_does_not_run_backwards_within_a_stream() -> None:
    head = write()
    assert write(head=head, at=AT - timedelta(hours=1)).at == AT


def test_time_does_not_run_backwards_when_the_caller_keeps_no_time() -> None:
    head = write()
    later = write(head=Head(seq=head.seq, hash=head.hash), at=AT - timedelta(hours=1))
    assert later.at == AT


def test_a_stale_head_ends_in_an_error_and_not_in_a_fork() -> None:
    write()
    with pytest.raises(IntegrityError), transaction.atomic():
        write()
    assert LedgerEntry.objects.count() == 1


def test_other_streams_keep_their_own_heads() -> None:
    assert write_to("system").seq == 1
    assert write_to("agent:a").seq == 1
    assert write_to("system", events=[GO, STOP], at=AT - timedelta(days=1)).seq == 3
    head = StreamHead.objects.get(stream="system")
    assert (head.seq, head.at) == (3, AT)
    assert str(head) == "system at 3"


def test_nothing_to_append_leaves_the_head_alone() -> None:
    assert write_to(events=[]) == Head(seq=0, hash=bytes(32))


def test_two_tenants_have_streams_of_the_same_name() -> None:
    write_to("system")
    other = ledger.append_to(tenant="other", stream="system", actor="system", at=AT, events=[STOP])
    assert other.seq == 1


def test_the_transaction_is_stored_where_there_can_be_two_at_once() -> None:
    write()
    stored = LedgerEntry.objects.values_list("xact", flat=True).get()
    assert (stored is not None) == (connection.vendor == "postgresql")


@pytest.mark.parametrize(
    "change",
    [{"seq": 0}, {"hash": b"short"}, {"prev_hash": b""}, {"kind": ""}, {"actor": ""}, {"tenant": ""}],
)
def test_the_database_refuses_rows_that_are_no_entries(change: dict[str, Any]) -> None:
    row = {
        "tenant": "default",
        "stream": "s",
        "seq": 1,
        "kind": "a:b",
        "at": AT,
        "actor": "system",
        "body": b"{}",
        "prev_hash": bytes(32),
        "hash": bytes(32),
    }
    with pytest.raises(IntegrityError), transaction.atomic():
        LedgerEntry.objects.create(**{**row, **change})


def test_a_payload_is_found_by_its_commitment() -> None:
    first = ledger.commit_payload(tenant="default", data_class="people", body=b'"x"')
    second = ledger.commit_payload(tenant="default", data_class="people", body=b'"x"')
    assert first != second  # the salt hides that two payloads are the same
    assert queries.list_texts(tenant="default", commitments=[first, "0" * 64]) == {first: "x"}
    assert queries.list_texts(tenant="other", commitments=[first]) == {}
    row = Payload.objects.get(commitment=first)
    assert str(row) == chain.commitment(bytes(row.salt or b""), bytes(row.body or b"")) == first


def test_only_texts_are_found_by_their_commitments() -> None:
    bodies = (b'"said"', b"1", b"not JSON")
    kept = [ledger.commit_payload(tenant="default", data_class="people", body=body) for body in bodies]
    assert queries.list_texts(tenant="default", commitments=kept) == {kept[0]: "said"}


def test_an_erased_payload_takes_its_salt_along_and_is_recorded() -> None:
    kept = ledger.commit_payload(tenant="default", data_class="people", body=b'"1"')
    gone = ledger.commit_payload(tenant="default", data_class="people", body=b'"2"')
    erase = {"tenant": "default", "commitment": gone, "actor": "user:1", "at": AT, "reason": "asked for"}
    assert ledger.erase_payload(**erase)  # type: ignore[arg-type]
    assert not ledger.erase_payload(**erase)  # type: ignore[arg-type]
    assert queries.list_texts(tenant="default", commitments=[gone, kept]) == {kept: "1"}
    assert Payload.objects.get(commitment=gone).salt is None
    entry = LedgerEntry.objects.get(tenant="default", stream="system")
    assert entry.payload == {"commitment": gone, "reason": "asked for"}


def test_a_hint_goes_out_once_per_append_and_after_the_commit(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(hints, "hint", lambda **hint: told.append(hint))
    with django_capture_on_commit_callbacks(execute=True):
        write(events=[STOP, GO])
        write_to("system")
        assert told == []
    assert told == [
        {"tenant": "default", "stream": "flow-1", "seq": 2},
        # A stop changes what waits for people.
        {"tenant": "default", "stream": "escalations", "seq": 2},
        {"tenant": "default", "stream": "system", "seq": 1},
        {"tenant": "default", "stream": "escalations", "seq": 1},
    ]
