"""The chain: every way of tampering with rows is found, and named."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import canonical, chain
from audit.chain import BreakKind, ChainBreak, ChainVerifier, LedgerRow

AT = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)


def rows_of(count: int, *, stream: str = "flow-1", tenant: str = "default") -> list[LedgerRow]:
    rows: list[LedgerRow] = []
    prev_hash = chain.GENESIS_HASH
    for seq in range(1, count + 1):
        body = chain.body_bytes(
            tenant=tenant, stream=stream, seq=seq, kind="a:b", at=AT, actor="system", payload={"n": seq}
        )
        rows.append(
            LedgerRow(
                tenant, stream, seq, "a:b", AT, "system", body, prev_hash, chain.entry_hash(prev_hash, body)
            )
        )
        prev_hash = rows[-1].hash
    return rows


def rehashed(row: LedgerRow, body: bytes) -> LedgerRow:
    return replace(row, body=body, hash=chain.entry_hash(row.prev_hash, body))


def broken(rows: Sequence[LedgerRow]) -> ChainBreak:
    result = chain.verify(rows)
    assert isinstance(result, ChainBreak)
    return result


def test_a_whole_ledger_of_two_streams_is_whole() -> None:
    result = chain.verify([*rows_of(3), *rows_of(2, stream="flow-2")])
    assert isinstance(result, ChainVerifier)
    assert result.entries == 5
    assert {stream: seq for (_, stream), (seq, _) in result.heads.items()} == {"flow-1": 3, "flow-2": 2}


def test_nothing_is_whole() -> None:
    assert chain.verify([]) == ChainVerifier()


def test_streams_of_two_tenants_do_not_meet() -> None:
    assert isinstance(chain.verify([*rows_of(2), *rows_of(2, tenant="other")]), ChainVerifier)


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("tenant", "other", BreakKind.GAP),
        ("stream", "flow-9", BreakKind.GAP),
        ("seq", 7, BreakKind.GAP),
        ("seq", 1, BreakKind.OUT_OF_ORDER),
        ("kind", "a:c", BreakKind.COLUMN_MISMATCH),
        ("at", AT + timedelta(microseconds=1), BreakKind.COLUMN_MISMATCH),
        ("actor", "user:1", BreakKind.COLUMN_MISMATCH),
        ("body", b"{}", BreakKind.HASH_MISMATCH),
        ("prev_hash", bytes(32), BreakKind.PREV_MISMATCH),
        ("hash", bytes(32), BreakKind.HASH_MISMATCH),
    ],
)
def test_an_edited_column_is_found(column: str, value: Any, fault: BreakKind) -> None:
    rows = rows_of(3)
    rows[1] = replace(rows[1], **{column: value})
    found = broken(rows)
    assert found.fault is fault
    assert found.seq == rows[1].seq


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_whole_first_row_relabelled_is_found(position: int) -> None:
    rows = [replace(row, tenant="other", stream="else") for row in rows_of(3)]
    assert broken(rows[: position + 1]).fault is BreakKind.COLUMN_MISMATCH


def test_a_removed_row_is_a_gap() -> None:
    first, _, third = rows_of(3)
    assert broken([first, third]) == ChainBreak("default", "flow-1", 3, BreakKind.GAP, "expected entry 2")


def test_swapped_rows_are_found() -> None:
    first, second, third = rows_of(3)
    swapped = [first, replace(third, seq=2), replace(second, seq=3)]
    assert broken(swapped).fault is BreakKind.PREV_MISMATCH


def test_an_inserted_row_is_found() -> None:
    first, second, third = rows_of(3)
    inserted = rehashed(replace(second, prev_hash=first.hash), second.body)
    assert (
        broken([first, inserted, replace(second, seq=3), replace(third, seq=4)]).fault
        is BreakKind.PREV_MISMATCH
    )


def test_a_repeated_row_is_out_of_order() -> None:
    first, second = rows_of(2)
    assert broken([first, second, second]).fault is BreakKind.OUT_OF_ORDER


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1}',
        b"not json",
        b'{"a":"\\ud800"}',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":9007199254740993}',
    ],
)
def test_bytes_that_are_not_canonical_are_found(body: bytes) -> None:
    (row,) = rows_of(1)
    assert broken([rehashed(row, body)]).fault is BreakKind.NOT_CANONICAL


def test_a_body_that_is_no_object_is_found() -> None:
    (row,) = rows_of(1)
    assert broken([rehashed(row, b"[]")]).fault is BreakKind.COLUMN_MISMATCH


@pytest.mark.parametrize("missing", [set(), {"payload"}])
def test_members_other_than_those_of_an_entry_are_found(missing: set[str]) -> None:
    (row,) = rows_of(1)
    body = {name: value for name, value in canonical.decode(row.body).items() if name not in missing}
    assert broken([rehashed(row, canonical.encode({**body, "extra": 1}))]).fault is BreakKind.COLUMN_MISMATCH


@given(st.integers(0, 4), st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_of_a_body_is_found(position: int, offset: int, change: int) -> None:
    rows = rows_of(5)
    body = bytearray(rows[position].body)
    body[offset % len(body)] ^= change
    rows[position] = replace(rows[position], body=bytes(body))
    assert broken(rows).seq == position + 1


def test_time_is_written_in_one_form_in_utc() -> None:
    east = datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert chain.time_text(east) == "2026-01-02T03:04:05.000000Z"
    assert chain.time_text(east.replace(year=976)) == "0976-01-02T03:04:05.000000Z"


def test_a_commitment_is_the_hash_of_salt_and_body() -> None:
    assert chain.commitment(b"", b"") == canonical.digest(b"")
    assert chain.commitment(b"salt", b"body") == canonical.digest(b"saltbody")


def walked(count: int) -> ChainVerifier:
    result = chain.verify(rows_of(count))
    assert isinstance(result, ChainVerifier)
    return result


def compared(walk: ChainVerifier, seq: int, head_hash: bytes) -> BreakKind | None:
    found = chain.compare_head(walk, tenant="default", stream="flow-1", seq=seq, head_hash=head_hash)
    return None if found is None else found.fault


def test_a_head_that_agrees_is_whole() -> None:
    assert compared(walked(2), 2, rows_of(2)[1].hash) is None


def test_a_head_of_a_stream_without_entries_is_whole() -> None:
    assert compared(walked(0), 0, chain.GENESIS_HASH) is None


def test_a_truncated_stream_is_found_by_its_head() -> None:
    assert compared(walked(2), 3, rows_of(3)[2].hash) is BreakKind.TRUNCATED
    assert compared(walked(0), 1, rows_of(1)[0].hash) is BreakKind.TRUNCATED


def test_a_head_that_was_set_back_is_found() -> None:
    assert compared(walked(2), 1, rows_of(1)[0].hash) is BreakKind.HEAD_MISMATCH


def test_a_head_with_another_hash_is_found() -> None:
    assert compared(walked(2), 2, bytes(32)) is BreakKind.HEAD_MISMATCH
