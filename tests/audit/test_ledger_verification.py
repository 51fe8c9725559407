"""verify_ledger and export_ledger: whole ledgers pass, and the first bad entry is named."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from audit import ledger
from audit.events import FlowMoved, FlowOpened, SystemStopped
from audit.ledger import GENESIS, Head
from audit.models import LedgerEntry, Payload, StreamHead
from audit.verification import entry_walk
from audit.verification import verify as verification
from tests.support import ledger_tampering

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FLOW_HEADS: list[tuple[str, str, int, bytes]] = []

pytestmark = pytest.mark.django_db


def flow_heads() -> Iterable[tuple[str, str, int, bytes]]:
    """Stands for the flow rows, which belong to another app."""
    return FLOW_HEADS


@pytest.fixture(autouse=True)
def written(settings: Any) -> Head:
    """Two streams of three entries: a flow, whose head is kept elsewhere, and `system`."""
    settings.DIR_HEADS = [f"{__name__}.flow_heads"]
    settings.DIR_ROW_CHECKS = []  # these streams are about no rows
    kept = ledger.commit_payload(tenant="default", data_class="people", body=b'{"name":"someone"}')
    opened = FlowOpened(agent_id="a", trigger_commitment=kept)
    moves = [FlowMoved(from_state="A", to_state="B", reason=str(number)) for number in range(2)]
    head = ledger.append(
        tenant="default", stream="flow-1", head=GENESIS, actor="agent:a", at=AT, events=[opened, *moves]
    )
    ledger.append_to(
        tenant="default", stream="system", actor="user:1", at=AT, events=[SystemStopped(reason="drill")] * 3
    )
    FLOW_HEADS[:] = [("default", "flow-1", head.seq, head.hash)]
    return head


def verify(**options: Any) -> str:
    out = StringIO()
    call_command("verify_ledger", stdout=out, **options)
    return out.getvalue()


def test_a_whole_ledger_prints_what_was_checked() -> None:
    printed = verify()
    assert printed.startswith("The ledger is intact: 6 entries in 2 streams, 2 heads and 1 payloads checked")
    assert printed.endswith(", and every row they cover. The tree has 0 leaves and 0 checkpoints.\n")


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("tenant", "other", "GAP"),
        ("stream", "flow-2", "GAP"),
        ("kind", "flow:opened", "COLUMN_MISMATCH"),
        ("at", "2026-01-02 03:04:06+00:00", "COLUMN_MISMATCH"),
        ("actor", "user:1", "COLUMN_MISMATCH"),
        ("body", b"{}", "HASH_MISMATCH"),
        ("prev_hash", bytes(32), "PREV_MISMATCH"),
        ("hash", bytes(32), "HASH_MISMATCH"),
    ],
)
def test_an_edited_column_is_named(column: str, value: Any, why: str) -> None:
    ledger_tampering.execute(
        f"UPDATE audit_ledgerentry SET {column} = %s WHERE stream = 'flow-1' AND seq = 2",  # noqa: S608
        [value],
    )
    with pytest.raises(CommandError, match=why):
        verify()


def test_the_first_bad_entry_is_named_with_its_place() -> None:
    ledger_tampering.execute("UPDATE audit_ledgerentry SET actor = 'user:9' WHERE seq = 2")
    with pytest.raises(CommandError) as refused:
        verify()
    assert str(refused.value) == (
        "The first bad entry: tenant default, stream flow-1, seq 2: "
        "COLUMN_MISMATCH, column actor differs from the body."
    )


def test_a_removed_entry_is_a_gap() -> None:
    ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE stream = 'system' AND seq = 2")
    with pytest.raises(CommandError, match="stream system, seq 3: GAP"):
        verify()


def test_swapped_entries_are_found() -> None:
    for old, new in ((2, 9), (3, 2), (9, 3)):
        ledger_tampering.execute(
            "UPDATE audit_ledgerentry SET seq = %s WHERE stream = 'flow-1' AND seq = %s", [new, old]
        )
    with pytest.raises(CommandError, match="stream flow-1, seq 2: PREV_MISMATCH"):
        verify()


def test_an_appended_entry_is_found_although_its_hashes_are_right(written: Head) -> None:
    ledger.append(
        tenant="default",
        stream="flow-1",
        head=written,
        actor="user:9",
        at=AT,
        events=[SystemStopped(reason="forged")],
    )
    with pytest.raises(CommandError, match="stream flow-1, seq 4: HEAD_MISMATCH"):
        verify()


@pytest.mark.parametrize("stream", ["flow-1", "system"])
@pytest.mark.parametrize("cut_from", [1, 3])
def test_a_truncated_stream_is_found(stream: str, cut_from: int) -> None:
    ledger_tampering.execute(
        "DELETE FROM audit_ledgerentry WHERE stream = %s AND seq >= %s", [stream, cut_from]
    )
    with pytest.raises(CommandError, match=f"stream {stream}, seq {cut_from}: TRUNCATED"):
        verify()


def test_a_stream_without_a_head_is_found() -> None:
    StreamHead.objects.all().delete()
    with pytest.raises(CommandError, match="stream system, seq 3: HEAD_MISSING"):
        verify()


def test_without_a_source_of_flow_heads_flows_need_none(settings: Any) -> None:
    settings.DIR_HEADS = []
    assert "intact" in verify()


def test_an_edited_head_is_found() -> None:
    StreamHead.objects.update(hash=bytes(32))
    with pytest.raises(CommandError, match="stream system, seq 3: HEAD_MISMATCH"):
        verify()


def test_an_edited_payload_is_found() -> None:
    Payload.objects.update(content=b'{"name":"someone else"}')
    with pytest.raises(CommandError, match="PAYLOAD_MISMATCH"):
        verify()


def test_an_erased_payload_breaks_nothing() -> None:
    commitment = Payload.objects.values_list("commitment", flat=True).get()
    assert ledger.erase_payload(
        tenant="default", commitment=commitment, actor="user:1", at=AT, reason="asked for"
    )
    assert "7 entries in 2 streams, 2 heads and 0 payloads" in verify()


def test_a_bad_entry_that_came_while_verifying_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = entry_walk.rows

    def all_but_the_last(span: entry_walk.Span) -> Iterable[Any]:
        return (row for row in real(span) if (row.stream, row.seq) != ("system", 3))  # type: ignore[union-attr]

    monkeypatch.setattr(entry_walk, "rows", all_but_the_last)
    ledger_tampering.execute(
        "UPDATE audit_ledgerentry SET actor = 'user:9' WHERE stream = 'system' AND seq = 3"
    )
    with pytest.raises(CommandError, match="stream system, seq 3: COLUMN_MISMATCH"):
        verify()


def export(path: Path, **options: Any) -> Path:
    call_command("export_ledger", out=path, **options)
    return path


def test_an_export_can_be_verified_without_the_database(tmp_path: Path) -> None:
    path = export(tmp_path / "ledger.jsonl")
    assert "6 entries in 2 streams, 2 heads" in verify(file=path)


def test_an_export_of_one_stream_holds_only_that(tmp_path: Path) -> None:
    path = export(tmp_path / "ledger.jsonl", stream="system")
    assert "3 entries in 1 streams, 1 heads" in verify(file=path)


def test_an_export_of_nothing_is_empty(tmp_path: Path) -> None:
    path = export(tmp_path / "ledger.jsonl", stream="nowhere")
    assert path.read_text() == ""
    assert "0 entries" in verify(file=path)


def test_an_export_goes_to_standard_output_as_well() -> None:
    out = StringIO()
    call_command("export_ledger", stream="flow-1", stdout=out)
    first = json.loads(out.getvalue().splitlines()[0])
    entry = LedgerEntry.objects.get(stream="flow-1", seq=1)
    assert (first["type"], first["kind"], first["hash"]) == ("entry", "flow:opened", bytes(entry.hash).hex())


def test_an_export_never_overwrites_a_file(tmp_path: Path) -> None:
    path = export(tmp_path / "ledger.jsonl")
    with pytest.raises(CommandError, match="cannot be written"):
        export(path)


@pytest.mark.parametrize(
    ("line", "why"), [(1, "stream flow-1, seq 3: GAP"), (2, "stream flow-1, seq 3: TRUNCATED")]
)
def test_an_export_that_lost_a_line_is_found(tmp_path: Path, line: int, why: str) -> None:
    path = export(tmp_path / "ledger.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    del lines[line]
    path.write_text("".join(lines))
    with pytest.raises(CommandError, match=why):
        verify(file=path)


@pytest.mark.parametrize(
    "text",
    ["{", '{"type":"page"}', "[]", '{"type":"entry"}', '{"type":"head","tenant":"t","stream":"s","seq":"x"}'],
)
def test_a_file_that_is_no_export_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(text)
    with pytest.raises(CommandError, match="line 1 is not a valid export line"):
        verify(file=path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        verify(file=tmp_path / "none.jsonl")


def test_exports_hold_no_payloads() -> None:
    assert "someone" not in "".join(verification.export_lines())
