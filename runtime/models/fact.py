"""The world: authoritative facts, each write a new version."""

from django.db import models
from django.db.models import Q

from runtime.models.scoping import TenantManager


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
