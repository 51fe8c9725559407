"""The world: authoritative facts, each write a new version."""

from django.db import models
from django.db.models import Q

from runtime.core.scoping import TenantManager
from runtime.registry.models import Agent


class Version(models.Model):
    """What every version of a fact is: its value as canonical JSON, and who wrote it when."""

    tenant = models.CharField(max_length=64, default="default")
    path = models.CharField(max_length=200)
    version = models.PositiveBigIntegerField()
    value = models.BinaryField()
    digest = models.CharField(max_length=64)
    writer = models.CharField(max_length=160)
    written_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


class Fact(Version):
    """The current version of a fact. Moved by compare-and-swap on `version`."""

    class Meta:
        ordering = ("path",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "path"), name="fact_once_per_tenant"),
            models.CheckConstraint(condition=Q(version__gte=1), name="fact_version_from_one"),
        )


class FactVersion(Version):
    """One immutable version of a fact."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "path", "version"), name="fact_version_once"),
        )


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
