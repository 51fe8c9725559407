"""Keys and sessions. Only the SHA-256 of a secret is stored: it has 256 random bits, so no salt is due."""

from django.db import models
from django.db.models import Q

from runtime.models.agent import Agent
from runtime.models.scoping import TenantManager


class Key(models.Model):
    """A long-lived key of one agent, or of one state feed."""

    tenant = models.CharField(max_length=64, default="default")
    key_id = models.CharField(max_length=40, unique=True)
    secret_hash = models.CharField(max_length=64)
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="keys")
    feed = models.CharField(max_length=64, blank=True, default="")
    fact_prefix = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(agent__isnull=False, feed="") | (Q(agent__isnull=True) & ~Q(feed="")),
                name="key_of_one_agent_or_one_feed",
            ),
        )

    def __str__(self) -> str:
        return self.key_id


class Session(models.Model):
    """What a handshake gave: a short-lived token that dies with its key."""

    token_id = models.CharField(max_length=40, unique=True)
    secret_hash = models.CharField(max_length=64)
    key = models.ForeignKey(Key, on_delete=models.PROTECT, related_name="sessions")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="sessions")
    manifest_version = models.CharField(max_length=64)
    protocol_version = models.CharField(max_length=64)
    instance_id = models.CharField(max_length=128, blank=True, default="")
    environment = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.token_id
