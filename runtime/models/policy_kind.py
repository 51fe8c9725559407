"""Policy kinds, packs and targets: the rules as rows."""

from django.db import models
from django.db.models import Q

from runtime.models.scoping import TenantManager


class Pack(models.Model):
    """One loaded pack file."""

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    loaded_at = models.DateTimeField()
    loaded_by = models.CharField(max_length=160)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name", "version", "digest"), name="pack_once"),
        )

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class PolicyKind(models.Model):
    """One immutable, hashed version of a policy kind. At most one version of a kind is active.

    `reason` and `solo` are those of the last activation, or the reason of the discarding.
    """

    tenant = models.CharField(max_length=64, default="default")
    kind = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    risk_tier = models.CharField(max_length=2)
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    active = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=160)
    activated_at = models.DateTimeField(null=True, blank=True)
    activated_by = models.CharField(max_length=160, blank=True, default="")
    discarded_at = models.DateTimeField(null=True, blank=True)
    discarded_by = models.CharField(max_length=160, blank=True, default="")
    reason = models.CharField(max_length=500, blank=True, default="")
    solo = models.BooleanField(default=False)

    objects = TenantManager()

    class Meta:
        ordering = ("kind", "-id")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "kind", "version"), name="policy_kind_version_once"),
            models.UniqueConstraint(
                fields=("tenant", "kind"), condition=Q(active=True), name="policy_kind_one_active_version"
            ),
            models.CheckConstraint(
                condition=Q(discarded_at=None) | Q(active=False, activated_at=None),
                name="policy_kind_discarded_was_never_in_force",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.version}"


class Bundle(models.Model):
    """Manifest and policy kind in force at a verdict, content-addressed: the verdict can be replayed."""

    digest = models.CharField(max_length=64, primary_key=True)
    body = models.BinaryField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.digest


class Target(models.Model):
    """Where an executor sends its calls: a deployment setting, outside a kind's hash."""

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=64)
    base_url = models.CharField(max_length=500)
    secret_env = models.CharField(max_length=128, blank=True, default="")
    # Canonical JSON: the statuses, in order, that mean: not done, and will not be.
    refuses = models.BinaryField(default=b"[]")
    # Whether it does once what is sent twice under one `Idempotency-Key`.
    honours_keys = models.BooleanField(default=False)
    # A path that answers 2xx while the target can work; empty where it has none.
    health = models.CharField(max_length=500, blank=True, default="")
    configured_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("tenant", "name"), name="target_once_per_tenant"),)

    def __str__(self) -> str:
        return self.name
