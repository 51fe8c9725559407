"""What the stream of an agent records of one kind: its newest entries, and the bytes of the last one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from audit import actors, canonical, statements
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.registry.models import Agent

MOST_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True)
class AgentEntry:
    """One entry of the stream, as it tells it."""

    at: datetime
    actor: str
    payload: Mapping[str, Any]


def list_newest(agent: Agent, kind: Kind) -> Sequence[AgentEntry]:
    """The newest entries of a kind, newest first; one that cannot be read is left out."""
    found = []
    for row in _of_kind(tenant=agent.tenant, stream=actors.agent(agent.agent_id), kind=kind)[:MOST_SHOWN]:
        with suppress(canonical.CanonicalError, KeyError, TypeError):
            found.append(AgentEntry(at=row.at, actor=row.actor, payload=row.payload))
    return found


def last_body(agent: Agent, kind: Kind) -> bytes | None:
    """The bytes of the last entry of a kind, by an index; None where there is none."""
    body = _LAST.first(tenant=agent.tenant, stream=actors.agent(agent.agent_id), kind=kind)
    return None if body is None else bytes(body)


def _of_kind(*, tenant: str, stream: str, kind: str) -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(tenant=tenant, stream=stream, kind=kind).order_by("-seq")


def last_of_kind(*, tenant: str, stream: str, kind: str) -> QuerySet[LedgerEntry, Any]:
    """The same for a query."""
    return _of_kind(tenant=tenant, stream=stream, kind=kind).values_list("body", flat=True)[:1]


_LAST: Final = statements.Read(last_of_kind)
