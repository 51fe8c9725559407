"""Agents and their manifests: who may propose what (DIR paper, 2.3)."""

from django.db import models
from django.db.models import Q

from runtime.contracts import states
from runtime.models.scoping import TenantManager


class Agent(models.Model):
    """A registered agent. Its row is the lock for everything that counts across its flows."""

    tenant = models.CharField(max_length=64, default="default")
    agent_id = models.CharField(max_length=128)
    role = models.CharField(max_length=16, choices=states.AgentRole.pairs())
    owner = models.CharField(max_length=200)
    mission = models.TextField(blank=True, default="")
    status = models.CharField(
        max_length=16, choices=states.AgentStatus.pairs(), default=states.AgentStatus.ACTIVE
    )
    status_reason = models.CharField(max_length=200, blank=True, default="")
    # What it was before a half-changed world locked it; empty while nothing does.
    locked_from = models.CharField(max_length=16, blank=True, default="")
    locked_from_reason = models.CharField(max_length=200, blank=True, default="")
    stopped_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=160, blank=True, default="")
    stop_reason = models.CharField(max_length=500, blank=True, default="")
    active_manifest = models.ForeignKey(
        "runtime.Manifest", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    # Escalation bucket, in thousandths of a token, so that a refill of three an hour is whole numbers.
    escalation_millitokens = models.PositiveIntegerField(default=0)
    bucket_at = models.DateTimeField(null=True, blank=True)
    review_on = models.DateField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    # When a person last said that the silence watchdog shall count anew.
    watched_from = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        ordering = ("agent_id",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "agent_id"), name="agent_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(status__in=states.AgentStatus.values()), name="agent_status_known"
            ),
            models.CheckConstraint(condition=Q(role__in=states.AgentRole.values()), name="agent_role_known"),
        )

    def __str__(self) -> str:
        return self.agent_id


class Manifest(models.Model):
    """One immutable, hashed version of what an agent may do."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="manifests")
    version = models.CharField(max_length=64)
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=160)
    activated_at = models.DateTimeField(null=True, blank=True)
    activated_by = models.CharField(max_length=160, blank=True, default="")
    discarded_at = models.DateTimeField(null=True, blank=True)
    discarded_by = models.CharField(max_length=160, blank=True, default="")
    # Why it was put in force or discarded; `solo` where its own author did so, being the only admin.
    reason = models.CharField(max_length=500, blank=True, default="")
    solo = models.BooleanField(default=False)

    class Meta:
        ordering = ("agent", "-id")
        constraints = (
            models.UniqueConstraint(fields=("agent", "version"), name="manifest_version_once"),
            models.CheckConstraint(
                condition=Q(activated_at__isnull=True) | Q(discarded_at__isnull=True),
                name="manifest_activated_or_discarded",
            ),
        )

    def __str__(self) -> str:
        return f"{self.agent} {self.version}"
