"""The current epoch of the database, and whether it waits for a person after a restore."""

from django.db.models import Exists

from runtime.epochs.models import Epoch

RECOVERY = "RECOVERY"


def in_force() -> Epoch:
    """The current epoch; there is always one."""
    return Epoch.objects.get(ended_at__isnull=True)


def recovering() -> Exists:
    """For a query: whether the database was restored and no admin has started a new epoch."""
    return Exists(Epoch.objects.filter(ended_at__isnull=True, restored_at__isnull=False))


def is_recovering() -> bool:
    """Whether the database was restored and no admin has started a new epoch."""
    return Epoch.objects.filter(ended_at__isnull=True, restored_at__isnull=False).exists()
