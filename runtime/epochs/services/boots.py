"""The start of an embedded server: the latest one has the database, and an older one claims nothing more.

The lock on the data folder keeps a second server out. This is for where it cannot: a folder that was moved, a
database file that is linked, a file system without locks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

from runtime.core import clock, transactions
from runtime.epochs.models import Boot

_this_boot: UUID | None = None


def begin() -> UUID:
    """This process is now the one server of its database. Every lease of before has ended."""
    global _this_boot
    boot_id = uuid4()
    transactions.retry_on_conflict(
        lambda: Boot.objects.update_or_create(defaults={"boot_id": boot_id, "began_at": clock.now()})
    )
    _this_boot = boot_id
    return boot_id


def this_boot() -> UUID | None:
    """The start of this process; None where it is one of several, or only reads."""
    return _this_boot


def is_superseded() -> bool:
    """Whether a later server has taken the database. Exact inside a write transaction."""
    if _this_boot is None:
        return False
    return Boot.objects.values_list("boot_id", flat=True).first() != _this_boot


@contextmanager
def ended() -> Iterator[None]:
    """Forget at the end that this process has begun: a command may be called twice in one process."""
    global _this_boot
    try:
        yield
    finally:
        _this_boot = None
