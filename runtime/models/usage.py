"""What thinking costs: the compute budget of a flow, and the reports that use it up (DIR paper, 9.3)."""

from django.db import models
from django.db.models import Q

from runtime.models.agent import Agent
from runtime.models.scoping import TenantManager


class ComputeBudget(models.Model):
    """Caps and use of one flow, under its lock. A cap of NULL bounds nothing; use past a cap was still made.

    Money is in micro-dollars. The caps are those of the manifest at the opening: a later one changes nothing.
    """

    flow = models.OneToOneField(
        "runtime.Flow", primary_key=True, on_delete=models.PROTECT, related_name="compute_budget"
    )
    tokens_cap = models.PositiveBigIntegerField(null=True, blank=True)
    cost_cap_micros = models.PositiveBigIntegerField(null=True, blank=True)
    tool_calls_cap = models.PositiveBigIntegerField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    tokens_used = models.PositiveBigIntegerField(default=0)
    cost_used_micros = models.PositiveBigIntegerField(default=0)
    tool_calls_used = models.PositiveBigIntegerField(default=0)

    class Meta:
        indexes = (
            models.Index(
                fields=("ends_at",), condition=Q(ends_at__isnull=False), name="compute_budget_by_end"
            ),
        )

    def __str__(self) -> str:
        return f"compute of {self.flow_id}"


class UsageReport(models.Model):
    """One report of deltas by an agent. Only ever added."""

    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey("runtime.Flow", on_delete=models.PROTECT, related_name="usage_reports")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    tokens = models.PositiveBigIntegerField(default=0)
    cost_micros = models.PositiveBigIntegerField(default=0)
    tool_calls = models.PositiveBigIntegerField(default=0)
    reported_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        indexes = (models.Index(fields=("tenant", "reported_at"), name="usage_by_time"),)

    def __str__(self) -> str:
        return f"{self.tokens} tokens in {self.flow_id}"
