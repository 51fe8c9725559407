"""Who was in which group, and until when: a role that somebody held last week still counts."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q


class Membership(models.Model):
    """An active user's time in a group. Django's own table knows only who is in it now."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    group = models.CharField(max_length=150)
    since = models.DateTimeField()
    until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("user", "group"), condition=Q(until__isnull=True), name="membership_open_once"
            ),
            models.CheckConstraint(
                condition=Q(until__isnull=True) | Q(until__gte=F("since")),
                name="membership_ends_after_it_began",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user_id} in {self.group}"


class FailedSignin(models.Model):
    """Failed sign-ins of one minute with one name, until they are one entry. The name itself is not kept.

    `name_hash` is keyed, and empty for all names beyond the first hundred of a minute.
    """

    minute = models.DateTimeField()
    name_hash = models.CharField(max_length=64, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    failed = models.PositiveIntegerField(default=0)
    locked = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("minute", "name_hash"), name="failed_signin_once_a_minute"),
        )

    def __str__(self) -> str:
        return f"{self.minute} {self.name_hash[:8]}"
