"""Changes of who owns an agent: asked for by one admin, agreed to by another, and remembered."""

from django.db import models
from django.db.models import F, Q

from runtime.models.agent import Agent


class OwnerChange(models.Model):
    """Another owner of an agent: asked for, and then agreed to or dropped.

    `solo` where the only admin there is did both. Who was the owner, and who changed it, are bound for days.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="owner_changes")
    owner_before = models.CharField(max_length=200)
    owner_after = models.CharField(max_length=200)
    asked_by = models.CharField(max_length=160)
    asked_at = models.DateTimeField()
    agreed_by = models.CharField(max_length=160, blank=True, default="")
    agreed_at = models.DateTimeField(null=True, blank=True)
    dropped_by = models.CharField(max_length=160, blank=True, default="")
    dropped_at = models.DateTimeField(null=True, blank=True)
    solo = models.BooleanField(default=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("agent",),
                condition=Q(agreed_at__isnull=True, dropped_at__isnull=True),
                name="owner_change_one_open_per_agent",
            ),
            models.CheckConstraint(
                condition=Q(agreed_at__isnull=True) | Q(dropped_at__isnull=True),
                name="owner_change_agreed_or_dropped",
            ),
            models.CheckConstraint(
                condition=Q(agreed_at__isnull=True, agreed_by="")
                | Q(agreed_at__isnull=False, solo=True, agreed_by=F("asked_by"))
                | (Q(agreed_at__isnull=False, solo=False) & ~Q(agreed_by__in=("", F("asked_by")))),
                name="owner_change_agreed_by_another_unless_solo",
            ),
            models.CheckConstraint(
                condition=Q(dropped_at__isnull=True, dropped_by="")
                | (Q(dropped_at__isnull=False) & ~Q(dropped_by="")),
                name="owner_change_dropped_by_somebody",
            ),
            models.CheckConstraint(
                condition=~Q(owner_before=F("owner_after")), name="owner_change_changes_the_owner"
            ),
        )
        indexes = (models.Index(fields=("agent", "agreed_at"), name="owner_change_by_agent"),)

    def __str__(self) -> str:
        return f"{self.owner_before} to {self.owner_after}"
