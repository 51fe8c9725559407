"""Agents, kinds, targets and people by any part of their name, for the search over everything."""

from collections.abc import Sequence

from django.contrib.auth import get_user_model

from runtime.registry.models import Agent, PolicyKind, Target


def list_agents(*, tenant: str, part: str, size: int) -> Sequence[Agent]:
    """Agents by id, however it is written."""
    return list(Agent.objects.of(tenant).filter(agent_id__icontains=part).order_by("agent_id")[:size])


def list_kinds(*, tenant: str, part: str, size: int) -> Sequence[str]:
    """The names of policy kinds."""
    rows = PolicyKind.objects.of(tenant).filter(kind__icontains=part).order_by("kind")
    return list(rows.values_list("kind", flat=True).distinct()[:size])


def list_targets(*, tenant: str, part: str, size: int) -> Sequence[str]:
    """The names of targets."""
    rows = Target.objects.filter(tenant=tenant, name__icontains=part).order_by("name")
    return list(rows.values_list("name", flat=True)[:size])


def list_people(*, part: str, size: int) -> Sequence[str]:
    """The names of users; whoever has left has decided, too."""
    rows = get_user_model().objects.filter(username__icontains=part).order_by("username")
    return list(rows.values_list("username", flat=True)[:size])
