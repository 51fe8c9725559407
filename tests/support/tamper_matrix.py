"""Every tamper case, and what the server and the verifier of a pack say of it: see `tamper_matrix.txt`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from django.contrib.auth.models import User

from audit.chain import ChainBreak
from audit.packs import export, verify
from audit.packs.verify import Brought, Report
from audit.sealing import proofs
from audit.sealing.notes import Signed
from audit.verification import findings
from runtime.core import clock
from tests.support import chain_tampering, record_tampering, row_tampering, tamper_cases, tree_tampering
from tests.support.finished_history import History

TABLE: Final = Path(__file__).with_name("tamper_matrix.txt")
WHOLE: Final = "whole"
NO_PACK: Final = "no pack can be made"
FLOWS: Final = ("accepted", "overridden", "modified", "aborted", "undone")
GROUPS: Mapping[str, Mapping[str, Callable[[History], Any]]] = {
    "Rows and entries": {**tamper_cases.CASES, **row_tampering.CASES},
    "Decision records": record_tampering.CASES,
    "Chains, keys, checkpoints and triggers": chain_tampering.CASES,
    "The tree": {name: change for name, (_, change) in tree_tampering.CASES.items()},
    "With the stolen signing key": {
        name: change for name, (_, change) in tree_tampering.WITH_THE_KEY.items()
    },
    "Recorded nowhere": tamper_cases.UNPROVABLE,
}
_VARYING = re.compile(
    r"\baudit_[a-z_]+\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{16,}\b|\b\d[\d:.+-]*(?:T[\d:.+-]+)?"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: `kept` and `verifier_kept` are with the checkpoint that was kept elsewhere.

    `flow` is that whose pack holds what was changed; empty where no pack of these flows does. `why` says why
    a change is not found.
    """

    case: str
    flow: str
    server: str
    kept: str
    verifier: str
    verifier_kept: str
    why: str = ""


def read() -> list[Row]:
    """The lines of the table, in order."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [Row(*("" if cell == "-" else cell for cell in row)) for row in rows]


def changes() -> dict[str, Callable[[History], Any]]:
    """What every case changes, by its name."""
    return {name: change for cases in GROUPS.values() for name, change in cases.items()}


def line(row: Row) -> str:
    """A row as a line of the table."""
    cells = [getattr(row, each.name) or "-" for each in fields(Row)]
    return " | ".join(cells if row.why else cells[:-1])


def observe(history: History, row: Row, change: Callable[[History], Any], kept: Signed) -> Row:
    """Change something, and ask everybody; in a transaction that the caller takes back."""
    kept = change(history) or kept
    server = findings.verify_all().findings
    with_kept = findings.verify_all(given=kept).findings
    alone, together = (_place(history, found[0]) if found else WHOLE for found in (server, with_kept))
    if row.flow == "":
        return Row(row.case, "", alone, together, "", "", row.why)
    archive = packed(history, row.flow)
    if archive is None:
        return Row(row.case, row.flow, alone, together, NO_PACK, NO_PACK, row.why)
    plain, compared = (
        _report(verify.verify_archive(archive, brought)) for brought in (None, brought_by(archive, kept))
    )
    return Row(row.case, row.flow, alone, together, plain, compared, row.why)


def packed(history: History, flow: str) -> bytes | None:
    """The pack of a flow as the tampered database gives it."""
    try:
        return export.evidence_pack(tenant="default", dfid=getattr(history, flow), at=clock.now())
    except export.NotSealedError:
        return None


def brought_by(archive: bytes, kept: Signed) -> Brought:
    """The kept checkpoint, and the proof between it and the pack's that the tampered database gives."""
    note = verify.read_note(kept.text.encode())
    members, _ = verify.read_archive(archive)
    ours = verify.read_note(members["checkpoint.txt"])
    first, second = sorted((note.size, ours.size))
    proof = proofs.consistency(from_size=first, to_size=second)
    return Brought(note, {}, {} if proof is None else {(first, second): proof})


def _place(history: History, found: ChainBreak) -> str:
    stream = found.stream
    for flow in FLOWS:
        stream = stream.replace(str(getattr(history, flow)), f"flow {flow}")
    stream = re.sub(r"^[0-9a-f]{8}-[0-9a-f-]{27}$", "another flow", stream)
    stream = re.sub(r"^payload [0-9a-f]{64}$", "a payload", stream)
    stream = re.sub(r"^(incident|hold):[0-9a-f-]{36}$", r"\1", stream)
    if (user := re.fullmatch(r"user:(\d+)", stream)) and int(user[1]) < 900:
        stream = f"user {User.objects.get(pk=user[1]).username}"
    if found.seq:
        return f"{found.fault} {stream}, {found.seq}"
    return f"{found.fault} {stream}: {_VARYING.sub('N', found.detail)}".replace("|", "/")


def _report(report: Report) -> str:
    if report.findings:
        first = report.findings[0]
        return f"{first.code} {f'entry {first.seq}' if first.seq else first.member or 'the pack'}"
    if report.problem:
        return "cannot judge: the two checkpoints cannot be compared"
    if report.absent:
        return f"named absent: {sorted(report.absent.values())[0]}"
    return WHOLE
