"""The current epoch of the database, and whether it waits for a person after a restore."""

from typing import Final

from django.db.models import Exists, QuerySet

from audit import statements
from runtime.epochs.models import Epoch

RECOVERY = "RECOVERY"


def in_force() -> Epoch:
    """The current epoch; there is always one."""
    (epoch,) = _CURRENT.rows()
    return epoch


def recovering() -> Exists:
    """For a query: whether the database was restored and no admin has started a new epoch."""
    return Exists(_restored())


def is_recovering() -> bool:
    """Whether the database was restored and no admin has started a new epoch."""
    return bool(_RESTORED.rows())


def _current() -> QuerySet[Epoch]:
    return Epoch.objects.filter(ended_at__isnull=True)


def _restored() -> QuerySet[Epoch]:
    return Epoch.objects.filter(ended_at__isnull=True, restored_at__isnull=False)


_CURRENT: Final = statements.Read(_current)
_RESTORED: Final = statements.Read(_restored)
