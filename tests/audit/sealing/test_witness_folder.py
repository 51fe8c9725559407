"""A witness folder: nothing is overwritten or half written, and nobody waits for a disk that hangs."""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.sealing import witness_folder
from audit.sealing.witness_folder import Contents, FolderError, TakenError

NAME = "dir-console-1"
NOTHING = Contents(latest=None, numbered=None, suspect=None)


def write(folder: Path, *, size: int = 7, note: bytes = b"seven", seen: Contents = NOTHING) -> None:
    witness_folder.write(folder, name=NAME, size=size, note=note, seen=seen, replace_latest=True)


def files(folder: Path) -> dict[str, bytes]:
    """All files but the lock."""
    place = folder / NAME
    return {path.name: path.read_bytes() for path in place.iterdir() if path.name != ".lock"}


def test_a_checkpoint_is_one_file_and_the_latest(tmp_path: Path) -> None:
    write(tmp_path)
    assert files(tmp_path) == {"000000000007.txt": b"seven", "latest.txt": b"seven"}
    seen = Contents(latest=b"seven", numbered=None, suspect=None)
    write(tmp_path, size=8, note=b"eight", seen=seen)
    expected = {"000000000007.txt": b"seven", "000000000008.txt": b"eight", "latest.txt": b"eight"}
    assert files(tmp_path) == expected


def test_others_may_read_it_whatever_the_mask_of_the_process(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / NAME).glob("*.txt")} == {0o644}


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    """It may be a disk that is not mounted."""
    gone = tmp_path / "gone"
    for use in (
        lambda: write(gone),
        lambda: witness_folder.look(gone, name=NAME, size=1, suspect=""),
        lambda: witness_folder.newest(gone, origin="o", epoch=1, beyond=0),
    ):
        with pytest.raises(FolderError, match="does not exist"):
            use()
    assert not gone.exists()


def test_what_was_not_seen_is_not_replaced(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(TakenError):
        write(tmp_path, size=8, note=b"eight")
    with pytest.raises(TakenError):
        write(tmp_path, note=b"other", seen=Contents(latest=b"seven", numbered=None, suspect=None))
    assert files(tmp_path) == {"000000000007.txt": b"seven", "latest.txt": b"seven"}


def test_a_file_that_appears_in_the_last_moment_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two machines whose file system has no locks."""
    link = os.link

    def link_late(draft: Path, target: Path) -> None:
        target.write_bytes(b"theirs")
        link(draft, target)

    monkeypatch.setattr(os, "link", link_late)
    with pytest.raises(TakenError):
        write(tmp_path)
    assert files(tmp_path) == {"000000000007.txt": b"theirs"}


def test_one_writes_at_a_time(tmp_path: Path) -> None:
    write(tmp_path)
    with (tmp_path / NAME / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TakenError, match="is writing"):
            write(tmp_path, size=8, seen=Contents(latest=b"seven", numbered=None, suspect=None))


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(("module", "call"), [(fcntl, "flock"), (os, "link")])
def test_a_file_system_without_locks_or_links_will_do(
    module: Any, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, call, failing(errno.EOPNOTSUPP))
    write(tmp_path)
    assert files(tmp_path) == {"000000000007.txt": b"seven", "latest.txt": b"seven"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize(
    ("module", "call"), [(os, "open"), (os, "fsync"), (os, "link"), (fcntl, "flock"), (Path, "mkdir")]
)
def test_a_full_or_unwritable_disk_leaves_nothing_half_written(
    module: Any, call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(module, call, failing(number))
        with pytest.raises(FolderError) as raised:
            write(tmp_path)
    assert str(raised.value) == os.strerror(number)
    assert not (tmp_path / NAME).exists() or files(tmp_path) == {}
    write(tmp_path)
    assert set(files(tmp_path)) == {"000000000007.txt", "latest.txt"}


def test_a_disk_that_fills_up_between_the_two_files_keeps_the_old_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    replace = Path.replace
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", failing(errno.ENOSPC))
        with pytest.raises(FolderError, match="No space left"):
            write(tmp_path, size=8, note=b"eight", seen=Contents(b"seven", None, None))
    assert Path.replace is replace
    kept = {"000000000007.txt": b"seven", "000000000008.txt": b"eight", "latest.txt": b"seven"}
    assert files(tmp_path) == kept


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("in the way")
    with pytest.raises(FolderError, match=r"File exists|Not a directory"):
        write(tmp_path)
    with pytest.raises(FolderError, match="Not a directory"):
        witness_folder.look(tmp_path, name=NAME, size=1, suspect="")


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk that answers when the event is set."""
    answers = threading.Event()
    monkeypatch.setattr(witness_folder, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(witness_folder, "_ensure_there", lambda _: answers.wait(30))
    yield answers
    answers.set()


def test_nobody_waits_for_a_disk_that_hangs(tmp_path: Path, hanging: threading.Event) -> None:
    before = threading.active_count()
    with pytest.raises(FolderError, match="did not answer within"):
        write(tmp_path)
    for _ in range(3):
        with pytest.raises(FolderError, match="has not answered since"):
            write(tmp_path)
    assert threading.active_count() <= before + 1
    hanging.set()
    with witness_folder._in_use[tmp_path]:
        pass  # the thread that hung has ended
    seen = witness_folder.look(tmp_path, name=NAME, size=7, suspect="")
    assert seen == Contents(latest=b"seven", numbered=b"seven", suspect=None)


@pytest.mark.parametrize(
    ("origin", "epoch", "name"),
    [
        ("dir-console/0af3", 1, "dir-console-0af3"),
        ("dir-console/0af3", 2, "dir-console-0af3-epoch-2"),
        ("../../etc/passwd", 1, "etc-passwd"),
        ("/", 1, "ledger"),
        ("a" * 300, 1, "a" * 100),
    ],
)
def test_a_ledger_writes_below_the_folder(origin: str, epoch: int, name: str) -> None:
    assert witness_folder.name_of(origin, epoch) == name


def test_a_suspect_is_a_file_of_the_same_folder(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "elsewhere").write_text("secret")
    assert witness_folder.look(tmp_path, name=NAME, size=1, suspect="../elsewhere").suspect is None


def test_what_shows_how_far_the_ledger_had_come_is_found(tmp_path: Path) -> None:
    """The latest, the largest number in case the latest is gone, and the first one beyond what is known."""
    epochs = {1: NAME, 2: f"{NAME}-epoch-2", 3: f"{NAME}-epoch-3"}
    for epoch, name in epochs.items():
        (tmp_path / name).mkdir()
        for size in (5, 40, 300):
            (tmp_path / name / witness_folder.file_of(size)).write_text(f"{epoch}:{size}")
    (tmp_path / NAME / "latest.txt").write_text("latest")
    for name in ("notes.txt", "7.txt.bak", ".8.txt.new"):
        (tmp_path / epochs[2] / name).write_text("no checkpoint")
    for name in ("dir-console-10", f"{NAME}-epoch-0", f"{NAME}-epoch-x", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{NAME}-epoch-9").write_text("a file")
    found = witness_folder.newest(tmp_path, origin="dir-console/1", epoch=1, beyond=5)
    assert sorted((held.epoch, held.file) for held in found) == [
        (1, "000000000040.txt"),
        (1, "000000000300.txt"),
        (1, "latest.txt"),
        (2, "000000000040.txt"),
        (2, "000000000300.txt"),
        (3, "000000000040.txt"),
        (3, "000000000300.txt"),
    ]
    later = witness_folder.newest(tmp_path, origin="dir-console/1", epoch=3, beyond=300)
    assert [(held.epoch, held.text) for held in later] == [(3, b"3:300")]
