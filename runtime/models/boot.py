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
