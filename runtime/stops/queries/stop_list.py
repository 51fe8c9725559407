"""What is stopped now, and what waits for the end of it."""

from typing import Final

from django.db.models import QuerySet

from audit import statements
from runtime.contracts.states import IntentState
from runtime.flows.models import Intent
from runtime.registry.models import Agent, Stop


def get_stop(*, tenant: str) -> Stop | None:
    """The active stop of the tenant, or None."""
    return _ACTIVE.first(tenant=tenant)


def _active(*, tenant: str) -> QuerySet[Stop]:
    return Stop.objects.of(tenant).filter(lifted_at__isnull=True).order_by("pk")[:1]


_ACTIVE: Final = statements.Read(_active)


def list_waiting_agents(*, tenant: str, most: int) -> list[str]:
    """The agents whose accepted intents wait to be called, by name; at most `most`."""
    waiting = Intent.objects.of(tenant).filter(state=IntentState.PENDING)
    names = waiting.values_list("flow__agent__agent_id", flat=True).order_by("flow__agent__agent_id")
    return list(names.distinct()[:most])


def count_waiting(*, tenant: str, agent: Agent | None = None) -> int:
    """Accepted intents that wait to be called, of one agent where it is named."""
    waiting = Intent.objects.of(tenant).filter(state=IntentState.PENDING)
    return (waiting if agent is None else waiting.filter(flow__agent=agent)).count()
