"""Who is about to own an agent, and who owned it within the days for which that still counts."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from audit import statements
from runtime.contracts.states import AgentStatus
from runtime.kernel import separation
from runtime.registry.models import Agent, OwnerChange


def get_asked(*, agent: Agent) -> OwnerChange | None:
    """The change that waits for another admin, or None."""
    return OwnerChange.objects.filter(agent=agent, agreed_at=None, dropped_at=None).first()


def list_owned(*, tenant: str, owner: str) -> list[str]:
    """The agents that someone owns, or is about to own: a pending change counts too. Not retired ones."""
    return list_owned_by(tenant=tenant, owners=[owner])[owner]


def list_owned_by(*, tenant: str, owners: Collection[str]) -> dict[str, list[str]]:
    """The same for several owners, in two queries whatever their number."""
    found: dict[str, set[str]] = {owner: set() for owner in owners}
    agents = Agent.objects.of(tenant).exclude(status=AgentStatus.RETIRED)
    for owner, agent_id in agents.filter(owner__in=owners).values_list("owner", "agent_id"):
        found[owner].add(agent_id)
    asked = OwnerChange.objects.filter(
        agent__in=agents, owner_after__in=owners, agreed_at=None, dropped_at=None
    )
    for owner, agent_id in asked.values_list("owner_after", "agent__agent_id"):
        found[owner].add(agent_id)
    return {owner: sorted(agent_ids) for owner, agent_ids in found.items()}


def list_recent(*, agent: Agent, at: datetime) -> Sequence[OwnerChange]:
    """The changes that were made within the last days, newest first."""
    return _RECENT.rows(agent=agent.pk, since=at - timedelta(days=separation.DAYS))


def _recent(*, agent: int, since: datetime) -> QuerySet[OwnerChange]:
    return OwnerChange.objects.filter(agent=agent, agreed_at__gt=since).order_by("-agreed_at")


_RECENT: Final = statements.Read(_recent)
