"""Moving a flow in its workflow, in the caller's transaction and under the flow's lock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from audit import canonical, events, ledger
from audit.payload_keys import PayloadClass
from runtime.contracts import timestamps
from runtime.contracts.states import OPEN_TO_PROPOSALS
from runtime.contracts.workflow import ReportedStep, WorkflowFold
from runtime.core import ports, transactions
from runtime.flows.services.flow_transaction import Journal
from runtime.kernel.workflows import steps
from runtime.workflows.models import WorkflowPosition
from runtime.workflows.queries.positions import Standing

FIRST: Final = 1


@dataclass(frozen=True, kw_only=True)
class Report:
    """A step as its agent reported it."""

    instruction: str
    input: Mapping[str, Any]
    output: Mapping[str, Any]


def take(journal: Journal, standing: Standing, report: Report, *, has_permit: bool = False) -> WorkflowFold:
    """Take an allowed step: the fold moves, and an entry says so. With `has_permit` a check spent it.

    Routers act on what a flow reports before its proposal; afterwards people review what they would have
    demanded.
    """
    document, at_ms = standing.document, timestamps.to_ms(journal.at)
    fold = before = standing.fold
    if not has_permit:
        asked = steps.Asked(instruction=report.instruction, now_ms=at_ms, input=report.input, left={})
        fold = steps.permit(document, fold, asked)
    reported = ReportedStep(
        instruction=report.instruction,
        core=document.instructions[report.instruction].core,
        input=dict(report.input),
        output=dict(report.output),
    )
    routes = journal.flow.state in OPEN_TO_PROPOSALS
    fold = steps.take(document, fold, reported, now_ms=at_ms, routes=routes)
    body = store(journal, standing, fold)
    commitments = ledger.commit_payloads(
        tenant=journal.flow.tenant,
        data_class=PayloadClass.PARAMETERS,
        bodies=[reported.to_bytes(), body],
    )
    journal.add(
        events.StepTaken(
            instruction=report.instruction,
            workflow=document.workflow,
            version=document.version,
            report_commitment=commitments[0],
            position_commitment=commitments[1],
            next=None if fold.pending is None else fold.pending.instruction,
        )
    )
    if not routes and (routed := steps.routed(document, before, reported)) is not None:
        ports.request_route_review(
            journal=journal, workflow=document, instruction=report.instruction, routed=routed
        )
    return fold


def store(journal: Journal, standing: Standing, fold: WorkflowFold) -> bytes:
    """Write the fold where nobody has moved it since it was read; the bytes of its row.

    Raises:
        transactions.ConcurrentUpdateError: when somebody has.
    """
    parts = fold.model_dump(mode="json")
    permits = canonical.encode(parts.pop("permits"))
    body = canonical.encode(parts)
    row = standing.row
    if row is None:
        WorkflowPosition.objects.create(
            flow=journal.flow, workflow=standing.workflow, fold=body, permits=permits, version=FIRST
        )
        return body
    moved = WorkflowPosition.objects.filter(flow=journal.flow, version=row.version).update(
        fold=body, permits=permits, version=row.version + 1
    )
    if moved != 1:
        raise transactions.ConcurrentUpdateError
    return body
