"""The agent that a page's address names."""

from django.http import Http404, HttpRequest

from audit.access.permissions import tenant_of
from runtime.registry.models import Agent
from runtime.registry.queries import agent_list


def get_or_404(request: HttpRequest, agent_id: str) -> Agent:
    """Return the agent of a URL. Raises Http404 if there is none."""
    found = agent_list.get_agent(tenant=tenant_of(request.user), agent_id=agent_id)
    if found is None:
        raise Http404
    return found
