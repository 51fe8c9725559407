"""Agents, their manifests, keys and kinds."""

from collections.abc import Sequence
from typing import Any, Final

from django.db.models import Count, Q, QuerySet

from audit import statements
from runtime.contracts import states
from runtime.core import paging
from runtime.registry.models import Agent, Key, Manifest, PolicyKind, Session

PAGE = 100


def list_agents(*, tenant: str, after: str, status: str, level: str = "") -> paging.Page[Agent]:
    """By agent id, with the number of open flows as `open_flows`."""
    rows = Agent.objects.of(tenant).select_related("active_manifest").filter(agent_id__gt=after)
    if status:
        rows = rows.filter(status=status)
    if level:
        rows = rows.filter(autonomy=level)
    rows = rows.annotate(open_flows=Count("flows", filter=~Q(flows__state__in=states.ENDED)))
    return paging.cut(list(rows.order_by("agent_id")[: PAGE + 1]), PAGE)


def get_agent(*, tenant: str, agent_id: str) -> Agent | None:
    """The agent with its active manifest, or None. PostgreSQL cannot even compare a text that has a NUL."""
    if "\x00" in agent_id:
        return None
    return Agent.objects.of(tenant).select_related("active_manifest").filter(agent_id=agent_id).first()


def any_agent(*, tenant: str) -> bool:
    """Whether a single agent is registered: without one the console shows how to begin."""
    return _ANY.exists(tenant=tenant)


def _any(*, tenant: str) -> QuerySet[Agent, Any]:
    return statements.any_of(Agent.objects.of(tenant))


_ANY: Final = statements.Read(_any)


def list_manifests(*, agent: Agent) -> Sequence[Manifest]:
    """Every version, newest first; bounded."""
    return list(Manifest.objects.filter(agent=agent).order_by("-id")[:50])


def list_keys(*, agent: Agent) -> Sequence[Key]:
    """The keys of an agent, newest first: ids and times, no secret exists to be shown."""
    return list(Key.objects.filter(agent=agent).order_by("-id")[:50])


def get_last_session(*, agent: Agent) -> Session | None:
    """The newest session, whether it has ended or not."""
    return Session.objects.filter(agent=agent).select_related("key").order_by("-pk").first()


def has_key(*, agent: Agent, key_id: str) -> bool:
    """Whether the key is one of this agent's."""
    return "\x00" not in key_id and Key.objects.filter(agent=agent, key_id=key_id).exists()


def status_counts(*, tenant: str) -> dict[str, int]:
    """Agents by status."""
    return dict(_STATUSES.rows(tenant=tenant))


def _statuses(*, tenant: str) -> QuerySet[Agent, tuple[str, int]]:
    return Agent.objects.of(tenant).values_list("status").annotate(n=Count("id")).order_by("status")


_STATUSES: Final = statements.Read(_statuses)


def list_kinds(*, tenant: str) -> Sequence[PolicyKind]:
    """The active version of each kind, and kinds without one by their newest version."""
    newest: dict[str, PolicyKind] = {}
    for row in PolicyKind.objects.of(tenant).order_by("kind", "-active", "-id")[:500]:
        newest.setdefault(row.kind, row)
    return list(newest.values())


def list_kind_versions(*, tenant: str, kind: str) -> Sequence[PolicyKind]:
    """Every version of a kind, the active one first."""
    if "\x00" in kind:
        return []
    return list(PolicyKind.objects.of(tenant).filter(kind=kind).order_by("-active", "-id")[:50])
