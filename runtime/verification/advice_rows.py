"""Rule outputs and decision packages against the entries of their flows, for `verify_ledger`.

A row has the bytes that its entry names by digest, and its columns repeat what the entry says.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from audit.chain import ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Found
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.verification.flow_entries import Entries, entries_of, note_extra


class AdviceRowCheck(row_checks.FlowRows):
    """The rows of advice, both ways. It sees every flow, to find rows of one that asked for none."""

    kinds = frozenset({Kind.FLOW_OPENED, Kind.FLOW_ERASED, Kind.RULES_EVALUATED, Kind.DECISION_RECOMMENDED})

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found(erased=row_checks.erased_in(flows))
        _compare_outputs(found, flows)
        _compare_packages(found, flows)
        return found.breaks


def _compare_outputs(found: Found, flows: Mapping[UUID, Entries]) -> None:
    stored = RuleOutput.objects.select_related("ruleset").filter(flow__in=flows)
    rows = {str(row.pk): row for row in stored}
    told = found.rows_of(
        entries_of(flows, Kind.RULES_EVALUATED),
        rows,
        lambda said: said["rule_output_id"],
        "rule output {rule_output_id}",
    )
    for entry, row in told:
        said = entry.payload
        found.bytes(entry, "ruleoutput.input", said["input_digest"], row.input)
        found.bytes(entry, "ruleoutput.body", said["output_digest"], row.body)
        found.same(entry, "ruleoutput.flow", entry.stream, str(row.flow_id))
        found.same(entry, "ruleoutput.tenant", entry.tenant, row.tenant)
        found.same(entry, "ruleoutput.ruleset", f"{said['ruleset']}@{said['version']}", str(row.ruleset))
        found.same(entry, "ruleoutput.status", said["status"], row.status)
        found.then(entry, entry, "ruleoutput.created_at", row.created_at)
    note_extra(found, flows, [(row.flow_id, row.pk) for row in rows.values()], "rule output")


def _compare_packages(found: Found, flows: Mapping[UUID, Entries]) -> None:
    rows = {str(row.pk): row for row in DecisionPackageRow.objects.filter(flow__in=flows)}
    told = found.rows_of(
        entries_of(flows, Kind.DECISION_RECOMMENDED),
        rows,
        lambda said: said["decision_id"],
        "decision package {decision_id}",
    )
    for entry, row in told:
        said = entry.payload
        found.bytes(entry, "decisionpackagerow.input", said["input_digest"], row.input)
        found.bytes(entry, "decisionpackagerow.body", said["package_digest"], row.body)
        found.same(entry, "decisionpackagerow.flow", entry.stream, str(row.flow_id))
        found.same(entry, "decisionpackagerow.tenant", entry.tenant, row.tenant)
        built_on = None if row.rule_output_id is None else str(row.rule_output_id)
        found.same(entry, "decisionpackagerow.rule_output", said["rule_output_id"], built_on)
        found.same(entry, "decisionpackagerow.method", said["method"], row.method)
        found.same(entry, "decisionpackagerow.needs_person", said["needs_person"], bool(row.needs_person))
        found.then(entry, entry, "decisionpackagerow.created_at", row.created_at)
    note_extra(found, flows, [(row.flow_id, row.pk) for row in rows.values()], "decision package")
