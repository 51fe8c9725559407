"""Capability records as agents and pages read them: claims of providers, and what the runtime saw of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from audit import canonical
from runtime.contracts.message_payloads import CapabilityAdvertise, HealthStatus
from runtime.contracts.states import AgentStatus
from runtime.conversations.models import Capability
from runtime.kernel import capability_health, capability_matching, conversation
from runtime.kernel.capability_health import Health, ListingState
from runtime.kernel.capability_matching import Offered, Wanted
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds

MOST_NAMED = 20
SHOWN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A capability that the registry names, with the provider's claims."""

    row: Capability
    offered: Offered
    claims: CapabilityAdvertise


def resolve(*, agent: Agent, wanted: Wanted, at: datetime) -> list[Named]:
    """At most MOST_NAMED providers that the agent may ask and that keep to what is wanted, the best first."""
    manifest = granted_kinds.manifest_of(agent)
    may_ask = () if manifest is None else manifest.messages_to
    rows = _rows(agent.tenant).filter(provider__status=AgentStatus.ACTIVE, provider__stopped_at__isnull=True)
    if wanted.capability_name is not None:
        rows = rows.filter(capability=wanted.capability_name)
    if may_ask is not None:
        rows = rows.filter(provider__agent_id__in=may_ask)
    found = []
    for row in rows.exclude(provider=agent)[:SHOWN]:
        claims = claims_of(row)
        if claims is None or not is_named(row, at=at):
            continue
        offered = offered_of(claims)
        if capability_matching.matches(offered, wanted):
            found.append(Named(row=row, offered=offered, claims=claims))
    found.sort(key=lambda each: capability_matching.rank(each.offered, each.row.provider.agent_id))
    return found[:MOST_NAMED]


def list_all(*, tenant: str) -> list[Capability]:
    """Every record, for the page, by name and provider."""
    return list(_rows(tenant)[:SHOWN])


def claims_of(row: Capability) -> CapabilityAdvertise | None:
    """What the provider said; None for bytes that are not what was recorded with the row."""
    body = bytes(row.body)
    if canonical.digest(body) != row.digest:
        return None
    try:
        return CapabilityAdvertise.model_validate_json(body)
    except ValueError:
        return None


def offered_of(claims: CapabilityAdvertise) -> Offered:
    """The claims that a query can ask about."""
    return Offered(
        capability_name=claims.capability_name,
        versions=claims.versions,
        p95_ms=None if claims.SLA is None else claims.SLA.p95_ms,
        per_call=None if claims.cost_model is None else claims.cost_model.per_call,
        jurisdiction=claims.jurisdiction,
        schema_refs=claims.schema_refs,
        tags=claims.tags,
    )


def health_of(row: Capability) -> Health:
    """What the runtime saw of it."""
    return Health(
        state=ListingState(row.state), failures=row.failures, quarantines=row.quarantines, until=row.until
    )


def state_of(row: Capability, *, at: datetime) -> str:
    """What a person or its health makes of it now; a word that is not one of ours as it is stored."""
    if row.override or row.state not in ListingState.values():
        return row.override or row.state
    return capability_health.state_at(health_of(row), at).value


def is_named(row: Capability, *, at: datetime) -> bool:
    """Whether the registry names it now; that its agent works is asked beside this.

    It names none whose row has a word that is not one of ours.
    """
    if not {row.state, row.override or row.state} <= set(ListingState.values()):
        return False
    return capability_health.is_named(
        health_of(row),
        at=at,
        overridden=ListingState(row.override) if row.override else None,
        is_available=row.status != HealthStatus.UNAVAILABLE,
        heard_at=row.heard_at,
    )


def record_of(named: Named, *, at: datetime) -> dict[str, Any]:
    """A record with the fields of IAE 3.4.3. All but the provider and `health` are its own claims."""
    row, claims = named.row, named.claims
    return {
        "provider_agent_id": row.provider.agent_id,
        "capability_name": row.capability,
        "version_range": _range(claims.versions),
        "versions": list(claims.versions),
        "schema_refs": list(claims.schema_refs),
        "SLA": None if claims.SLA is None else claims.SLA.model_dump(mode="json"),
        "cost_model": None if claims.cost_model is None else claims.cost_model.model_dump(mode="json"),
        "auth_requirements": list(claims.auth_requirements),
        "privacy_level": claims.privacy_level,
        "tags": list(claims.tags),
        "jurisdiction": list(claims.jurisdiction),
        "health_endpoint": claims.health_endpoint,
        "health": {
            "status": row.status,
            "state": state_of(row, at=at),
            "failures": row.failures,
            "last_heartbeat_at": None if row.heard_at is None else row.heard_at.isoformat(),
        },
        "endpoints": [{"to_agent_id": row.provider.agent_id, "url": "/api/v1/messages"}],
    }


def _range(versions: tuple[str, ...]) -> dict[str, str]:
    ordered = sorted(versions, key=conversation.parsed)
    return {"min": ordered[0], "max": ordered[-1]}


def _rows(tenant: str) -> QuerySet[Capability]:
    rows = Capability.objects.of(tenant).select_related("provider")
    return rows.order_by("capability", "provider__agent_id")
