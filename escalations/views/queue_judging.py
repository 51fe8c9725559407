"""What the person who looks may decide of the queue: the part of its filter that rows alone cannot answer."""

from collections.abc import Sequence

from django.http import HttpRequest

from audit.access.permissions import tenant_of
from escalations import queries, queue_filter
from escalations.models import Escalation
from escalations.queries import Keeps
from escalations.queue_filter import QueueFilter
from escalations.services import policy_context
from escalations.views.policy_person import person_of
from runtime.contracts import timestamps
from runtime.core import clock


def keeps_of(request: HttpRequest, wanted: QueueFilter) -> Keeps | None:
    """What keeps the rows that the filter asks of the signed-in person; None where it asks for none.

    A row whose evidence does not match the ledger can only be stopped, so it is not kept.
    """
    if not wanted.is_personal:
        return None
    tenant, person, at = tenant_of(request.user), person_of(request), clock.now()
    now_ms = timestamps.to_ms(at)

    def keeps(rows: Sequence[Escalation]) -> Sequence[Escalation]:
        evidence = queries.get_evidence(tenant=tenant, escalations=rows)
        trusted = [row for row in rows if row.pk in evidence]
        situations = policy_context.of_many(escalations=trusted, evidence=evidence, at=at)
        return [
            row
            for row in trusted
            if (not wanted.decidable or queue_filter.is_decidable(person, situations[row.pk], now_ms=now_ms))
            and (
                not wanted.authority
                or queue_filter.is_within_authority(person, situations[row.pk], now_ms=now_ms)
            )
        ]

    return keeps
