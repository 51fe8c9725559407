"""A restored backup is found by what a witness folder holds, where no mark is at hand."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from pytest_django.fixtures import Settings

from audit import canonical, presenters, signing
from audit.events import Kind
from audit.models import Checkpoint, LedgerEntry, Tile, Tree, UnsealedEntry, WitnessState
from audit.sealing import keys, notes, witness_folder
from audit.signing import LocalSigner
from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock, transactions
from runtime.epochs.models import Epoch
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import boots, epochs, marks, witnessed
from runtime.epochs.services.missing import Missing
from runtime.execution.services import claiming
from runtime.flows.services import flows
from runtime.maintenance.services import restores, sealing, sweeper, witnessing
from tests.support import ledger_tampering, restored_backup, trading_desk, witness_places
from tests.support.logged import levels_of
from tests.support.restored_backup import begin_next
from tests.support.witness_places import grow, make_due, place_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(witnessed, "_first_look", None)
    made = witness_places.make(tmp_path / "witness")
    witness_places.configure(settings, made)
    return made


def restart() -> None:
    """A new process asks for the first time."""
    witnessed._first_look = None


def go_on_and_restore(*, times: int = 3) -> notes.Checkpoint:
    """The ledger goes on and its checkpoints are sent; then the database is as it was. The last one sent."""
    grow()
    point = transaction.savepoint()
    for _ in range(times):
        newest = grow()
        make_due()
        assert witnessing.send_due() == 1
    transaction.savepoint_rollback(point)
    restart()
    return newest.checkpoint


def test_a_database_that_holds_everything_is_not_in_recovery(folder: Path) -> None:
    for _ in range(3):
        grow()
        make_due()
        witnessing.send_due()
    restart()
    assert not epochs.compare_with_mark()
    assert not epochs.is_older()


def test_a_restored_backup_is_in_recovery_and_the_witness_is_named(folder: Path) -> None:
    desk = trading_desk.open_desk()
    waiting = [desk.accept(window_s=3600) for _ in range(3)]
    lost = go_on_and_restore()
    assert epochs.compare_with_mark()
    assert sweeper.sweep().failed == 0
    assert {trading_desk.states(pk) for pk in waiting} == {(IntentState.IN_DOUBT, FlowState.ESCALATED)}
    said = StringIO()
    call_command("leave_recovery", stderr=said)
    assert f"The witness {folder} holds a checkpoint over {lost.size} entries" in said.getvalue()
    assert "The mark" not in said.getvalue()
    entry = LedgerEntry.objects.get(kind="epoch:restored")
    assert (entry.payload["witness"], entry.payload["missing_size"]) == (str(folder), lost.size)
    sentence = presenters.PRESENTERS[Kind(entry.kind)].sentence(entry.payload)
    assert f"{folder} holds a checkpoint over {lost.size} entries that this database does not" in sentence
    assert findings.verify_all().findings == []


def test_nothing_is_claimed_proposed_or_signed_before_the_first_sweep(folder: Path) -> None:
    """Where several processes share the work, each compares for itself."""
    desk = trading_desk.open_desk()
    intent_id = desk.accept(window_s=3600)
    go_on_and_restore()
    assert boots.this_boot() is None
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(intent_id, owner="a-worker"))
    assert claimed == claiming.ClaimRefused(status="HELD", detail="RECOVERY")
    opened = flows.open_flow(agent=desk.agent, trigger={"why": "trial"})
    assert isinstance(opened, Problem)
    assert opened.code == "RECOVERY"
    assert UnsealedEntry.objects.exists() or not sealing.seal_now()
    before = Checkpoint.objects.count()
    assert sealing.seal_now(with_heads=True) == 0
    assert Checkpoint.objects.count() == before
    assert witnessing.send_due() == 0
    assert not current_epoch.is_recovering(), "no sweeper came by"


def test_the_check_costs_one_look_per_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    real = witness_folder.newest

    def newest(place: Path, **words: Any) -> Any:
        looks.append(place)
        return real(place, **words)

    grow()
    monkeypatch.setattr(witness_folder, "newest", newest)
    restart()
    for _ in range(3):
        assert not epochs.compare_with_mark()
        assert not epochs.is_older()
    assert looks == [folder]


def test_a_server_that_is_alone_compares_at_its_start_only(folder: Path) -> None:
    go_on_and_restore()
    with boots.ended():
        boots.begin()
        assert not epochs.is_older()


def test_after_it_another_folder_is_written_and_the_old_one_stays(folder: Path) -> None:
    lost = go_on_and_restore()
    old = place_of(folder)
    kept = {path.name: path.read_bytes() for path in old.glob("*.txt")}
    assert epochs.compare_with_mark()
    sweeper.sweep()
    begun = begin_next()
    assert begun.number == 2
    statement = LedgerEntry.objects.get(kind="epoch:begun")
    assert (statement.payload["missing_entry"], statement.payload["missing_hash"]) == (0, "")
    restart()
    assert not epochs.compare_with_mark()
    assert not epochs.is_older()
    newest = grow()
    make_due()
    assert witnessing.send_due() == 1
    assert place_of(folder).name == f"{old.name}-epoch-2"
    assert witness_places.read(place_of(folder) / "latest.txt") == newest.checkpoint
    assert {path.name: path.read_bytes() for path in old.glob("*.txt")} == kept
    assert witness_places.read(old / "latest.txt") == lost
    restart()
    assert not epochs.compare_with_mark()
    assert findings.verify_all().findings == []


def test_the_same_backup_restored_again_is_found_by_the_later_epoch(folder: Path) -> None:
    """Also where the first epoch had lost nothing that a witness holds."""
    grow()
    point = transaction.savepoint()
    go_on_and_restore()
    assert epochs.compare_with_mark()
    sweeper.sweep()
    assert begin_next().number == 2
    grow()
    make_due()
    assert witnessing.send_due() == 1
    first = folder / witness_folder.name_of(Tree.objects.get().origin, 1)
    transaction.savepoint_rollback(point)
    for path in first.glob("*.txt"):
        path.unlink()
    restart()
    assert current_epoch.in_force().number == 1
    assert epochs.compare_with_mark()
    sweeper.sweep()
    assert begin_next().number == 3


def test_a_sender_that_meets_it_later_begins_recovery_and_writes_nothing(folder: Path) -> None:
    """The database was exchanged under a running process, or the folder could not be read at its start."""
    lost = go_on_and_restore()
    witnessed._first_look = (1, ())
    grow()
    kept = {path.name: path.read_bytes() for path in place_of(folder).glob("*.txt")}
    make_due()
    WitnessState.objects.update(signed_at=None, sent_at=None, size=None)
    assert witnessing.send_due() == 0
    assert current_epoch.is_recovering()
    assert f"a checkpoint over {lost.size} entries" in witness_places.state(folder).error
    assert {path.name: path.read_bytes() for path in place_of(folder).glob("*.txt")} == kept


def test_a_ledger_that_grew_past_what_the_witness_holds_is_found_by_its_root(folder: Path) -> None:
    """Restored while the witness could not be reached, and written to since."""
    go_on_and_restore(times=1)
    witnessed._first_look = (1, ())
    for _ in range(5):
        grow(times=2)
    restart()
    assert epochs.compare_with_mark()


@pytest.mark.parametrize("what", ["rolled back", "pruned"])
def test_entries_that_were_cut_off_are_found(folder: Path, what: str) -> None:
    """By somebody with the database's own rights, who leaves no trace in the tree."""
    grow()
    kept = Tree.objects.get().size
    grow(times=4)
    assert witnessing.send_due() == 1
    for statement in (
        "DELETE FROM audit_checkpoint WHERE size > %s",
        'DELETE FROM audit_leaf WHERE "index" >= %s',
        "UPDATE audit_tree SET size = %s"
        if what == "rolled back"
        else "UPDATE audit_tree SET size = size + 0 * %s",
        "DELETE FROM audit_tile WHERE %s > 0",
    ):
        ledger_tampering.quietly(statement, [kept])
    restart()
    assert epochs.compare_with_mark()


def test_an_entry_that_was_exchanged_is_found(folder: Path) -> None:
    grow(times=4)
    witnessing.send_due()
    ledger_tampering.quietly(
        "UPDATE audit_ledgerentry SET hash = %s WHERE seq = 2 AND stream = 'drill'", [b"x" * 32]
    )
    Tile.objects.all().delete()
    restart()
    assert epochs.compare_with_mark()


def test_a_latest_file_that_was_removed_or_put_back_hides_nothing(folder: Path) -> None:
    go_on_and_restore()
    latest = place_of(folder) / "latest.txt"
    latest.unlink()
    assert witnessed.find_missing()
    first = sorted(place_of(folder).glob("0*.txt"))[0]
    latest.write_bytes(first.read_bytes())
    assert witnessed.find_missing()


def test_a_backup_from_before_a_change_of_the_key_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the new key in use the newest file proves it; with the old one that of before the change."""
    grow()
    point = transaction.savepoint()
    grow()
    make_due()
    assert witnessing.send_due() == 1
    with monkeypatch.context() as rotated:
        new = LocalSigner(b"n" * 32)
        tree = Tree.objects.get()
        with transaction.atomic():
            keys.rotate_to(new, tenant="default", origin=tree.origin, actor="system", at=clock.now())
        rotated.setattr(signing, "signer", lambda: new)
        newest = grow()
        make_due()
        assert witnessing.send_due() == 1
        transaction.savepoint_rollback(point)
        (found,) = witnessed.find_missing()
        assert found.size == newest.checkpoint.size
    (found,) = witnessed.find_missing()
    assert found.size < newest.checkpoint.size


def test_what_a_stranger_put_there_begins_no_recovery(folder: Path) -> None:
    """Else whoever may write to the folder could stop the installation."""
    last = grow().checkpoint
    witnessing.send_due()
    stranger = LocalSigner(b"s" * 32)
    made = notes.Checkpoint(last.origin, last.size + 100, bytes(32), clock.now())
    note = notes.sign(made, public_key=stranger.public_key, sign=stranger.sign)
    (place_of(folder) / "latest.txt").write_text(note)
    (place_of(folder) / witness_folder.file_of(made.size)).write_text(note)
    restart()
    assert not epochs.compare_with_mark()


def test_a_folder_that_cannot_be_read_stops_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    go_on_and_restore()
    folder.rename(folder.with_name("unmounted"))
    assert not epochs.compare_with_mark()
    assert f"the witness {folder} was not read: the folder does not exist" in caplog.text
    assert levels_of(caplog, witnessed) == ["WARNING"]


def test_a_new_database_beside_an_old_witness_begins_anew(folder: Path) -> None:
    other = witness_folder.name_of("dir-console/another", 1)
    (folder / other).mkdir()
    (folder / other / "latest.txt").write_text("whatever")
    assert not epochs.compare_with_mark()
    assert not Tree.objects.exists()
    grow()
    assert not epochs.compare_with_mark()


def test_a_webhook_is_asked_for_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnessed, "_first_look", None)
    witness_places.configure(settings, "https://witness.example")
    grow()
    assert not epochs.compare_with_mark()


def test_mark_and_witness_are_both_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = restored_backup.keep_mark(folder.parent, monkeypatch)
    trading_desk.open_desk()
    lost = go_on_and_restore()
    witnessed._first_look = (1, ())
    assert not epochs.compare_with_mark()
    kept = json.loads(place.read_text())
    place.write_text(json.dumps({**kept, "entry_id": kept["entry_id"] + 7}))
    assert epochs.compare_with_mark()
    sentences = epochs.describe_missing()
    assert f"The mark names entry {kept['entry_id'] + 7}" in sentences
    assert f"a checkpoint over {lost.size} entries" in sentences
    missing = canonical.decode(bytes(Epoch.objects.get().missing))
    assert set(missing) == {"database_id", "epoch", "entry_id", "hash", "checkpoints"}
    sweeper.sweep()
    begin_next()
    assert not epochs.compare_with_mark()
    assert marks.read() == marks.of_database()


def test_an_answer_that_came_meanwhile_is_not_asked_for_again(folder: Path) -> None:
    go_on_and_restore()
    missing = witnessed.find_missing()
    assert epochs.compare_with_mark()
    sweeper.sweep()
    assert not isinstance(restores.begin_next(tenant="default", actor="user:1", reason="known"), Problem)
    late = Missing(mark=None, checkpoints=missing)
    assert not epochs.begin_recovery(late)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM runtime_epoch WHERE restored_at IS NOT NULL")
        assert cursor.fetchone()[0] == 1
