"""Reads of rule outputs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import cells, queries
from audit.events import Kind
from runtime.advice.models import RuleOutput
from runtime.contracts.ruleset import RuleInput, RuleOutputDocument
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.flows.models import Flow
from runtime.kernel.rulesets import evaluate
from runtime.registry.models import Ruleset
from runtime.registry.queries import ruleset_versions

# How many of the newest outputs the page of a ruleset counts.
MOST_COUNTED = 1000


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


def compare(row: RuleOutput) -> Mismatch | None:
    """Whether an output is the one that was recorded when the rules were asked."""
    told = queries.list_payloads(tenant=row.tenant, stream=str(row.flow_id), kinds=(Kind.RULES_EVALUATED,))
    recorded = _digests(payload for _, payload in told).get(str(row.pk), mismatches.NOT_RECORDED)
    return mismatches.compare("ruleoutput.body", str(row.pk), recorded, row.body)


@dataclass(frozen=True, kw_only=True)
class Newest:
    """The newest outputs of a version, and how many were left out: they are not what was recorded."""

    documents: Sequence[RuleOutputDocument]
    untrusted: int


def list_newest(ruleset: Ruleset, *, since: datetime | None = None, most: int = MOST_COUNTED) -> Newest:
    """The newest `most`, without those whose words were erased; those of `since` or later."""
    rows = RuleOutput.objects.filter(ruleset=ruleset).order_by("-rule_output_id")
    if since is not None:
        rows = rows.filter(created_at__gte=since)
    held = [row for row in rows[:most] if cells.bytes_of(row.body) != b""]
    told = queries.list_payloads_of_streams(
        tenant=ruleset.tenant,
        streams={str(row.flow_id) for row in held},
        kinds=(Kind.RULES_EVALUATED,),
    )
    recorded = _digests(payload for _, payload in told)
    trusted = [row for row in held if cells.digest_of(row.body) == recorded.get(str(row.pk))]
    return Newest(
        documents=[document_of(row) for row in trusted],
        untrusted=len(held) - len(trusted),
    )


def count_fired(outputs: Iterable[RuleOutputDocument]) -> Counter[str]:
    """In how many of the outputs each rule matched, and each guardrail was triggered."""
    found: Counter[str] = Counter()
    for output in outputs:
        found.update({match.rule_id for match in output.matches})
        found.update({guard.invariant_id for guard in output.guardrails_triggered})
    return found


def often(fired: int, outputs: int) -> str:
    """Of a rule that never fires, or always does; empty otherwise, and where nobody has asked."""
    if not outputs:
        return ""
    return "never" if not fired else "always" if fired == outputs else ""


def _digests(payloads: Iterable[dict[str, Any]]) -> dict[str, str]:
    return {payload["rule_output_id"]: payload["output_digest"] for payload in payloads}
