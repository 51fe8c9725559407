"""Evidence by the beginning of its hash."""

from uuid import UUID

from escalations.models import Evidence


def list_evidence(*, tenant: str, low: str, high: str, size: int) -> list[tuple[str, UUID, int, UUID]]:
    """Hashes from `low` to `high`: each with its escalation, the revision and the flow."""
    rows = Evidence.objects.filter(hash__gte=low, hash__lte=high).order_by("hash")
    columns = ("hash", "escalation_id", "revision", "escalation__flow_id", "escalation__tenant")
    # The tenant is compared here: a database that was asked would begin with all of the tenant.
    found = rows.values_list(*columns)[:size]
    return [(held, pk, revision, dfid) for held, pk, revision, dfid, whose in found if whose == tenant]
