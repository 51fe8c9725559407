"""verify_ledger and the tree: a change of it is found, and so is a ledger sealed anew with a stolen key."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from audit.models import LedgerEntry, Tree
from audit.sealing import notes, proofs
from audit.verification import findings
from runtime.maintenance.services import sealing
from tests.support import finished_history, tree_tampering, worlds
from tests.support.finished_history import History

history = worlds.opened(finished_history.opened)


@pytest.fixture
def undone(history: History, django_db_blocker: Any) -> Iterator[History]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield history
        transaction.set_rollback(True)


def newest() -> notes.Signed:
    signed = proofs.latest()
    assert signed is not None
    return signed


def verify(*options: str) -> str:
    printed = StringIO()
    call_command("verify_ledger", *options, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def test_the_control_is_whole(undone: History) -> None:
    result = findings.verify_all(given=newest())
    assert result.findings == []
    assert result.leaves == newest().checkpoint.size == Tree.objects.get().size > 100
    assert result.leaves < LedgerEntry.objects.count()
    # The empty tree, two rounds of incident rules, and the end.
    assert result.checkpoints == 4


def test_an_entry_that_was_rewritten_after_it_was_sealed_is_named(undone: History) -> None:
    tree_tampering.CASES["an entry rewritten with its chain"][1](undone)
    places = [
        (item.stream, item.seq) for item in findings.verify_all().findings if item.fault == "LEAF_MISMATCH"
    ]
    # The one that was changed, and those after it: their hashes name it.
    assert places[0] == (str(undone.accepted), 2)
    assert {stream for stream, _ in places} == {str(undone.accepted)}


@pytest.mark.parametrize("name", tree_tampering.WITH_THE_KEY)
def test_what_a_stolen_key_signs_is_found_with_a_checkpoint_that_was_kept(
    undone: History, tmp_path: Path, name: str
) -> None:
    kept = tmp_path / "checkpoint.txt"
    kept.write_text(newest().text, encoding="utf-8")
    fault, change = tree_tampering.WITH_THE_KEY[name]
    change(undone)
    of_tree = {"LEAF_MISMATCH", "ROOT_MISMATCH", "CHECKPOINT_MISMATCH", "NOT_SEALED", "SIGNATURE_WRONG"}
    assert not of_tree & {item.fault for item in findings.verify_all().findings}
    found = findings.verify_all(given=notes.read(kept.read_text(encoding="utf-8")))
    assert fault in {item.fault for item in found.findings}
    for option in ("--from", "--since"):
        with pytest.raises(CommandError, match="The first bad entry: "):
            verify(option, str(kept))


def test_a_ledger_that_is_shorter_than_a_kept_checkpoint_is_found(undone: History) -> None:
    before = transaction.savepoint()
    sealing.seal_now()
    kept = newest()
    transaction.savepoint_rollback(before)
    (found,) = findings.verify_all(given=kept).findings
    assert (found.fault, found.stream) == ("TRUNCATED", "system")


def test_a_checkpoint_of_another_ledger_or_by_another_key_is_refused(undone: History) -> None:
    said = newest().checkpoint
    elsewhere = notes.Checkpoint("dir-console/elsewhere", said.size, said.root, said.time)
    for checkpoint, fault in ((elsewhere, "CHECKPOINT_MISMATCH"), (said, "SIGNATURE_WRONG")):
        stranger = tree_tampering.STRANGER
        note = notes.sign(checkpoint, public_key=stranger.public_key, sign=stranger.sign)
        (found,) = findings.verify_all(given=notes.read(note)).findings
        assert found.fault == fault


def test_what_the_command_cannot_read_is_an_error(undone: History, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.txt"
    with pytest.raises(CommandError, match="cannot be read"):
        verify("--from", str(nothing))
    nothing.write_text("nothing", encoding="utf-8")
    with pytest.raises(CommandError, match="is not a checkpoint: no empty line"):
        verify("--from", str(nothing))
    with pytest.raises(CommandError, match="without --file"):
        verify("--from", str(nothing), "--file", str(nothing))


def test_the_command_prints_the_newest_checkpoint_and_nothing_else(undone: History, tmp_path: Path) -> None:
    printed = StringIO()
    call_command("checkpoint", stdout=printed)
    assert printed.getvalue() == newest().text
    assert newest().checkpoint.size == LedgerEntry.objects.count()
    kept = tmp_path / "checkpoint.txt"
    kept.write_text(printed.getvalue(), encoding="utf-8")
    assert verify("--from", str(kept)).startswith("The ledger is intact: ")
