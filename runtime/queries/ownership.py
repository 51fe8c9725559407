"""Who is about to own an agent, and who owned it within the days for which that still counts."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from runtime.contracts.states import AgentStatus
from runtime.kernel import separation
from runtime.models import Agent, OwnerChange


def get_asked(*, agent: Agent) -> OwnerChange | None:
    """The change that waits for another admin, or None."""
    return OwnerChange.objects.filter(agent=agent, agreed_at=None, dropped_at=None).first()


def list_owned(*, tenant: str, owner: str) -> list[str]:
    """The agents that somebody owns, or is about to own: a change that waits counts too. Not retired ones."""
    agents = Agent.objects.of(tenant).exclude(status=AgentStatus.RETIRED)
    asked = OwnerChange.objects.filter(owner_after=owner, agreed_at=None, dropped_at=None).values("agent")
    mine = agents.filter(Q(owner=owner) | Q(pk__in=asked))
    return list(mine.order_by("agent_id").values_list("agent_id", flat=True))


def list_recent(*, agent: Agent, at: datetime) -> Sequence[OwnerChange]:
    """The changes that were made within the last days, newest first."""
    since = at - timedelta(days=separation.DAYS)
    return list(OwnerChange.objects.filter(agent=agent, agreed_at__gt=since).order_by("-agreed_at"))
