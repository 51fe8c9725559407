"""What people asked a target about a call in doubt, and the answers as they came: read from the ledger.

They settle nothing, so no row keeps them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from audit import canonical, queries
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.contracts.states import QueryResult
from runtime.contracts.verdict import StepRequest
from runtime.flows.models import Attempt, Intent
from runtime.flows.queries.intent_plan import IntentPlan

# An intent and the key of a call of it.
Place = tuple[str, str]
_KINDS = (Kind.STATUS_QUERY_STARTED, Kind.STATUS_QUERY_FINISHED)


@dataclass(frozen=True, kw_only=True)
class StatusQuery:
    """One question; `found` is None while no answer is recorded. `raw` is the answer as it came.

    `raw` is None where none came or its text was erased, or, with `is_tampered`, where what is stored is not
    what came.
    """

    query: int
    asked_by: str
    asked_at: datetime
    found: QueryResult | None = None
    took_ms: int = 0
    status_code: int | None = None
    error_category: str = ""
    why: str = ""
    raw: Mapping[str, Any] | None = None
    is_tampered: bool = False


def step_of(intent: Intent, *, key: str) -> StepRequest | None:
    """The request that is sent under a key: of a step or of what undoes one; None where there is none."""
    for step in IntentPlan.of(intent).steps:
        for request in (step, step.compensation):
            if request is not None and request.key == key:
                return request
    return None


def surely_over_at(call: Attempt) -> datetime:
    """When a call is no longer on its way, whoever made it: a call ends before its lease."""
    return call.started_at + timedelta(seconds=settings.DIR_LEASE_S)


def list_newest(*, tenant: str, calls: Collection[Attempt]) -> Mapping[Place, StatusQuery]:
    """The newest question about each of these calls, by intent and key, where anybody asked.

    `calls` have their intents with them.
    """
    streams = {str(call.intent.flow_id) for call in calls}
    wanted = {(str(call.intent_id), call.target_key) for call in calls}
    rows = LedgerEntry.objects.filter(
        tenant=tenant, stream__in=streams, kind__in=[kind.value for kind in _KINDS]
    )
    found: dict[Place, StatusQuery] = {}
    commitments: dict[Place, str] = {}
    for row in rows.order_by("id"):
        said = row.payload
        place = (said["intent_id"], said["target_key"])
        before = found.get(place)
        if place not in wanted:
            continue
        if row.kind == Kind.STATUS_QUERY_STARTED:
            found[place] = StatusQuery(query=said["query"], asked_by=row.actor, asked_at=row.at)
            commitments.pop(place, None)
        elif before is not None and before.query == said["query"]:
            found[place] = _answered(before, said)
            commitments[place] = said.get("answer_commitment") or ""
    bodies = queries.list_bodies(tenant=tenant, commitments=[text for text in commitments.values() if text])
    for place, commitment in commitments.items():
        body = bodies.get(commitment, b"")
        raw = canonical.decode(body) if body else None
        found[place] = replace(found[place], raw=raw, is_tampered=body is None)
    return found


def get_newest(*, call: Attempt) -> StatusQuery | None:
    """The newest question about a call; None where nobody asked."""
    newest = list_newest(tenant=call.intent.tenant, calls=[call])
    return newest.get((str(call.intent_id), call.target_key))


def _answered(asked: StatusQuery, said: Mapping[str, Any]) -> StatusQuery:
    return replace(
        asked,
        found=QueryResult(said["found"]),
        took_ms=said["took_ms"],
        status_code=said.get("status_code"),
        error_category=said.get("error_category") or "",
        why=said.get("why") or "",
    )
