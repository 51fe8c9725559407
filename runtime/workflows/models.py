"""Where flows stand in their workflows, and the checks that agents asked for."""

from django.db import models
from django.db.models import F, Q

from runtime.core.ids import new_id
from runtime.flows.models import Flow
from runtime.registry.models import Workflow


class WorkflowPosition(models.Model):
    """The workflow version that a flow began with, and where the flow stands in it.

    `fold` is the stored form of `WorkflowFold` without its permits, which `permits` has: checks spend them.
    """

    flow = models.OneToOneField(
        Flow, primary_key=True, on_delete=models.PROTECT, related_name="workflow_position"
    )
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="positions", db_index=False)
    fold = models.BinaryField()
    permits = models.BinaryField(default=b"{}")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(version__gte=1), name="workflow_position_version_counts"),
        )
        # The newest flows of a workflow, whose ids rise with time.
        indexes = (models.Index(fields=("workflow", "-flow"), name="workflow_position_newest"),)

    def __str__(self) -> str:
        return f"{self.flow_id} in {self.workflow_id}"


class StepCheck(models.Model):
    """An allowed check: the step that it allowed may be reported once, before `expires_at`."""

    check_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="step_checks")
    instruction = models.CharField(max_length=64)
    input_digest = models.CharField(max_length=64)
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("asked_at")), name="step_check_expires_after_it_was_asked"
            ),
            models.CheckConstraint(
                condition=Q(used_at__isnull=True)
                | Q(used_at__gte=F("asked_at"), used_at__lte=F("expires_at")),
                name="step_check_used_in_time",
            ),
        )

    def __str__(self) -> str:
        return f"{self.instruction} {self.check_id}"
