"""Waiting for messages of other agents."""

from collections.abc import Sequence
from typing import Final

from audit import actors
from runtime.conversations.services import delivering
from runtime.core.api.long_poll import PollWait
from runtime.registry.services import credentials

PATTERN: Final = r"^api/v1/messages$"


class MailboxTopic:
    """News are messages, and that the agent is held; a wake-up is only a hint."""

    pause_s = 0.0

    def streams(self, asked: PollWait) -> Sequence[str]:
        """The mailbox, and where stops and changes of status are recorded."""
        session = credentials.session(asked.token)
        if session is None:
            return ()
        return (delivering.stream_of(session.agent), actors.agent(session.agent.agent_id), actors.SYSTEM)

    def has_news(self, asked: PollWait) -> bool:
        """Something to deliver or to refuse, or a session that has ended."""
        session = credentials.session(asked.token)
        return session is None or delivering.has_news(agent=session.agent, after=asked.after)
