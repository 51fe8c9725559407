"""An escalation, the revisions of its evidence, its decision, and what people stated later of its calls."""

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q

from escalations import contracts
from runtime.contracts import states
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow, Intent, Proposal

WITHOUT_PROPOSAL = (contracts.Family.AGENT.value, contracts.Family.INTERRUPT.value)


class Escalation(models.Model):
    """A flow waiting for a person (DIR paper, 9.1). `version` moves only with the escalation itself."""

    escalation_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="escalations")
    # An agent that fell silent has proposed nothing, and a flow that was interrupted neither.
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
    # From the current evidence, for the queue to group and filter by: see `EvidenceDocument`.
    rule = models.CharField(max_length=200, blank=True, default="")
    incident = models.CharField(max_length=200, blank=True, default="")
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
                | Q(family=contracts.Family.AGENT, intent__isnull=True, deadline_at__isnull=True)
                | Q(family=contracts.Family.INTERRUPT, intent__isnull=True, deadline_at__isnull=False),
                name="escalation_family_fits_its_intent_and_deadline",
            ),
            models.CheckConstraint(
                condition=Q(family__in=WITHOUT_PROPOSAL, proposal__isnull=True)
                | (~Q(family__in=WITHOUT_PROPOSAL) & Q(proposal__isnull=False)),
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

    _kept_decisions: "Sequence[Decision] | None" = None

    def is_claimed(self, at: datetime) -> bool:
        """Whether somebody holds it at `at`."""
        return self.claimed_by_id is not None and self.claimed_until is not None and self.claimed_until > at

    def __str__(self) -> str:
        return str(self.escalation_id)

    @property
    def all_decisions(self) -> "Sequence[Decision]":
        """Its decisions in their order: those that were read for several rows at once, or else read here."""
        return list(self.decisions.all()) if self._kept_decisions is None else self._kept_decisions

    def keep_decisions(self, rows: "Sequence[Decision]") -> None:
        """Keep the decisions that were read of it."""
        self._kept_decisions = rows

    @property
    def decision(self) -> "Decision | None":
        """The decision that ended it; None while it is open, or where it ended without one.

        Reads `all_decisions`, so lists prefetch `decisions` or keep them.
        """
        return self._decision_in(contracts.DecisionState.IN_EFFECT)

    @property
    def first_decision(self) -> "Decision | None":
        """The first of two decisions while it awaits the second; what it chose is for nobody's eyes yet."""
        return self._decision_in(contracts.DecisionState.AWAITING_SECOND)

    def _decision_in(self, state: contracts.DecisionState) -> "Decision | None":
        return next((row for row in self.all_decisions if row.state == state), None)


class Evidence(models.Model):
    """One frozen revision of what the person is shown; its hash is what a decision names."""

    escalation = models.ForeignKey(
        Escalation, on_delete=models.PROTECT, related_name="evidence", db_index=False
    )
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
        indexes = (models.Index(fields=("hash",), name="evidence_by_hash"),)

    def __str__(self) -> str:
        return f"{self.escalation_id} revision {self.revision}"


class Decision(models.Model):
    """A person's decision, bound to the evidence that was shown. Of a row only `state` changes.

    One is in effect per escalation; `sequence` counts those that were taken back, and the first of two.
    """

    escalation = models.ForeignKey(
        Escalation, on_delete=models.PROTECT, related_name="decisions", db_index=False
    )
    sequence = models.PositiveSmallIntegerField(default=1)
    state = models.CharField(
        max_length=16,
        choices=contracts.DecisionState.pairs(),
        default=contracts.DecisionState.IN_EFFECT,
    )
    action = models.CharField(max_length=16, choices=contracts.Action.pairs())
    revision = models.PositiveIntegerField()
    evidence_hash = models.CharField(max_length=64)
    justification = models.TextField(blank=True, default="")
    approver = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    solo = models.BooleanField(default=False)
    # From the page that was sent to the form that came back; None where the form came from no page.
    shown_ms = models.PositiveBigIntegerField(null=True, blank=True)
    statement = models.BinaryField()
    signature = models.BinaryField()
    key_id = models.CharField(max_length=64)
    decided_at = models.DateTimeField()

    class Meta:
        ordering = ("escalation", "sequence")
        constraints = (
            models.UniqueConstraint(fields=("escalation", "sequence"), name="decision_sequence_once"),
            models.UniqueConstraint(
                fields=("escalation",),
                condition=Q(state=contracts.DecisionState.IN_EFFECT),
                name="decision_one_in_effect",
            ),
            models.UniqueConstraint(
                fields=("escalation",),
                condition=Q(state=contracts.DecisionState.AWAITING_SECOND),
                name="decision_one_awaits_a_second",
            ),
            models.CheckConstraint(
                condition=Q(state__in=contracts.DecisionState.values()), name="decision_state_known"
            ),
        )
        indexes = (
            models.Index(fields=("-decided_at",), name="decision_newest"),
            models.Index(fields=("approver", "-decided_at"), name="decision_by_approver"),
        )

    def __str__(self) -> str:
        return f"{self.action} on {self.escalation_id}"


class EffectStatement(models.Model):
    """One call of an intent (its key at the target), and what became of it. What is stated is never changed.

    It is stated once, and once more (`sequence` 2) whenever a receipt contradicts what was stated.
    `escalation` is the last one about the intent: its evidence is what the person had to look at.
    """

    intent = models.ForeignKey(
        Intent, on_delete=models.PROTECT, related_name="effect_statements", db_index=False
    )
    target_key = models.CharField(max_length=64)
    escalation = models.ForeignKey(Escalation, on_delete=models.PROTECT, related_name="effect_statements")
    sequence = models.PositiveSmallIntegerField(default=1)
    effect = models.CharField(max_length=12, choices=states.Effect.pairs())
    reason = models.TextField()
    approver = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    solo = models.BooleanField(default=False)
    statement = models.BinaryField()
    signature = models.BinaryField()
    key_id = models.CharField(max_length=64)
    stated_at = models.DateTimeField()

    class Meta:
        ordering = ("stated_at", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("intent", "target_key", "sequence"), name="effect_stated_once_in_turn"
            ),
            models.CheckConstraint(
                condition=Q(effect__in=states.KNOWN_EFFECTS), name="effect_stated_is_a_known_one"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="effect_stated_with_a_reason"),
        )

    def __str__(self) -> str:
        return f"{self.intent_id} {self.target_key}: {self.effect}"
