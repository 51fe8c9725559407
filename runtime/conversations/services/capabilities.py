"""What agents offer each other: advertising, heartbeats, and what a person decides about it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from audit import actors, canonical, events, ledger
from runtime.advice.models import Consultation
from runtime.contracts.consultation import ConsultationState
from runtime.contracts.message_payloads import CapabilityAdvertise, HealthStatus, Heartbeat
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.conversations.models import Capability
from runtime.conversations.queries import capability_list, standing
from runtime.core import clock, given_reasons, transactions
from runtime.kernel import capability_health
from runtime.kernel.capability_health import Health, ListingState
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds

MOST_PER_AGENT = 50
_HEALTH = ("state", "failures", "quarantines", "until")


def refuse_advertising(provider: Agent, claims: CapabilityAdvertise) -> Problem | None:
    """Why the agent may not offer this: its manifest does not grant the name, or it offers too much."""
    manifest = granted_kinds.manifest_of(provider)
    granted = None if manifest is None else manifest.advertises
    if manifest is None or (granted is not None and claims.capability_name not in granted):
        detail = "The active manifest does not name this capability in `advertises`."
        return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)
    offered = Capability.objects.filter(provider=provider)
    is_new = not offered.filter(capability=claims.capability_name).exists()
    if is_new and offered.count() >= MOST_PER_AGENT:
        detail = f"An agent advertises at most {MOST_PER_AGENT} capabilities."
        return Problem(code=ProblemCode.BUDGET_EXCEEDED, detail=detail)
    return None


def advertise(
    *, provider: Agent, claims: CapabilityAdvertise, payload: dict[str, Any], message_id: str, at: datetime
) -> None:
    """Write the record of an offer, in the caller's transaction. Its health stays what it was."""
    body = canonical.encode(payload)
    columns = {
        "body": body,
        "digest": canonical.digest(body),
        "advertised_at": at,
        "status": claims.health.value,
    }
    rows = Capability.objects.filter(provider=provider, capability=claims.capability_name)
    if not rows.update(**columns):
        Capability.objects.create(
            tenant=provider.tenant, provider=provider, capability=claims.capability_name, **columns
        )
    _append(
        provider,
        at,
        events.CapabilityAdvertised(
            agent_id=provider.agent_id,
            capability=claims.capability_name,
            body_digest=str(columns["digest"]),
            status=claims.health,
            message_id=message_id,
        ),
    )


def hear(*, provider: Agent, beat: Heartbeat, message_id: str, at: datetime) -> None:
    """Note how a provider says it is.

    `unavailable` counts as a failure of each of its capabilities, and `healthy` ends a row of failures.
    """
    locked = Capability.objects.select_for_update(of=("self",)).select_related("provider")
    rows = list(locked.filter(provider=provider).order_by("pk"))
    if not rows:
        return
    Capability.objects.filter(pk__in=[row.pk for row in rows]).update(status=beat.status.value, heard_at=at)
    heard = events.CapabilityHeard(agent_id=provider.agent_id, status=beat.status, message_id=message_id)
    _append(provider, at, heard)
    because = f"HEARTBEAT_{beat.status.name}"
    changed = [_change(row, _after(row, beat.status, at), because=because) for row in rows]
    _append(provider, at, *filter(None, changed), actor=actors.SYSTEM)


@transactions.retried
def count_result(consultation_id: UUID) -> bool:
    """Count how a consultation ended for the health of who was asked; False where that was done already.

    An answer ends a row of failures. A silence is one, where the provider had the time that it promises and
    nobody held it. An Error is neither: it says why it cannot.
    """
    asked = Consultation.objects.select_related("provider").get(pk=consultation_id)
    locked = Capability.objects.select_for_update(of=("self",)).select_related("provider")
    row = locked.filter(provider=asked.provider_id, capability=asked.capability).first()
    at = clock.now()
    uncounted = Consultation.objects.filter(pk=asked.pk, ended_at__isnull=False, counted_at__isnull=True)
    if not uncounted.update(counted_at=at):
        return False
    if row is not None:
        health = _after_consultation(row, asked, at)
        changed = _change(row, health, because=f"CONSULTATION_{asked.state}")
        _append(row.provider, at, *filter(None, [changed]), actor=actors.SYSTEM)
    return True


@transactions.retried
def override(
    *, tenant: str, pk: int, state: ListingState | None, seen: str, reason: str, actor: str
) -> Capability | Problem:
    """Let a person decide whether the registry names a provider; None lets its health decide, from anew.

    `seen` is the decision that the page showed. 404 for no record, 409 where somebody else decided since.
    """
    rows = Capability.objects.of(tenant).select_for_update(of=("self",)).select_related("provider")
    row = rows.filter(pk=pk).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No capability has this id.")
    if (missing := given_reasons.refuse(reason)) is not None:
        return missing
    if row.override != seen:
        detail = "Somebody else has decided about this capability. Look at it again."
        return Problem(code=ProblemCode.STATUS_MOVED, detail=detail)
    at = clock.now()
    row.override = "" if state is None else state.value
    row.override_by, row.override_reason, row.override_at = actor, reason.strip(), at
    row.save(update_fields=["override", "override_by", "override_reason", "override_at"])
    decided = events.CapabilityOverridden(
        agent_id=row.provider.agent_id,
        capability=row.capability,
        state=row.override,
        reason=row.override_reason,
    )
    _append(row.provider, at, decided, actor=actor)
    changed = (
        [] if state is ListingState.DELISTED else [_change(row, Health(), because="DECIDED_BY_A_PERSON")]
    )
    _append(row.provider, at, *filter(None, changed), actor=actors.SYSTEM)
    return row


def _after(row: Capability, status: HealthStatus, at: datetime) -> Health:
    known = capability_list.health_of(row)
    match status:
        case HealthStatus.UNAVAILABLE:
            return capability_health.after_failure(known, at=at)
        case HealthStatus.HEALTHY:
            return capability_health.after_success(known)
        case HealthStatus.DEGRADED:
            return known


def _after_consultation(row: Capability, asked: Consultation, at: datetime) -> Health:
    known = capability_list.health_of(row)
    if asked.state == ConsultationState.ANSWERED:
        return capability_health.after_success(known)
    claims = capability_list.claims_of(row)
    promised_ms = None if claims is None else capability_list.offered_of(claims).p95_ms
    is_failure = (
        asked.state == ConsultationState.OVERDUE
        and capability_health.had_time(asked.deadline - asked.asked_at, promised_ms=promised_ms)
        and standing.refuse_work(asked.provider) is None
    )
    return capability_health.after_failure(known, at=at) if is_failure else known


def _change(row: Capability, health: Health, *, because: str) -> events.CapabilityHealthChanged | None:
    """Write the health of a row that the caller has locked; None where it is what it was."""
    if health == capability_list.health_of(row):
        return None
    row.state, row.failures = health.state, health.failures
    row.quarantines, row.until = health.quarantines, health.until
    row.save(update_fields=list(_HEALTH))
    return events.CapabilityHealthChanged(
        agent_id=row.provider.agent_id,
        capability=row.capability,
        state=health.state,
        failures=health.failures,
        quarantines=health.quarantines,
        until=health.until,
        because=because,
    )


def _append(provider: Agent, at: datetime, *added: events.Event, actor: str = "") -> None:
    if added:
        stream = actors.agent(provider.agent_id)
        ledger.append_to(tenant=provider.tenant, stream=stream, actor=actor or stream, at=at, events=added)
