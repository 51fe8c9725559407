"""Every tamper case, asked of the server without and with a kept checkpoint, and of a pack's verifier."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from audit.packs import verify
from audit.sealing import notes, proofs
from audit.verification import findings
from tests.support import exported_packs, finished_history, tamper_matrix, worlds
from tests.support.finished_history import History
from tests.support.tamper_matrix import NO_PACK, WHOLE, Row

ROWS = tamper_matrix.read()
CHANGES = tamper_matrix.changes()
# A PostgreSQL column refuses these, or makes another value of its own type of them.
TYPED = ("cell of another type", "record: body of another type")
history = worlds.opened(finished_history.opened)


@pytest.fixture
def undone(history: History, django_db_blocker: Any) -> Iterator[History]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)


@pytest.fixture(scope="module", autouse=True)
def _each_signature_once() -> Iterator[None]:
    """The verifier's arithmetic is pure and slow; packs of one flow hold mostly the same signatures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "is_signed", functools.cache(verify.is_signed))
        yield


def newest() -> notes.Signed:
    kept = proofs.latest()
    assert kept is not None
    return kept


def test_every_case_is_in_the_table_once() -> None:
    assert sorted(row.case for row in ROWS) == sorted(CHANGES)
    assert len(ROWS) > 200
    assert len([row for row in ROWS if row.flow]) > 60


def test_what_is_found_by_nobody_says_why() -> None:
    """And what only the kept checkpoint shows needs it: these are the rows for which people keep one."""
    assert [row.case for row in ROWS if row.kept == WHOLE and not row.why] == []
    with_checkpoint_alone = [row.case for row in ROWS if row.server == WHOLE != row.kept]
    assert "stolen key: another approver in everything, all made anew" in with_checkpoint_alone
    assert len(with_checkpoint_alone) >= 5


def test_the_control_is_whole(undone: History) -> None:
    for flow in tamper_matrix.FLOWS:
        row = Row("control", flow, WHOLE, WHOLE, WHOLE, WHOLE)
        assert tamper_matrix.observe(undone, row, lambda _: None, newest()) == row


@pytest.mark.parametrize("row", ROWS, ids=[row.case for row in ROWS])
def test_a_change_is_named_as_the_table_says(undone: History, row: Row) -> None:
    try:
        with transaction.atomic():
            observed = tamper_matrix.observe(undone, row, CHANGES[row.case], newest())
    except DatabaseError:
        assert connection.vendor == "postgresql"
        assert row.case.startswith(TYPED)
        return
    if connection.vendor == "postgresql" and row.case.startswith(TYPED):
        assert WHOLE not in {observed.server, observed.kept}
        return
    assert tamper_matrix.line(observed) == tamper_matrix.line(row)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.flow and row.verifier != NO_PACK][::8], ids=lambda row: row.case
)
def test_a_stranger_is_told_the_same(undone: History, tmp_path: Path, row: Row) -> None:
    """The verifier as a file, in an empty folder: `python3 -I`, without an environment."""
    CHANGES[row.case](undone)
    archive = tamper_matrix.packed(undone, row.flow)
    assert archive is not None
    code, answer = exported_packs.verified(exported_packs.read(archive), tmp_path)
    is_found = row.verifier != WHOLE and not row.verifier.startswith("named absent")
    assert code == int(is_found), answer
    if is_found:
        first = answer["findings"][0]
        assert first["code"] == row.verifier.split(" ")[0]
    assert bool(answer["absent"]) == row.verifier.startswith("named absent") or is_found


def test_the_first_finding_names_an_entry_where_one_can_be_named(undone: History) -> None:
    CHANGES["last entry of a flow, and its head"](undone)
    found = findings.verify_all().findings
    assert found[0].seq
    assert [bool(item.seq) for item in found] == sorted((bool(item.seq) for item in found), reverse=True)
