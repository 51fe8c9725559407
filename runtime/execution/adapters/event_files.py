"""Appending to a file: whole lines, on the disk before it returns, and no line twice cut."""

import fcntl
import os
from pathlib import Path
from typing import Final

_BLOCK: Final = 4096
_MODE: Final = 0o640


def append(path: Path, *, head: bytes, lines: bytes) -> str | None:
    """Append `lines`, after `head` where the file is new; None where they are on the disk, else why not.

    What another writer left half written, because it crashed, is cut off first: it is sent again.
    """
    try:
        # A link would lead out of the folder.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    except OSError as error:
        return f"the file cannot be opened: {error.strerror}"
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end = _whole_lines(handle)
        os.ftruncate(handle, end)
        os.lseek(handle, end, os.SEEK_SET)
        _write(handle, lines if end else head + lines)
        os.fsync(handle)
        if not end:
            _sync_folder(path.parent)
    except BlockingIOError:
        return "another process writes to the file"
    except OSError as error:
        return f"the file cannot be written: {error.strerror}"
    finally:
        os.close(handle)
    return None


def _whole_lines(handle: int) -> int:
    """Where the last whole line ends, in bytes."""
    end = os.lseek(handle, 0, os.SEEK_END)
    while end:
        begin = max(0, end - _BLOCK)
        last = os.pread(handle, end - begin, begin).rfind(b"\n")
        if last >= 0:
            return begin + last + 1
        end = begin
    return 0


def _write(handle: int, text: bytes) -> None:
    left = memoryview(text)
    while left:
        left = left[os.write(handle, left) :]


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
