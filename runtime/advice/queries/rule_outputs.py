"""Reads of rule outputs."""

from collections.abc import Sequence
from uuid import UUID

from runtime.advice.models import RuleOutput
from runtime.contracts.ruleset import RuleInput, RuleOutputDocument
from runtime.flows.models import Flow
from runtime.kernel.rulesets import evaluate
from runtime.registry.models import Ruleset
from runtime.registry.queries import ruleset_versions

# How many of the newest outputs the page of a ruleset counts.
MOST_COUNTED = 1000
MOST_SHOWN = 20


def get_output(*, flow: Flow, rule_output_id: UUID) -> RuleOutput | None:
    """A rule output of this flow, with its ruleset; None for any other id."""
    rows = RuleOutput.objects.select_related("ruleset")
    return rows.filter(flow=flow, rule_output_id=rule_output_id).first()


def document_of(row: RuleOutput) -> RuleOutputDocument:
    """The stored output."""
    return RuleOutputDocument.from_bytes(bytes(row.body))


def count_in(flow: Flow) -> int:
    """How many rule outputs a flow has."""
    return RuleOutput.objects.filter(flow=flow).count()


def make_again(row: RuleOutput) -> bytes:
    """The output that the stored input gives today: of an untouched row, its own bytes.

    Raises:
        ValueError: where the stored input or ruleset cannot be read, as after an erasure.
    """
    asked = RuleInput.from_bytes(bytes(row.input))
    return evaluate.output(ruleset_versions.contract_of(row.ruleset), asked).to_bytes()


def list_of_flow(dfid: UUID) -> Sequence[RuleOutput]:
    """The newest rule outputs of a flow, without those whose words were erased."""
    rows = RuleOutput.objects.select_related("ruleset").filter(flow=dfid).order_by("-rule_output_id")
    return [row for row in rows[:MOST_SHOWN] if bytes(row.body)]


def list_newest(rulesets: Sequence[Ruleset]) -> Sequence[RuleOutputDocument]:
    """The newest outputs of some versions, without those whose words were erased; bounded."""
    rows = RuleOutput.objects.filter(ruleset__in=rulesets).order_by("-rule_output_id")
    bodies = rows.values_list("body", flat=True)[:MOST_COUNTED]
    return [RuleOutputDocument.from_bytes(bytes(body)) for body in bodies if bytes(body)]
