"""What the MCP server reads of the database by itself: who asks, which tools that is, and earlier calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from escalations.models import Escalation
from runtime.contracts import timestamps
from runtime.core import clock, idempotency
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds
from runtime.registry.services import credentials

# A tool call has no key of its own: the same call within this time is the same action.
SAME_CALL = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A policy kind as a tool; `has_effect` says that it has steps, which the console carries out."""

    kind: str
    title: str
    description: str
    params_schema: Mapping[str, Any]
    has_effect: bool
    is_reversible: bool


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The agent behind a key, and what its active manifest grants now."""

    pk: int
    agent_id: str
    manifest_version: str
    tools: tuple[Offered, ...]


def find_caller(key: str) -> Caller | None:
    """The agent whose key this is; None for no valid key of an agent."""
    found = credentials.agent_credential(key)
    if found is None or found.agent is None:
        return None
    agent = Agent.objects.select_related("active_manifest").get(pk=found.agent.pk)
    manifest = granted_kinds.manifest_of(agent)
    names = granted_kinds.granted(agent)
    active = granted_kinds.list_active(tenant=agent.tenant, names=names) if names else []
    kinds = [granted_kinds.contract_of(row) for row in active]
    return Caller(
        pk=agent.pk,
        agent_id=agent.agent_id,
        manifest_version="" if manifest is None else manifest.version,
        tools=tuple(
            Offered(
                kind=kind.kind,
                title=kind.title,
                description=kind.description or "",
                params_schema=kind.params_schema,
                has_effect=bool(kind.steps),
                is_reversible=kind.reversible,
            )
            for kind in sorted(kinds, key=lambda one: one.kind)
        ),
    )


def find_earlier_key(agent_pk: int, path: str, prefix: str) -> str | None:
    """The Idempotency-Key of an equal call of the last SAME_CALL, by what its key begins with."""
    since = clock.now() - SAME_CALL
    return idempotency.find_key(agent_pk=agent_pk, path=path, prefix=prefix, since=since)


def get_deadline(escalation_id: str) -> str | None:
    """Until when a person can decide; None where there is no deadline."""
    row = Escalation.objects.filter(pk=UUID(escalation_id)).values_list("deadline_at", flat=True).first()
    return None if row is None else timestamps.iso(row)
