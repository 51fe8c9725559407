"""Rule outputs, decision packages and consultations against the entries of their flows, for `verify_ledger`.

A row has the bytes that its entry names by digest, and its columns repeat what the entry says.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from audit.chain import ChainBreak, time_text
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.advice.models import Consultation, DecisionPackageRow, RuleOutput
from runtime.contracts.consultation import ConsultationState
from runtime.verification.flow_entries import Entries, entries_of, note_extra


class AdviceRowCheck(row_checks.FlowRows):
    """The rows of advice, both ways. It sees every flow, to find rows of one that asked for none."""

    kinds = frozenset(
        {
            Kind.FLOW_OPENED,
            Kind.FLOW_ERASED,
            Kind.RULES_EVALUATED,
            Kind.DECISION_RECOMMENDED,
            Kind.CONSULTATION_ASKED,
            Kind.CONSULTATION_ENDED,
        }
    )
    not_proved = (
        NotProved(
            "runtime_consultation", ("counted_at",), "when its end was counted for a provider's health"
        ),
    )

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows."""
        found = Found(erased=row_checks.erased_in(flows))
        _compare_outputs(found, flows)
        _compare_packages(found, flows)
        _compare_consultations(found, flows)
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


def _compare_consultations(found: Found, flows: Mapping[UUID, Entries]) -> None:
    stored = Consultation.objects.select_related("provider", "request", "answer").filter(flow__in=flows)
    rows = {str(row.pk): row for row in stored}
    ends: dict[str, Entry] = {}
    for entry in entries_of(flows, Kind.CONSULTATION_ENDED):
        ends.setdefault(entry.payload["consultation_id"], entry)
    told = found.rows_of(
        entries_of(flows, Kind.CONSULTATION_ASKED),
        rows,
        lambda said: said["consultation_id"],
        "consultation {consultation_id}",
    )
    for entry, row in told:
        said = entry.payload
        found.same(entry, "consultation.flow", entry.stream, str(row.flow_id))
        found.same(entry, "consultation.tenant", entry.tenant, row.tenant)
        found.same(entry, "consultation.provider", said["provider"], row.provider.agent_id)
        found.same(entry, "consultation.capability", said["capability"], row.capability)
        asked = (row.request.message_id, row.request.commitment)
        found.same(entry, "consultation.request", (said["message_id"], said["message_commitment"]), asked)
        found.same(entry, "consultation.cost_micros", said["cost_micros"], row.cost_micros)
        found.then(entry, entry, "consultation.asked_at", row.asked_at)
        found.same(entry, "consultation.deadline", said["deadline"], time_text(row.deadline))
        end = ends.get(said["consultation_id"])
        _compare_end(found, entry, end, row)
    note_extra(found, flows, [(row.flow_id, row.pk) for row in rows.values()], "consultation")


def _compare_end(found: Found, asked: Entry, end: Entry | None, row: Consultation) -> None:
    at = end or asked
    state = ConsultationState.ASKED.value if end is None else end.payload["state"]
    named = (None, None)
    if end is not None:
        named = (end.payload["message_id"], end.payload["message_commitment"])
    answer = row.answer
    held = (None, None) if answer is None else (answer.message_id, answer.commitment)
    found.same(at, "consultation.state", state, row.state)
    found.same(at, "consultation.answer", named, held)
    found.then(end, at, "consultation.ended_at", row.ended_at)
