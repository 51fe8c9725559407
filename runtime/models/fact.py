"""The world: authoritative facts, each write a new version (02, "Context and state")."""

from django.db import models
from django.db.models import Q

from runtime.models.scoping import TenantManager


class Fact(models.Model):
    """The current version of a fact. Moved by compare-and-swap on `version`."""

    tenant = models.CharField(max_length=64, default="default")
    path = models.CharField(max_length=200)
    version = models.PositiveBigIntegerField()
    value = models.BinaryField()
    digest = models.CharField(max_length=64)
    writer = models.CharField(max_length=160)
    written_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        ordering = ("path",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "path"), name="fact_once_per_tenant"),
            models.CheckConstraint(condition=Q(version__gte=1), name="fact_version_from_one"),
        )

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


class FactVersion(models.Model):
    """One immutable version of a fact."""

    tenant = models.CharField(max_length=64, default="default")
    path = models.CharField(max_length=200)
    version = models.PositiveBigIntegerField()
    value = models.BinaryField()
    digest = models.CharField(max_length=64)
    writer = models.CharField(max_length=160)
    written_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "path", "version"), name="fact_version_once"),
        )

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"
