"""The steps that a flow took, as the gate reads them for kinds that name them."""

from audit import queries
from audit.events import Kind
from runtime.contracts import timestamps
from runtime.contracts.workflow import ReportedStep, ShownStep, StepHistory, WorkflowDocument
from runtime.flows.models import Flow
from runtime.kernel import step_history


def of_flow(flow: Flow, document: WorkflowDocument) -> StepHistory:
    """The newest steps of a flow, oldest first, with the fields that its workflow declares.

    A report that was erased, or is not what was committed to, keeps its place without any fields.
    """
    taken = queries.list_dated(tenant=flow.tenant, stream=str(flow.dfid), kinds=(Kind.STEP_TAKEN,))
    newest = taken[-step_history.MOST_STEPS :]
    bodies = queries.list_bodies(
        tenant=flow.tenant, commitments=[said["report_commitment"] for _, _, said in newest]
    )
    steps = []
    for _, at, said in newest:
        known = document.instructions[said["instruction"]]
        body = bodies.get(said["report_commitment"])
        report = ReportedStep.model_validate_json(body) if body else None
        steps.append(
            ShownStep(
                instruction=said["instruction"],
                core=known.core,
                at_ms=timestamps.to_ms(at),
                input={} if report is None else step_history.visible(known.input_schema, report.input),
                output={} if report is None else step_history.visible(known.output_schema, report.output),
            )
        )
    return StepHistory(steps=tuple(steps), truncated=len(taken) > len(newest))
