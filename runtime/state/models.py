"""The world: authoritative facts, each write a new version."""

from django.db import models
from django.db.models import Q

from runtime.contracts.memory import SourceCheck, SourcePlace
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
    """One immutable version of a fact. `world_version` is that of its write, once it is numbered."""

    write_id = models.CharField(max_length=26)
    world_version = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "path", "version"), name="fact_version_once"),
        )
        indexes = (
            models.Index(fields=("tenant", "path", "world_version"), name="fact_version_of_world"),
            models.Index(fields=("write_id",), name="fact_version_of_write"),
        )


class WorldVersion(models.Model):
    """A transaction that wrote facts: what all facts were after it is one version of the world.

    `version` counts without a gap within a tenant. SQLite gives it in the transaction; on PostgreSQL the
    sealer does once the write is committed, in the order in which entries get their leaves. None until then.
    """

    tenant = models.CharField(max_length=64, default="default")
    write_id = models.CharField(max_length=26, unique=True)
    version = models.PositiveBigIntegerField(null=True, blank=True)
    writer = models.CharField(max_length=160)
    written_at = models.DateTimeField()
    # The version of the console that wrote.
    toolchain = models.CharField(max_length=64)

    objects = TenantManager()

    class Meta:
        ordering = ("tenant", "version")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "version"), name="world_version_once"),
            models.CheckConstraint(
                condition=Q(version__isnull=True) | Q(version__gte=1), name="world_version_from_one"
            ),
        )
        indexes = (models.Index(fields=("tenant", "writer", "version"), name="world_version_by_writer"),)

    def __str__(self) -> str:
        return f"{self.version or self.write_id}"


class MemoryItem(models.Model):
    """One version of what was remembered under a key of a scope. Only the current one reaches a context."""

    tenant = models.CharField(max_length=64, default="default")
    scope = models.CharField(max_length=64)
    key = models.CharField(max_length=128)
    version = models.PositiveIntegerField()
    value = models.BinaryField()
    digest = models.CharField(max_length=64)
    source = models.CharField(max_length=200)
    writer = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", db_index=False)
    written_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    quarantined = models.BooleanField(default=False)
    current = models.BooleanField(default=False)
    # What was found at its source, and where; empty in rows from before sources were looked up.
    source_check = models.CharField(max_length=12, choices=SourceCheck.pairs(), blank=True, default="")
    source_place = models.CharField(max_length=12, choices=SourcePlace.pairs(), blank=True, default="")
    # Canonical bytes of [str]: why it was put in quarantine, as `kernel.memory_checks.Finding` writes it.
    reasons = models.BinaryField(default=b"[]")
    # Canonical bytes of [str]: the source labels that its writer had.
    labels = models.BinaryField(default=b"[]")
    released_by = models.CharField(max_length=160, blank=True, default="")
    discarded_by = models.CharField(max_length=160, blank=True, default="")
    # Empty in rows that were decided on before people gave a reason.
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.CharField(max_length=500, blank=True, default="")

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
            models.CheckConstraint(
                condition=Q(quarantined=False)
                | Q(released_by="", discarded_by="", decided_at__isnull=True, decision_reason=""),
                name="memory_in_quarantine_is_not_decided",
            ),
            models.CheckConstraint(
                condition=Q(released_by="") | Q(discarded_by=""), name="memory_released_or_discarded"
            ),
            models.CheckConstraint(
                condition=(Q(source_place="") & ~Q(source_check=SourceCheck.MATCHED))
                | Q(source_check=SourceCheck.MATCHED, source_place__in=SourcePlace.values()),
                name="memory_source_place_goes_with_a_match",
            ),
        )
        indexes = (
            models.Index(fields=("writer", "scope", "written_at"), name="memory_by_writer"),
            models.Index(
                fields=("tenant", "scope"), condition=Q(quarantined=True), name="memory_in_quarantine"
            ),
        )

    def __str__(self) -> str:
        return f"{self.scope}/{self.key}@{self.version}"


class Artifact(models.Model):
    """A reference to content that is kept elsewhere, named by its digest. The runtime never fetches it."""

    tenant = models.CharField(max_length=64, default="default")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="artifacts", db_index=False)
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
