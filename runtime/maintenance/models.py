"""When the watchdog last went round: nobody is missed for the time in which nobody listened."""

from django.db import models
from django.db.models import Q

ONLY = 1


class WatchRound(models.Model):
    """The one row of the watchdog: its last round, and since when the rounds have had no gap."""

    only = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    last_at = models.DateTimeField()
    unbroken_since = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(condition=Q(only=ONLY), name="watch_round_is_one"),)

    def __str__(self) -> str:
        return f"{self.last_at}"
