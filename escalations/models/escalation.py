"""An escalation and the revisions of its evidence."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from escalations import contracts
from runtime.contracts import states
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow, Intent, Proposal


class Escalation(models.Model):
    """A flow waiting for a person (DIR paper, 9.1). `version` moves only with the escalation itself."""

    escalation_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="escalations")
    # An agent that fell silent has proposed nothing.
    proposal = models.ForeignKey(
        Proposal, null=True, blank=True, on_delete=models.PROTECT, related_name="escalations"
    )
    intent = models.ForeignKey(
        Intent, null=True, blank=True, on_delete=models.PROTECT, related_name="escalations"
    )
    family = models.CharField(max_length=12, choices=contracts.Family.pairs())
    state = models.CharField(max_length=12, choices=contracts.State.pairs(), default=contracts.State.OPEN)
    version = models.PositiveIntegerField(default=1)
    reason = models.CharField(max_length=64)
    impact = models.CharField(max_length=16, choices=states.Impact.pairs())
    impact_rank = models.PositiveSmallIntegerField(default=0)
    agent_id = models.CharField(max_length=128)
    policy_kind = models.CharField(max_length=128, blank=True, default="")
    effect = models.CharField(max_length=1000)
    proposed_value = models.CharField(max_length=64, blank=True, default="")
    limit = models.CharField(max_length=64, blank=True, default="")
    revision = models.PositiveIntegerField(default=1)
    evidence_hash = models.CharField(max_length=64)
    opened_at = models.DateTimeField()
    deadline_at = models.DateTimeField(null=True, blank=True)
    # While a question to the agent is open: the end of the wait, which `deadline_at` counts in already.
    waiting_until = models.DateTimeField(null=True, blank=True)
    claimed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    claimed_until = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolution = models.CharField(max_length=16, blank=True, default="")

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("flow",), condition=Q(state=contracts.State.OPEN), name="escalation_one_open_per_flow"
            ),
            models.CheckConstraint(
                condition=Q(family=contracts.Family.DECISION, intent__isnull=True, deadline_at__isnull=False)
                | Q(family=contracts.Family.OPERATIONAL, intent__isnull=False, deadline_at__isnull=True)
                | Q(family=contracts.Family.AGENT, intent__isnull=True, deadline_at__isnull=True),
                name="escalation_family_fits_its_intent_and_deadline",
            ),
            models.CheckConstraint(
                condition=Q(family=contracts.Family.AGENT, proposal__isnull=True)
                | (~Q(family=contracts.Family.AGENT) & Q(proposal__isnull=False)),
                name="escalation_has_a_proposal_unless_of_an_agent",
            ),
            models.UniqueConstraint(
                fields=("tenant", "agent_id"),
                condition=Q(state=contracts.State.OPEN, family=contracts.Family.AGENT),
                name="escalation_one_open_per_silent_agent",
            ),
            models.CheckConstraint(
                condition=Q(state=contracts.State.OPEN, resolved_at__isnull=True)
                | (~Q(state=contracts.State.OPEN) & Q(resolved_at__isnull=False)),
                name="escalation_resolved_at_goes_with_its_state",
            ),
        )
        indexes = (
            models.Index(
                fields=("tenant", "deadline_at", "-impact_rank", "escalation_id"),
                condition=Q(state=contracts.State.OPEN),
                name="escalation_queue",
            ),
            models.Index(fields=("tenant", "agent_id", "-opened_at"), name="escalation_by_agent"),
        )

    def __str__(self) -> str:
        return str(self.escalation_id)


class Evidence(models.Model):
    """One frozen revision of what the person is shown; its hash is what a decision names."""

    escalation = models.ForeignKey(Escalation, on_delete=models.PROTECT, related_name="evidence")
    revision = models.PositiveIntegerField()
    body = models.BinaryField()
    hash = models.CharField(max_length=64)
    why = models.CharField(max_length=300, blank=True, default="")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("escalation", "revision")
        constraints = (
            models.UniqueConstraint(fields=("escalation", "revision"), name="evidence_revision_once"),
        )

    def __str__(self) -> str:
        return f"{self.escalation_id} revision {self.revision}"
