"""Rules that open incidents, for their page and for the round that counts; compared with their entries."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count
from pydantic import ValidationError

from audit import canonical, queries
from audit.events import Kind
from runtime.contracts.incident import IncidentRule, RuleState
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.incidents.models import IncidentRuleRow


@dataclass(frozen=True, slots=True)
class RuleShown:
    """A version of a rule; without a document it differs from what was recorded."""

    row: IncidentRuleRow
    document: IncidentRule | None
    incidents: int


def read(row: IncidentRuleRow) -> IncidentRule | None:
    """What a row says; None where it cannot be read."""
    try:
        return IncidentRule.from_bytes(bytes(row.body))
    except (ValidationError, canonical.CanonicalError, TypeError):
        return None


def compare(row: IncidentRuleRow) -> Mismatch | None:
    """Whether a version is what its author drafted, in one query."""
    said = queries.list_payloads_of_kind(tenant=row.tenant, kind=Kind.INCIDENT_RULE_DRAFTED)
    recorded = [
        told["digest"] for _, told in said if (told["name"], told["version"]) == (row.name, row.version)
    ]
    digest = recorded[-1] if recorded else mismatches.NOT_RECORDED
    return mismatches.compare("incidentrulerow.body", str(row), digest, row.body)


def list_active() -> list[tuple[IncidentRuleRow, IncidentRule]]:
    """The rules in force that are what was activated, of every tenant; a changed one is left out."""
    found = []
    for row in IncidentRuleRow.objects.filter(state=RuleState.ACTIVE).order_by("pk"):
        document = read(row) if compare(row) is None else None
        if document is not None:
            found.append((row, document))
    return found


def list_rules(*, tenant: str, most: int) -> Sequence[RuleShown]:
    """By name, the newest version first."""
    rows = IncidentRuleRow.objects.of(tenant).annotate(opened=Count("incidents"))
    ordered = rows.order_by("name", "-version")[:most]
    return [
        RuleShown(row, read(row) if compare(row) is None else None, getattr(row, "opened", 0))
        for row in ordered
    ]


def any_rule(*, tenant: str) -> bool:
    """Whether a rule was ever drafted."""
    return IncidentRuleRow.objects.of(tenant).exists()
