"""Flows (DFID) and what an agent hears about them."""

from django.db import models
from django.db.models import Q

from runtime.contracts import states
from runtime.contracts.reasons import Reason
from runtime.models.agent import Agent
from runtime.models.ids import new_id
from runtime.models.scoping import TenantManager


class Flow(models.Model):
    """One DecisionFlow (DIR paper, 4). The row is the lock and the ledger head of everything in it."""

    dfid = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="flows")
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    # The flow without a parent at the top of the family; its row is the lock that counts the family.
    root = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="family")
    depth = models.PositiveSmallIntegerField(default=0)
    # The parent's agent, who is told of the end in its own events.
    delegator = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="delegated_flows"
    )
    # How many children were ever opened: most flows have none, and are locked without a look for them.
    children_opened = models.PositiveIntegerField(default=0)
    end_told = models.BooleanField(default=False)
    state = models.CharField(
        max_length=24, choices=states.FlowState.pairs(), default=states.FlowState.CREATED
    )
    reason = models.CharField(max_length=64, blank=True, default="")
    version = models.PositiveIntegerField(default=0)
    trigger = models.BinaryField()
    traceparent = models.CharField(max_length=64, blank=True, default="")
    policy_kind = models.CharField(max_length=128, blank=True, default="")
    attempts_used = models.PositiveSmallIntegerField(default=0)
    attempts_allowed = models.PositiveSmallIntegerField(default=3)
    feedback_seq = models.PositiveIntegerField(default=0)
    steps_reported = models.PositiveSmallIntegerField(default=0)
    head_seq = models.PositiveBigIntegerField(default=0)
    head_hash = models.BinaryField(max_length=32, default=b"\x00" * 32)
    opened_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("-dfid",)
        constraints = (
            models.CheckConstraint(condition=Q(state__in=states.FlowState.values()), name="flow_state_known"),
            models.CheckConstraint(
                condition=Q(attempts_used__lte=models.F("attempts_allowed")),
                name="flow_attempts_within_allowed",
            ),
            models.CheckConstraint(
                condition=Q(state__in=states.ENDED, ended_at__isnull=False)
                | (~Q(state__in=states.ENDED) & Q(ended_at__isnull=True)),
                name="flow_ended_at_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, root__isnull=True, depth=0)
                | Q(parent__isnull=False, root__isnull=False, depth__gte=1),
                name="flow_depth_goes_with_its_parent",
            ),
            # Also how the watchdog finds it: a busy agent has a million other flows.
            models.UniqueConstraint(
                fields=("agent",),
                condition=Q(state=states.FlowState.ESCALATED, reason=Reason.AGENT_SILENT),
                name="flow_asks_once_of_a_silent_agent",
            ),
        )
        indexes = (
            models.Index(fields=("tenant", "state", "-dfid"), name="flow_by_state"),
            models.Index(fields=("agent", "-dfid"), name="flow_by_agent"),
            models.Index(fields=("tenant", "policy_kind", "-dfid"), name="flow_by_kind"),
            models.Index(
                fields=("delegator", "ended_at"),
                condition=Q(end_told=False, ended_at__isnull=False),
                name="flow_end_to_be_told",
            ),
        )

    def __str__(self) -> str:
        return str(self.dfid)


class Feedback(models.Model):
    """One event for the agent, in the order of its flow."""

    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="feedback")
    seq = models.PositiveIntegerField()
    event_type = models.CharField(max_length=32, choices=states.FeedbackType.pairs())
    at = models.DateTimeField()
    body = models.BinaryField()

    class Meta:
        ordering = ("flow", "seq")
        constraints = (models.UniqueConstraint(fields=("flow", "seq"), name="feedback_seq_once"),)

    def __str__(self) -> str:
        return f"{self.flow_id} {self.seq} {self.event_type}"


class Snapshot(models.Model):
    """A frozen working context (DIR paper, 8): what the agent was shown, byte for byte."""

    flow = models.ForeignKey("runtime.Flow", on_delete=models.PROTECT, related_name="snapshots")
    context_ref = models.CharField(max_length=64)
    body = models.BinaryField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("flow", "context_ref"), name="snapshot_once_per_flow"),
        )

    def __str__(self) -> str:
        return self.context_ref
