"""The memory and artifact layers of a context (DIR paper, 8)."""

from django.db import models
from django.db.models import Q

from runtime.models.agent import Agent
from runtime.models.scoping import TenantManager


class MemoryItem(models.Model):
    """One version of what was remembered under a key of a scope. Only the current one reaches a context."""

    tenant = models.CharField(max_length=64, default="default")
    scope = models.CharField(max_length=64)
    key = models.CharField(max_length=128)
    version = models.PositiveIntegerField()
    value = models.BinaryField()
    digest = models.CharField(max_length=64)
    source = models.CharField(max_length=200)
    writer = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    written_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    quarantined = models.BooleanField(default=False)
    current = models.BooleanField(default=False)
    released_by = models.CharField(max_length=160, blank=True, default="")

    objects = TenantManager()

    class Meta:
        ordering = ("scope", "key", "version")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "scope", "key", "version"), name="memory_version_once"),
            models.UniqueConstraint(
                fields=("tenant", "scope", "key"), condition=Q(current=True), name="memory_current_once"
            ),
            models.CheckConstraint(
                condition=~Q(current=True, quarantined=True), name="memory_in_quarantine_is_not_current"
            ),
        )
        indexes = (
            models.Index(
                fields=("tenant", "scope"), condition=Q(quarantined=True), name="memory_in_quarantine"
            ),
        )

    def __str__(self) -> str:
        return f"{self.scope}/{self.key}@{self.version}"


class Artifact(models.Model):
    """A reference to content that is kept elsewhere, named by its digest. The runtime never fetches it."""

    tenant = models.CharField(max_length=64, default="default")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="artifacts")
    digest = models.CharField(max_length=64)
    media_type = models.CharField(max_length=128)
    size_bytes = models.PositiveBigIntegerField()
    location = models.CharField(max_length=500)
    title = models.CharField(max_length=200)
    registered_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        ordering = ("agent", "-id")
        constraints = (models.UniqueConstraint(fields=("agent", "digest"), name="artifact_once_per_agent"),)

    def __str__(self) -> str:
        return self.digest
