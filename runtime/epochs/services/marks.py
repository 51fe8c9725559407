"""The mark: a small file beside the data folder that records how far the ledger had come.

A database that does not hold the entry which the mark names is older than the mark: someone has restored a
backup, and what ran since then is forgotten here. The file is written after commits, at most once a second.
"""

import json
import logging
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from django.conf import settings

from audit import canonical
from audit.models import LedgerEntry
from runtime.epochs.models import Epoch
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import boots

READ_EVERY_S: Final = 1.0
LAST_EPOCH: Final = 2**31 - 2  # the next one still has room in its column

_log = logging.getLogger(__name__)
_last_read: "Mark | None" = None
_looked_at_s = float("-inf")
_unwritable: set[str] = set()  # logged once for each place


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The newest entry of a database in one of its lives; `hash` in hexadecimal."""

    database_id: str
    epoch: int
    entry_id: int
    hash: str


_UNREADABLE: Final = Mark(database_id="", epoch=0, entry_id=0, hash="")


def read() -> Mark | None:
    """The mark that was left; None where there is none, or none is kept.

    One that cannot be read names no entry, so that it is found nowhere.
    """
    if not settings.DIR_MARK:
        return None
    try:
        found = json.loads(Path(settings.DIR_MARK).read_bytes())
        mark = Mark(
            database_id=str(UUID(str(found["database_id"]))),
            epoch=int(found["epoch"]),
            entry_id=int(found["entry_id"]),
            hash=str(found["hash"]),
        )
        return mark if 0 <= mark.epoch <= LAST_EPOCH else _UNREADABLE
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return _UNREADABLE


def of_database() -> Mark | None:
    """What the mark of this database would be now; None before its first entry."""
    newest = LedgerEntry.objects.order_by("-id").values_list("id", "hash").first()
    if newest is None:
        return None
    epoch = current_epoch.in_force()
    return Mark(
        database_id=str(epoch.database_id),
        epoch=epoch.number,
        entry_id=newest[0],
        hash=bytes(newest[1]).hex(),
    )


def is_held(mark: Mark) -> bool:
    """Whether this database holds the entry that the mark names."""
    if mark.database_id != str(current_epoch.in_force().database_id):
        return False
    digest = LedgerEntry.objects.filter(id=mark.entry_id).values_list("hash", flat=True).first()
    return digest is not None and bytes(digest).hex() == mark.hash


def is_answered(mark: Mark) -> bool:
    """Whether an admin began the current epoch knowing this mark.

    Then it stays where a newer one cannot be written, and for a moment after the epoch has begun.
    """
    ended = Epoch.objects.filter(ended_at__isnull=False).order_by("-number")
    missing = ended.values_list("missing", flat=True).first()
    try:
        recorded = {} if missing is None else canonical.decode(bytes(missing))
    except canonical.CanonicalError:
        return False
    return all(recorded.get(name) == value for name, value in asdict(mark).items())


def is_older() -> bool:
    """Whether the database under this process is older than the mark, before any sweeper has reported it.

    A server that is alone has compared at its start. Others may have been connected to another one since.
    """
    global _looked_at_s, _last_read
    if not settings.DIR_MARK or boots.this_boot() is not None:
        return False
    if time.monotonic() - _looked_at_s >= READ_EVERY_S:
        _last_read, _looked_at_s = read(), time.monotonic()
    return _last_read is not None and not is_held(_last_read) and not is_answered(_last_read)


def set_aside() -> None:
    """The mark is of another database than the new one here: keep it under another name."""
    place = Path(settings.DIR_MARK)
    try:
        place.replace(place.with_name(f"{place.name}.before"))
        _log.warning("the mark %s belonged to another database; it is kept as %s.before", place, place.name)
    except OSError as error:
        _log.warning("the mark %s belongs to another database and cannot be moved: %s", place, error.strerror)


def write(mark: Mark) -> None:
    """Replace the mark, whole or not at all. A failure is logged once, and the work continues."""
    place = Path(settings.DIR_MARK)
    # Of its own: processes in containers share numbers, and threads of one process have the same.
    draft = place.with_name(f"{place.name}.{uuid4().hex}")
    try:
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(json.dumps(asdict(mark)))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        if settings.DIR_MARK not in _unwritable:
            _unwritable.add(settings.DIR_MARK)
            _log.warning(
                "the mark %s cannot be written (%s): a restored backup would not be noticed; set DIR_MARK",
                place,
                error.strerror,
            )
