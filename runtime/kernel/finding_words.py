"""What a finding about a limit says in words, and the same with the units of its amounts."""

from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import Finding
from runtime.kernel import units


def excess(value: object, bound: object) -> str:
    """Return the message for a value above its limit, where the kind gives none of its own."""
    return f"{value} is above the limit of {bound}"


def is_excess(finding: Finding) -> bool:
    """Return whether the message of a finding says no more than the two amounts that it compares."""
    return finding.message == f"{finding.subject}: {excess(finding.proposed_value, finding.limit)}"


def message_of(finding: Finding, known: AmountUnits) -> str:
    """Return the message of a finding for people, its two amounts with their unit."""
    unit = known.of_finding(finding.check, finding.subject)
    value, limit = (units.number_in(text or "") for text in (finding.proposed_value, finding.limit))
    if not unit or value is None or limit is None or not is_excess(finding):
        return finding.message
    return f"{finding.subject}: {excess(units.write(value, unit), units.write(limit, unit))}"
