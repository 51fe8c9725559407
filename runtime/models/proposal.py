"""Proposals, verdicts and the answers kept for repeated calls."""

from django.db import models
from django.db.models import Q

from runtime.contracts import states
from runtime.models.agent import Agent
from runtime.models.flow import Flow
from runtime.models.ids import new_id
from runtime.models.policy_kind import Bundle


class Proposal(models.Model):
    """A claim (DIR paper, 5.3) by an agent, or by a person who decides an escalation."""

    proposal_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="proposals")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="proposals")
    author = models.CharField(max_length=160)
    policy_kind = models.CharField(max_length=128)
    policy_version = models.CharField(max_length=64)
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    explain = models.TextField(blank=True, default="")
    received_at = models.DateTimeField()
    valid_until = models.DateTimeField()

    class Meta:
        indexes = (
            models.Index(fields=("flow", "proposal_id"), name="proposal_by_flow"),
            models.Index(fields=("agent", "-received_at"), name="proposal_by_agent"),
        )

    def __str__(self) -> str:
        return str(self.proposal_id)


class Verdict(models.Model):
    """What the gate said, and the whole input it said it on."""

    proposal = models.OneToOneField(
        Proposal, primary_key=True, on_delete=models.PROTECT, related_name="verdict"
    )
    decision = models.CharField(max_length=8, choices=states.Decision.pairs())
    body = models.BinaryField()
    input = models.BinaryField()
    input_digest = models.CharField(max_length=64)
    bundle = models.ForeignKey(Bundle, on_delete=models.PROTECT, related_name="+")
    gate_version = models.CharField(max_length=16)
    judged_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(decision__in=states.Decision.values()), name="verdict_decision_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.proposal_id} {self.decision}"


class Answer(models.Model):
    """The stored answer to a call with an Idempotency-Key: scope is agent, path and key."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    path = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    body = models.BinaryField()
    answered_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("agent", "path", "key"), name="answer_once_per_key"),)

    def __str__(self) -> str:
        return self.key
