"""Waiting for the feedback of one flow."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from runtime.core.api.long_poll import PollWait
from runtime.flows.queries import feedback
from runtime.registry.services import credentials

PATTERN: Final = (
    r"^api/v1/flows/(?P<dfid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/feedback$"
)


class FeedbackTopic:
    """News are events of the flow; a session that has ended and a foreign flow are for the endpoint."""

    pause_s = 0.0

    def streams(self, asked: PollWait) -> Sequence[str]:
        """The flow's own."""
        return (asked.named["dfid"],)

    def has_news(self, asked: PollWait) -> bool:
        """An event past the cursor, or something to refuse."""
        session = credentials.session(asked.token)
        flow = (
            feedback.get_flow(agent=session.agent, dfid=UUID(asked.named["dfid"]))
            if session is not None
            else None
        )
        if flow is None:
            return True
        return flow.feedback_seq > asked.after
