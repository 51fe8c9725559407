"""Rule outputs and decision packages: each with its whole input, so that it can be made again."""

from django.db import models
from django.db.models import Q

from runtime.contracts.decision import Method
from runtime.contracts.ruleset import MatchStatus
from runtime.core.ids import new_id
from runtime.flows.models import Flow
from runtime.registry.models import Ruleset


class RuleOutput(models.Model):
    """What a ruleset said of some features in a flow (IAE 3.3.2). It never changes."""

    rule_output_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="rule_outputs")
    ruleset = models.ForeignKey(Ruleset, on_delete=models.PROTECT, related_name="outputs")
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
                condition=Q(method__in=["abstain", "deny"], needs_person=True)
                | Q(method__in=["adopt", "refine"], needs_person=False),
                name="package_person_goes_with_its_method",
            ),
        )

    def __str__(self) -> str:
        return str(self.decision_id)
