"""Sending checkpoints to witnesses: each has the newest one, nothing that is there is replaced, and every
fault is named and tried again.
"""

import hashlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.fixtures import Settings

from audit import signing
from audit.models import Checkpoint, Tile, WitnessState
from audit.sealing import notes, proofs, witness_folder, witnesses
from audit.sealing.notes import Signed
from audit.signing import LocalSigner
from runtime.core import clock, transactions
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import witnessed
from runtime.execution.services import witness_delivery
from runtime.maintenance.services import witnessing
from tests.support import ledger_tampering, misbehaving_targets, notice_receivers, witness_places
from tests.support.logged import levels_of
from tests.support.witness_places import grow, held, make_due, place_of, state

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnessed, "_first_look", None)


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    """A folder that is a witness."""
    made = witness_places.make(tmp_path / "witness")
    witness_places.configure(settings, made)
    return made


@pytest.fixture
def hook(settings: Settings) -> Iterator[notice_receivers.Receiver]:
    """A webhook that is a witness."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with notice_receivers.receiver() as receiver:
        witness_places.configure(settings, receiver.url)
        yield receiver


def only() -> WitnessState:
    return WitnessState.objects.get()


# Folders


def test_each_new_checkpoint_becomes_a_file_and_the_latest(folder: Path) -> None:
    first = grow()
    assert witnessing.send_due() == 1
    second = grow(times=3)
    assert witnessing.send_due() == 0, "it is not its turn again"
    make_due()
    assert witnessing.send_due() == 1
    files = held(folder)
    assert witness_places.sizes(files) == [first.checkpoint.size, second.checkpoint.size]
    assert (place_of(folder) / files[0]).read_text() == first.text
    assert (place_of(folder) / files[1]).read_text() == (place_of(folder) / "latest.txt").read_text()
    assert (place_of(folder) / "latest.txt").read_text() == second.text
    row = state(folder)
    assert (row.size, row.signed_at) == (second.checkpoint.size, second.checkpoint.time)
    assert (row.tries, row.error, row.finding, row.failing_since) == (0, "", "", None)


def test_it_is_sent_at_most_so_often(folder: Path, settings: Settings) -> None:
    settings.DIR_WITNESS_EVERY_S = 7
    grow()
    witnessing.send_due()
    row = state(folder)
    assert row.sent_at is not None
    assert row.next_at - row.sent_at == timedelta(seconds=7)


def test_nothing_is_asked_or_sent_without_a_witness(django_assert_num_queries: Any) -> None:
    grow()
    with django_assert_num_queries(0):
        assert witnessing.send_due() == 0
    assert not WitnessState.objects.exists()


def test_nothing_is_sent_before_the_first_checkpoint(folder: Path) -> None:
    assert witnessing.send_due() == 0
    assert witnessing.send_now() == []
    assert list(folder.iterdir()) == []


def test_what_it_has_is_not_sent_again(folder: Path, django_assert_max_num_queries: Any) -> None:
    grow()
    witnessing.send_due()
    make_due()
    with django_assert_max_num_queries(4):
        assert witnessing.send_due() == 0


def heartbeat(monkeypatch: pytest.MonkeyPatch) -> Signed:
    """The same tree, signed two minutes later."""
    real = clock.now
    with monkeypatch.context() as later:
        later.setattr(clock, "now", lambda: real() + timedelta(minutes=2))
        return grow(times=0)


def test_an_idle_ledger_renews_the_latest_and_keeps_the_file_of_its_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = grow()
    witnessing.send_due()
    again = heartbeat(monkeypatch)
    assert again.checkpoint.size == first.checkpoint.size
    assert again.text != first.text
    make_due()
    assert witnessing.send_due() == 1
    assert len(held(folder)) == 2
    assert (place_of(folder) / held(folder)[0]).read_text() == first.text
    assert (place_of(folder) / "latest.txt").read_text() == again.text
    assert state(folder).finding == ""


def test_the_latest_never_goes_back(folder: Path) -> None:
    """A sender that was slow has an older checkpoint in its hands."""
    older = grow()
    newer = grow()
    witnessing.send_due()
    make_due()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(proofs, "latest", lambda: older)
        assert witnessing.send_due() == 1
    assert (place_of(folder) / "latest.txt").read_text() == newer.text
    assert witness_places.sizes(held(folder)) == [older.checkpoint.size, newer.checkpoint.size]
    assert state(folder).size == newer.checkpoint.size


def test_a_sender_that_holds_the_turn_keeps_the_others_away(folder: Path) -> None:
    grow()
    witness = witnesses.configured()[0]
    assert transactions.retry_on_conflict(lambda: witnessing._claim(witness, False)) is not None
    assert witnessing.send_due() == 0
    assert list(folder.iterdir()) == []


def test_a_sender_that_was_slower_than_its_lease_changes_nothing_that_came_after(folder: Path) -> None:
    newest = grow()
    witness = witnesses.configured()[0]
    slow = transactions.retry_on_conflict(lambda: witnessing._claim(witness, False))
    assert slow is not None
    make_due()
    grow()
    assert witnessing.send_due() == 1
    before = state(folder)
    for error in ("it did not answer", ""):
        witnessing._record(slow, newest, witnessing.SendResult(witness=witness.name, error=error))
        after = state(folder)
        assert (after.size, after.error, after.next_at) == (before.size, "", before.next_at)


TAMPERED: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda text: text[:-30],
    "empty": lambda _: b"",
    "another size": lambda text: text.replace(b"\n", b"\n1", 1),
    "another time": lambda text: text.replace(b"time 20", b"time 30", 1),
    "no text": lambda _: b"\xff\xfe",
    "too long": lambda text: text * 1000,
    "of another ledger": lambda text: text.replace(b"dir-console/", b"dir-console/x"),
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
@pytest.mark.parametrize("is_latest", [True, False], ids=["latest", "numbered"])
def test_a_file_that_this_ledger_did_not_sign_stays_and_is_named(
    folder: Path,
    is_latest: bool,
    change: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    grow()
    witnessing.send_due()
    numbered, latest = held(folder)
    file = place_of(folder) / (latest if is_latest else numbered)
    wrong = change(file.read_bytes())
    file.write_bytes(wrong)
    newest = heartbeat(monkeypatch)
    caplog.clear()
    for _ in range(2):
        make_due()
        WitnessState.objects.update(signed_at=newest.checkpoint.time - timedelta(minutes=1))
        assert witnessing.send_due() == 1, "the other file holds it"
        assert file.read_bytes() == wrong
        assert state(folder).finding == file.name
    assert [record.levelname for record in caplog.records] == ["ERROR"], "logged once"
    assert f"{file.name} is not what this ledger signed" in caplog.text
    assert not current_epoch.is_recovering()
    # The next size is written all the same, and the finding stays until somebody has taken the file away.
    newer = grow()
    make_due()
    assert witnessing.send_due() == 1
    assert witness_folder.file_of(newer.checkpoint.size) in held(folder)
    assert state(folder).finding == file.name
    file.rename(folder / "kept-as-evidence")
    grow()
    make_due()
    assert witnessing.send_due() == 1
    assert state(folder).finding == ""
    assert witness_places.read(place_of(folder) / "latest.txt").size > newer.checkpoint.size


def test_where_both_files_are_foreign_nothing_counts_as_taken(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grow()
    witnessing.send_due()
    for name in held(folder):
        (place_of(folder) / name).write_text("something else")
    WitnessState.objects.update(signed_at=clock.now() - timedelta(hours=1))
    make_due()
    assert witnessing.send_due() == 0
    row = state(folder)
    assert (row.finding, row.error) == ("latest.txt", "latest.txt is not what this ledger signed, and stays")
    assert {(place_of(folder) / name).read_text() for name in held(folder)} == {"something else"}


def test_a_checkpoint_under_the_name_of_another_size_is_not_what_was_signed(folder: Path) -> None:
    first = grow()
    witnessing.send_due()
    second = grow()
    copied = place_of(folder) / witness_folder.file_of(second.checkpoint.size)
    shutil.copy(place_of(folder) / witness_folder.file_of(first.checkpoint.size), copied)
    make_due()
    assert witnessing.send_due() == 1
    assert state(folder).finding == copied.name
    assert copied.read_text() == first.text


def test_a_checkpoint_that_does_not_match_the_ledger_is_sent_nowhere(folder: Path) -> None:
    grow()
    ledger_tampering.quietly("UPDATE audit_leaf SET entry_id = entry_id + 1000")
    Tile.objects.all().delete()
    assert witnessing.send_due() == 0
    assert list(folder.iterdir()) == []
    assert "run manage.py verify_ledger" in state(folder).error


def test_a_checkpoint_by_a_stranger_is_sent_nowhere(folder: Path) -> None:
    """Somebody who writes to the database, and has no key."""
    last = grow().checkpoint
    stranger = LocalSigner(b"s" * 32)
    made = notes.Checkpoint(last.origin, last.size, last.root, clock.now())
    note = notes.sign(made, public_key=stranger.public_key, sign=stranger.sign)
    Checkpoint.objects.create(size=made.size, root=made.root, at=made.time, key_id=stranger.key_id, note=note)
    assert witnessing.send_due() == 0
    assert list(folder.iterdir()) == []


def test_damaged_hashes_of_the_tree_are_no_reason_for_recovery(folder: Path) -> None:
    grow(times=300)
    witnessing.send_due()
    Tile.objects.all().delete()
    WitnessState.objects.update(signed_at=clock.now() - timedelta(hours=1))
    make_due()
    assert witnessing.send_due() == 1
    assert not current_epoch.is_recovering()


def test_a_witness_that_fails_is_tried_again_later_and_later(folder: Path, settings: Settings) -> None:
    settings.DIR_WITNESS_EVERY_S = 60
    grow()
    folder.rmdir()
    waited, since = [], None
    for tries in range(1, 7):
        before = clock.now()
        assert witnessing.send_due() == 0
        row = state(folder)
        assert (row.tries, row.error) == (tries, "the folder does not exist")
        since = since or row.failing_since
        assert row.failing_since == since
        waited.append(round((row.next_at - before).total_seconds(), -1))
        make_due()
    assert waited == [60, 120, 240, 480, 600, 600]
    folder.mkdir()
    newest = grow(times=5)
    make_due()
    assert witnessing.send_due() == 1
    row = state(folder)
    assert (row.tries, row.error, row.failing_since, row.size) == (0, "", None, newest.checkpoint.size)
    assert len(held(folder)) == 2, "only the newest is sent"


def test_a_fault_of_one_costs_the_others_nothing(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone, broken, good = tmp_path / "gone", tmp_path / "broken", witness_places.make(tmp_path / "good")
    witness_places.configure(settings, gone, broken, good)
    real = witness_folder.look

    def look(folder: Path, **words: Any) -> Any:
        if folder == broken:
            raise RuntimeError("a bug")
        return real(folder, **words)

    monkeypatch.setattr(witness_folder, "look", look)
    grow()
    assert witnessing.send_due() == 1
    assert state(good).error == ""
    assert f"could not be sent to the witness {broken}" in caplog.text


def test_a_folder_that_hangs_is_named_and_asked_again_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    grow()
    with monkeypatch.context() as hanging:
        hanging.setattr(witness_folder, "TIMEOUT_S", 0.05)
        hanging.setattr(witness_folder, "_ensure_there", lambda _: answers.wait(30))
        assert witnessing.send_due() == 0
        assert "did not answer within" in state(folder).error
        make_due()
        assert witnessing.send_due() == 0
        assert state(folder).error == "the folder has not answered since an earlier try"
        answers.set()
        with witness_folder._in_use[folder]:
            pass  # the thread that hung has ended
    make_due()
    assert witnessing.send_due() == 1
    assert state(folder).error == ""


def test_a_shutdown_is_not_kept_waiting(tmp_path: Path, settings: Settings) -> None:
    folders = [witness_places.make(tmp_path / name) for name in ("one", "two")]
    witness_places.configure(settings, *folders)
    grow()
    assert witnessing.send_due(is_stopping=lambda: WitnessState.objects.exists()) == 1


def test_too_many_updates_at_once_wait_for_the_next_round(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise transactions.BusyError

    grow()
    monkeypatch.setattr(witnessing, "_send", busy)
    assert witnessing.send_due() == 0
    assert "ERROR" not in levels_of(caplog, witnessing)


def test_a_race_with_another_sender_is_no_fault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object, **__: object) -> None:
        raise witness_folder.TakenError("another process is writing there")

    grow()
    monkeypatch.setattr(witness_folder, "write", taken)
    assert witnessing.send_due() == 0
    row = state(folder)
    assert (row.tries, row.error, row.size) == (0, "", None)
    assert row.next_at > clock.now()


def test_a_slow_sender_does_nothing_in_a_transaction(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []
    real = witness_folder.write

    def write(*words: Any, **named: Any) -> None:
        depths.append(len(connection.savepoint_ids))
        real(*words, **named)

    grow()
    depth = len(connection.savepoint_ids)
    monkeypatch.setattr(witness_folder, "write", write)
    assert witnessing.send_due() == 1
    assert depths == [depth]


# Webhooks


def test_a_webhook_gets_the_note_signed(hook: notice_receivers.Receiver) -> None:
    newest = grow()
    assert witnessing.send_due() == 1
    (body,) = hook.bodies(witness_places.SECRET)
    said = newest.checkpoint
    assert body["type"] == "checkpoint.signed"
    assert body["data"] == {
        "origin": said.origin,
        "tree_size": said.size,
        "root_hash": said.root.hex(),
        "epoch": 1,
        "checkpoint": newest.text,
    }
    assert hook.ids == [f"msg_{hashlib.sha256(newest.text.encode()).hexdigest()[:32]}"]
    row = only()
    assert (row.size, row.error) == (said.size, "")
    assert notice_receivers.TOKEN not in row.name
    assert row.name.startswith(hook.target.base_url)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_another_answer_is_tried_again_with_the_newest(hook: notice_receivers.Receiver, status: int) -> None:
    hook.status = status
    grow()
    assert witnessing.send_due() == 0
    row = only()
    assert (row.tries, row.size, row.error) == (1, None, f"the receiver answered {status}")
    assert witnessing.send_due() == 0
    assert len(hook.ids) == 1, "not before its time"
    hook.status = 204
    newest = grow(times=2)
    make_due()
    assert witnessing.send_due() == 1
    assert hook.bodies(witness_places.SECRET)[-1]["data"]["checkpoint"] == newest.text
    assert (only().tries, only().error, len(hook.ids)) == (0, "", 2)


def test_the_same_checkpoint_has_the_same_id_at_each_try(hook: notice_receivers.Receiver) -> None:
    hook.status = 500
    grow()
    for _ in range(2):
        witnessing.send_due()
        make_due()
    assert len(hook.ids) == 2
    assert len(set(hook.ids)) == 1


def test_a_redirect_is_not_followed(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(204)) as other:
        moved = misbehaving_targets.answer(302, b"", headers={"Location": other.base_url})
        with misbehaving_targets.stand_in(moved) as target:
            witness_places.configure(settings, target.base_url)
            grow()
            assert witnessing.send_due() == 0
        assert not other.seen
    assert only().error == "the receiver answered 302"


@pytest.mark.parametrize(
    ("answering", "error"),
    [
        (misbehaving_targets.drop, "no connection, or it closed before the answer"),
        (misbehaving_targets.trickle, "no answer arrived in time"),
    ],
)
def test_a_receiver_that_does_not_answer_costs_its_time_and_no_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, answering: Any, error: str
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(witness_delivery, "SEND_S", 0.3)
    with misbehaving_targets.stand_in(answering) as target:
        witness_places.configure(settings, target.base_url)
        grow()
        assert witnessing.send_due() == 0
        assert len(target.seen) == 1
    assert only().error == error


def test_a_private_address_is_not_called(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = []
    with misbehaving_targets.stand_in(misbehaving_targets.answer(204)) as target:
        witness_places.configure(settings, target.base_url.replace("http", "https"))
        grow()
        assert witnessing.send_due() == 0
        assert not target.seen
    assert only().error == "the address is not public and not in DIR_EGRESS_ALLOW"


def test_neither_secret_nor_token_is_logged(
    hook: notice_receivers.Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hook.status = 500
    grow()
    witnessing.send_due()
    assert "did not take a checkpoint" in caplog.text
    for secret in (
        notice_receivers.TOKEN,
        witness_places.SECRET,
        witness_places.SECRET.removeprefix("whsec_"),
    ):
        assert secret not in caplog.text
        assert secret not in repr(witnesses.configured())


# The command


def printed(*words: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("checkpoint", *words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_command_sends_now_and_says_what_each_took(
    tmp_path: Path, settings: Settings, hook: notice_receivers.Receiver
) -> None:
    folder = witness_places.make(tmp_path / "witness")
    witness_places.configure(settings, folder, hook.url)
    grow()
    witnessing.send_due()
    grow()
    out, err = printed("--witness")
    newest = proofs.latest()
    assert newest is not None
    assert out == newest.text
    assert len(err.splitlines()) == 2
    assert f"{folder} took it: {newest.checkpoint.size} entries." in err
    assert (place_of(folder) / "latest.txt").read_text() == newest.text
    assert len(hook.ids) == 2


def test_the_command_fails_where_a_witness_did_not_take_it(tmp_path: Path, settings: Settings) -> None:
    witness_places.configure(settings, tmp_path / "gone")
    with pytest.raises(CommandError, match="1 of 1 witnesses need attention"):
        printed("--witness")
    settings.DIR_WITNESS = []
    with pytest.raises(CommandError, match="set DIR_WITNESS"):
        printed("--witness")


def test_the_command_names_a_file_that_was_changed(folder: Path) -> None:
    printed("--witness")
    (place_of(folder) / "latest.txt").write_text("something else")
    with pytest.raises(CommandError, match="need attention"):
        printed("--witness")
    assert state(folder).finding == "latest.txt"


# Keys


def test_a_key_that_was_replaced_still_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow()
    witnessing.send_due()
    monkeypatch.setattr(signing, "signer", lambda: LocalSigner(b"n" * 32))
    newest = grow()
    make_due()
    assert witnessing.send_due() == 1
    assert (place_of(folder) / "latest.txt").read_text() == newest.text
    assert state(folder).finding == ""
