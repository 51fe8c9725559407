"""A folder as a witness: one file for each checkpoint that was sent, and `latest.txt`. Knows no database.

The folder may be on another machine. So nothing here waits for it for longer than TIMEOUT_S, and what it
holds is never overwritten: whoever replaces a file has said which text was there, and loses where it is
another one by then.
"""

import errno
import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

LATEST: Final = "latest.txt"
TIMEOUT_S: Final = 5.0
_LOCK: Final = ".lock"
_DIGITS: Final = 12
_LONGEST_NAME: Final = 100
# More than any checkpoint has: of a file that is larger the rest says nothing.
_MOST_BYTES: Final = 20_000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SUFFIX: Final = ".txt"
_MOST_CHARS: Final = 19 + len(_SUFFIX)

Result = TypeVar("Result")
# Held by the thread that uses a folder.
_in_use: dict[Path, threading.Lock] = {}


class FolderError(Exception):
    """The folder cannot be used now; the text says why."""


class TakenError(FolderError):
    """Another process has written there meanwhile."""


@dataclass(frozen=True, slots=True)
class Held:
    """A file of one epoch's folder, as it was read."""

    epoch: int
    file: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """The files that matter to whoever sends a checkpoint; None where there is none."""

    latest: bytes | None
    numbered: bytes | None
    suspect: bytes | None


def name_of(origin: str, epoch: int) -> str:
    """The folder of a ledger in one epoch: after a restore it has another one, and the old one stays."""
    base = _UNSAFE.sub("-", origin).strip(".-")[:_LONGEST_NAME] or "ledger"
    return base if epoch == 1 else f"{base}-epoch-{epoch}"


def file_of(size: int) -> str:
    """The name of the file of a checkpoint over so many entries; sorted by name is sorted by size."""
    return f"{size:0{_DIGITS}d}{_SUFFIX}"


def look(folder: Path, *, name: str, size: int, suspect: str) -> Contents:
    """Read the latest file, the one for `size`, and the one named `suspect`. Raises FolderError."""

    def work() -> Contents:
        _ensure_there(folder)
        place = folder / name
        return Contents(
            latest=_read(place / LATEST),
            numbered=_read(place / file_of(size)),
            suspect=_read(place / Path(suspect).name) if suspect else None,
        )

    return _bounded(folder, work)


def newest(folder: Path, *, origin: str, epoch: int, beyond: int) -> list[Held]:
    """What shows how far the ledger had come, of this epoch and each later one. Raises FolderError.

    Of each epoch `latest.txt`, the file with the largest number, since the latest could be gone, and the
    first one past `beyond`, which a key that was replaced since may have signed.
    """

    def work() -> list[Held]:
        _ensure_there(folder)
        found = []
        for number, place in _places(folder, origin):
            if number < epoch:
                continue
            sizes = {
                int(name.removesuffix(_SUFFIX)): name for name in os.listdir(place) if _is_numbered(name)
            }
            first = min((size for size in sizes if size > beyond), default=None)
            picked = {sizes[size] for size in (first, max(sizes, default=None)) if size is not None}
            for file in (LATEST, *sorted(picked)):
                text = _read(place / file)
                found += [] if text is None else [Held(number, file, text)]
        return found

    return _bounded(folder, work)


def write(folder: Path, *, name: str, size: int, note: bytes, seen: Contents, replace_latest: bool) -> None:
    """Add the file of this size, unless there is one, and replace the latest if asked to.

    Both whole or not at all: a power cut leaves the old file or the new one. Raises FolderError, and
    TakenError where the files are not those that were `seen`.
    """

    def work() -> None:
        _ensure_there(folder)
        place = folder / name
        if not place.is_dir():
            place.mkdir(exist_ok=True)
            # Others read it as well, whatever the mask of this process.
            place.chmod(0o755)
        with _locked(place):
            numbered = place / file_of(size)
            if _read(place / LATEST) != seen.latest or _read(numbered) != seen.numbered:
                raise TakenError("another process has written there meanwhile")
            if seen.numbered is None:
                _put(numbered, note, is_new=True)
            if replace_latest:
                _put(place / LATEST, note, is_new=False)
            _sync(place)

    _bounded(folder, work)


def _ensure_there(folder: Path) -> None:
    """Never made here: a disk that is not mounted must not be mistaken for an empty one."""
    if not folder.is_dir():
        raise FolderError("the folder does not exist")


def _places(folder: Path, origin: str) -> Iterator[tuple[int, Path]]:
    base = re.escape(name_of(origin, 1))
    pattern = re.compile(rf"{base}(?:-epoch-([1-9][0-9]{{0,9}}))?", re.ASCII)
    for path in folder.iterdir():
        found = pattern.fullmatch(path.name)
        if found is not None and path.is_dir():
            yield int(found[1] or 1), path


def _is_numbered(name: str) -> bool:
    # A year has half a million files, so no pattern is matched.
    return (
        name.endswith(_SUFFIX)
        and name.removesuffix(_SUFFIX).isdecimal()
        and name.isascii()
        and len(name) <= _MOST_CHARS
    )


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None


def _put(target: Path, text: bytes, *, is_new: bool) -> None:
    draft = target.with_name(f".{uuid4().hex}.new")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not is_new or not _linked(draft, target):
            draft.replace(target)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _linked(draft: Path, target: Path) -> bool:
    """Give the draft its name unless something has it. False where the file system has no links."""
    try:
        os.link(draft, target)
    except FileExistsError as error:
        raise TakenError("another process has written there meanwhile") from error
    except OSError as error:
        if error.errno in {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}:
            return False
        raise
    return True


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems cannot, and then need not.
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One writer at a time, also of several machines where the file system has locks."""
    with (place / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TakenError("another process is writing there") from error
        except OSError as error:
            if error.errno not in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
                raise
        yield


def _bounded(folder: Path, work: Callable[[], Result]) -> Result:
    """Do it in a thread of its own and wait for TIMEOUT_S: a disk that hangs can keep a thread forever.

    While it does, no other one is started for that folder. Raises FolderError.
    """
    in_use = _in_use.setdefault(folder, threading.Lock())
    if not in_use.acquire(timeout=TIMEOUT_S):
        raise FolderError("the folder has not answered since an earlier try")
    result: Future[Result] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)
        finally:
            in_use.release()

    thread = threading.Thread(target=run, name="witness-folder", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        in_use.release()
        raise FolderError("no thread could be started") from error
    thread.join(TIMEOUT_S)
    if not result.done():
        raise FolderError(f"the folder did not answer within {TIMEOUT_S:.0f} seconds")
    try:
        return result.result()
    except OSError as error:
        raise FolderError(error.strerror or type(error).__name__) from error
