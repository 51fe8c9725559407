"""Reads of decision packages, for the gate, for calls and for pages."""

from collections.abc import Sequence
from uuid import UUID

from runtime.advice.models import DecisionPackageRow
from runtime.contracts.decision import DecisionInput, DecisionPackage
from runtime.contracts.facts import DecisionFacts
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.flows.models import Flow

MOST_SHOWN = 20


def get_package(*, flow: Flow, decision_id: str) -> DecisionPackageRow | None:
    """A package of this flow; None for any other id."""
    return DecisionPackageRow.objects.filter(flow=flow, decision_id=UUID(decision_id)).first()


def document_of(row: DecisionPackageRow) -> DecisionPackage:
    """The stored package."""
    return DecisionPackage.from_bytes(bytes(row.body))


def count_in(flow: Flow) -> int:
    """How many packages a flow has."""
    return DecisionPackageRow.objects.filter(flow=flow).count()


def get_facts(*, flow: Flow, decision_id: str) -> DecisionFacts | None:
    """What the gate may know of a package of this flow; None for any other id."""
    row = get_package(flow=flow, decision_id=decision_id)
    if row is None:
        return None
    package = document_of(row)
    selected = package.selected_action
    return DecisionFacts(
        decision_id=package.decision_id,
        action="" if selected is None else selected.name,
        params={} if selected is None else selected.parameters,
        needs_person=package.human_review_required,
    )


def refuse_unknown(*, flow: Flow, decision_id: str | None) -> Problem | None:
    """404 for the id of a package that this flow does not have; it costs no attempt."""
    if decision_id is None or get_package(flow=flow, decision_id=decision_id) is not None:
        return None
    detail = "The flow has no decision package of this id. Ask for one with decide, or leave decision_id out."
    return Problem(code=ProblemCode.DECISION_NOT_FOUND, detail=detail, dfid=str(flow.dfid))


def list_of_flow(dfid: UUID) -> Sequence[DecisionPackage]:
    """The newest packages of a flow, without those whose words were erased."""
    rows = DecisionPackageRow.objects.filter(flow=dfid).order_by("-decision_id")[:MOST_SHOWN]
    return [document_of(row) for row in rows if bytes(row.body)]


def input_of(row: DecisionPackageRow) -> DecisionInput:
    """What a package was made from.

    Raises:
        ValueError: where it cannot be read, as after an erasure.
    """
    return DecisionInput.from_bytes(bytes(row.input))
