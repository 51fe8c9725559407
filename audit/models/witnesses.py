"""What each witness has taken of the checkpoints. It proves nothing: that is for the witnesses themselves."""

from django.db import models


class WitnessState(models.Model):
    """One witness: what it took last, and why it did not take the newest.

    `signed_at` is the time of the checkpoint that it holds, over `size` entries; both are None before the
    first. `finding` names a file in its folder that is not what this ledger signed. `tries` are the failures
    since the last success; nothing is sent before `next_at`.
    """

    name = models.TextField(primary_key=True)
    added_at = models.DateTimeField()
    next_at = models.DateTimeField()
    size = models.BigIntegerField(null=True)
    signed_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    finding = models.TextField(blank=True, default="")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(size__isnull=True, signed_at__isnull=True, sent_at__isnull=True)
                | models.Q(size__isnull=False, signed_at__isnull=False, sent_at__isnull=False),
                name="witness_holds_all_or_nothing",
            ),
        )

    def __str__(self) -> str:
        return self.name
