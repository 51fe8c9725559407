"""Rule outputs and decision packages, each with its whole input to be made again from; consultations."""

from django.db import models
from django.db.models import Q

from runtime.contracts.consultation import ConsultationState
from runtime.contracts.decision import Method
from runtime.contracts.ruleset import MatchStatus
from runtime.core.ids import new_id
from runtime.flows.models import Flow
from runtime.registry.models import Agent, Ruleset


class RuleOutput(models.Model):
    """What a ruleset said of some features in a flow (IAE 3.3.2). It never changes."""

    rule_output_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="rule_outputs")
    ruleset = models.ForeignKey(Ruleset, on_delete=models.PROTECT, related_name="outputs", db_index=False)
    status = models.CharField(max_length=32)
    input = models.BinaryField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("-rule_output_id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(status__in=[status.value for status in MatchStatus]),
                name="rule_output_status_known",
            ),
        )
        indexes = (models.Index(fields=("ruleset", "-rule_output_id"), name="rule_output_newest"),)

    def __str__(self) -> str:
        return str(self.rule_output_id)


class DecisionPackageRow(models.Model):
    """A recommendation in a flow (IAE 3.3.3). It never changes, and moves nothing."""

    decision_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="decision_packages")
    rule_output = models.ForeignKey(
        RuleOutput, null=True, blank=True, on_delete=models.PROTECT, related_name="packages"
    )
    method = models.CharField(max_length=16)
    needs_person = models.BooleanField()
    input = models.BinaryField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("-decision_id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(method__in=[method.value for method in Method]), name="package_method_known"
            ),
            models.CheckConstraint(
                condition=Q(method__in=["consult", "abstain", "deny"], needs_person=True)
                | Q(method__in=["adopt", "refine"], needs_person=False),
                name="package_person_goes_with_its_method",
            ),
        )

    def __str__(self) -> str:
        return str(self.decision_id)


class Consultation(models.Model):
    """A question to one provider about the options of a flow, and the message that answered it.

    What was asked and answered is not here but in the payloads of both messages. `cost_micros` is what it may
    cost, in millionths of a cost unit. At `counted_at` its end was counted for the provider's health.
    """

    consultation_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="consultations", db_index=False)
    provider = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="consultations")
    capability = models.CharField(max_length=128)
    request = models.OneToOneField("runtime.Message", on_delete=models.PROTECT, related_name="consultation")
    answer = models.OneToOneField(
        "runtime.Message", null=True, blank=True, on_delete=models.PROTECT, related_name="answers"
    )
    cost_micros = models.PositiveBigIntegerField()
    asked_at = models.DateTimeField()
    deadline = models.DateTimeField()
    state = models.CharField(max_length=8, choices=ConsultationState.pairs(), default=ConsultationState.ASKED)
    ended_at = models.DateTimeField(null=True, blank=True)
    counted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("consultation_id",)
        constraints = (
            models.UniqueConstraint(fields=("flow", "provider"), name="consultation_once_of_a_provider"),
            models.CheckConstraint(
                condition=Q(state=ConsultationState.ASKED, ended_at__isnull=True, answer__isnull=True)
                | Q(state=ConsultationState.OVERDUE, ended_at__isnull=False, answer__isnull=True)
                | Q(
                    state__in=[ConsultationState.ANSWERED, ConsultationState.DECLINED],
                    ended_at__isnull=False,
                    answer__isnull=False,
                ),
                name="consultation_ends_once",
            ),
            models.CheckConstraint(
                condition=Q(counted_at__isnull=True) | Q(ended_at__isnull=False),
                name="consultation_counts_once_ended",
            ),
        )
        indexes = (
            models.Index(
                fields=("deadline",), condition=Q(state=ConsultationState.ASKED), name="consultation_to_end"
            ),
            models.Index(
                fields=("ended_at",),
                condition=Q(ended_at__isnull=False, counted_at__isnull=True),
                name="consultation_to_count",
            ),
        )

    def __str__(self) -> str:
        return str(self.consultation_id)
