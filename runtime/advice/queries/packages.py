"""Reads of decision packages, for the gate, for calls and for pages."""

from uuid import UUID

from audit import queries
from audit.events import Kind
from runtime.advice.models import DecisionPackageRow
from runtime.contracts.decision import DecisionInput, DecisionPackage
from runtime.contracts.facts import DecisionFacts
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow
from runtime.kernel import recommender


def get_package(*, flow: Flow, decision_id: str) -> DecisionPackageRow | None:
    """A package of this flow; None for any other id."""
    return DecisionPackageRow.objects.filter(flow=flow, decision_id=UUID(decision_id)).first()


def newest(flow: Flow) -> DecisionPackageRow | None:
    """The newest package of a flow."""
    return DecisionPackageRow.objects.filter(flow=flow).order_by("-decision_id").first()


def document_of(row: DecisionPackageRow) -> DecisionPackage:
    """The stored package."""
    return DecisionPackage.from_bytes(bytes(row.body))


def count_in(flow: Flow) -> int:
    """How many packages a flow has."""
    return DecisionPackageRow.objects.filter(flow=flow).count()


def compare(row: DecisionPackageRow) -> Mismatch | None:
    """Whether a package is the one that was recorded when it was made."""
    kinds = (Kind.DECISION_RECOMMENDED,)
    told = queries.list_payloads(tenant=row.tenant, stream=str(row.flow_id), kinds=kinds)
    digests = {payload["decision_id"]: payload["package_digest"] for _, payload in told}
    recorded = digests.get(str(row.pk), mismatches.NOT_RECORDED)
    return mismatches.compare("decisionpackagerow.body", str(row.pk), recorded, row.body)


def get_facts(*, flow: Flow, decision_id: str) -> DecisionFacts | Mismatch | None:
    """What the gate may know of a package of this flow; None for any other id."""
    row = get_package(flow=flow, decision_id=decision_id)
    if row is None:
        return None
    if mismatch := compare(row):
        return mismatch
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


def make_again(row: DecisionPackageRow) -> bytes:
    """The package that the stored input gives today: of an untouched row, its own bytes.

    Raises:
        ValueError: where the stored input cannot be read, as after an erasure.
    """
    return recommender.recommend(DecisionInput.from_bytes(bytes(row.input))).to_bytes()
