"""Waiting for changes of the facts that a caller may read."""

from collections.abc import Sequence
from typing import Final

from runtime.core.api.long_poll import PollWait
from runtime.registry.services import credentials
from runtime.state.queries import changes, sight
from runtime.state.queries.sight import Sight
from runtime.state.services.world_writes import HINTS

PATTERN: Final = r"^api/v1/state/changes$"


class ChangeTopic:
    """News are changes in sight, and that the reader has to start again; a wake-up is only a hint."""

    # A price feed may tick faster than anybody wants to read.
    pause_s = 0.25

    def streams(self, asked: PollWait) -> Sequence[str]:
        """Where numbered versions of the world are announced."""
        return (HINTS,) if _sight_of(asked) is not None else ()

    def has_news(self, asked: PollWait) -> bool:
        """Something to tell or to refuse, or a session or key that has ended."""
        own = _sight_of(asked)
        return own is None or changes.has_news(sight=own, after=asked.after)


def _sight_of(asked: PollWait) -> Sight | None:
    session = credentials.session(asked.token)
    if session is not None:
        return sight.of_agent(session.agent)
    key = credentials.feed_key(asked.token) or credentials.auditor_key(asked.token)
    return None if key is None else sight.of_key(key)
