"""What concerns an agent itself: its own stream of events, whichever flow it works in (`GET /events`)."""

from django.db import models

from audit.quick_rows import QuickRow
from runtime.contracts import states
from runtime.core.ids import new_id
from runtime.registry.models import Agent


class Inbox(models.Model):
    """How far an agent's stream has been made, and what it was made from. The row is the stream's lock.

    The marks say what the agent was told last: facts by version, ledger entries by number, tokens by count.
    """

    agent = models.OneToOneField(Agent, primary_key=True, on_delete=models.PROTECT, related_name="inbox")
    seq = models.PositiveIntegerField(default=0)
    # Events up to this one are no longer kept.
    dropped_seq = models.PositiveIntegerField(default=0)
    fact_versions = models.BinaryField(default=b"{}")
    agent_entry = models.PositiveBigIntegerField(default=0)
    system_entry = models.PositiveBigIntegerField(default=0)
    tokens = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"inbox of {self.agent_id}"


class AgentEvent(models.Model):
    """One event for an agent, in the order of its stream. Only the newest are kept."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    event_type = models.CharField(max_length=32, choices=states.AgentEventType.pairs())
    at = models.DateTimeField()
    body = models.BinaryField()

    class Meta:
        ordering = ("agent", "seq")
        constraints = (models.UniqueConstraint(fields=("agent", "seq"), name="agent_event_seq_once"),)

    def __str__(self) -> str:
        return f"{self.agent_id} {self.seq} {self.event_type}"


class Timer(models.Model):
    """A moment at which an agent wants to be woken. Its row goes when it has rung."""

    timer_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="timers", db_index=False)
    due_at = models.DateTimeField()
    label = models.CharField(max_length=200)

    class Meta:
        indexes = (models.Index(fields=("agent", "due_at"), name="timer_by_due"),)

    def __str__(self) -> str:
        return f"{self.label} at {self.due_at}"


class Snapshot(QuickRow):
    """A frozen working context (DIR paper, 8): what the agent was shown, byte for byte."""

    flow = models.ForeignKey(
        "runtime.Flow", on_delete=models.PROTECT, related_name="snapshots", db_index=False
    )
    context_ref = models.CharField(max_length=64)
    body = models.BinaryField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("flow", "context_ref"), name="snapshot_once_per_flow"),
        )
        indexes = (models.Index(fields=("context_ref",), name="snapshot_by_ref"),)

    def __str__(self) -> str:
        return self.context_ref
