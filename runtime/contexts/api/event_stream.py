"""Waiting for what concerns the agent itself."""

from collections.abc import Sequence
from typing import Final

from runtime.contexts.queries import pending_events
from runtime.contexts.services import agent_events
from runtime.core.api.long_poll import PollWait
from runtime.registry.services import credentials

PATTERN: Final = r"^api/v1/events$"


class AgentTopic:
    """News are changed facts, budget, status, stops, timers and children; a wake-up is only a hint."""

    # A price feed may tick faster than an agent can think.
    pause_s = 0.25

    def streams(self, asked: PollWait) -> Sequence[str]:
        """The agent's own, the system's, its children's, and those of whoever writes the facts it watches."""
        session = credentials.session(asked.token)
        return () if session is None else pending_events.streams(session.agent)

    def has_news(self, asked: PollWait) -> bool:
        """Something to tell, or a session that has ended."""
        session = credentials.session(asked.token)
        return session is None or agent_events.has_news(agent=session.agent, after=asked.after)
