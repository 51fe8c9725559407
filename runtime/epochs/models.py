"""Which start of an embedded server has the database: an older one that still runs executes nothing more."""

from django.db import models
from django.db.models import Q

ONLY = 1


class Boot(models.Model):
    """The one row of the latest start; production has none, since there many processes share the work."""

    only = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    boot_id = models.UUIDField()
    began_at = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(only=ONLY), name="boot_is_one"),)

    def __str__(self) -> str:
        return f"{self.boot_id}"


class Epoch(models.Model):
    """One life. `restored_at` says since when the database is known to be a restored backup.

    `missing` is what shows it, as canonical JSON: the mark, checkpoints that witnesses hold, or both.
    """

    number = models.PositiveIntegerField(primary_key=True, editable=False)
    database_id = models.UUIDField()
    began_at = models.DateTimeField()
    restored_at = models.DateTimeField(null=True, blank=True)
    missing = models.BinaryField(blank=True, default=b"")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("database_id",), condition=Q(ended_at__isnull=True), name="epoch_in_force_once"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(restored_at__isnull=False),
                name="epoch_ends_by_a_restore",
            ),
        )

    def __str__(self) -> str:
        return f"{self.number}"
