"""What the streams of an agent, and its user, are called at the broker."""

import re
from collections.abc import Iterable
from typing import Final

GROUP: Final = "dir-console"
POSITION: Final = "dir:topics:leaf"
EVERY_INTAKE: Final = "dir:intake:*"
_INTAKE: Final = "dir:intake:"
_ANSWERS: Final = "dir:answers:"
_USER: Final = "dir-agent-"
# The form of an agent's id has no character that a key pattern of Redis gives a meaning to.
_AGENT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def intake_of(agent_id: str) -> str:
    """The stream that the agent writes its messages to."""
    return _INTAKE + agent_id


def answers_of(agent_id: str) -> str:
    """The stream that the agent reads its answers and notices from."""
    return _ANSWERS + agent_id


def user_of(agent_id: str) -> str:
    """The agent's user at the broker."""
    return _USER + agent_id


def is_agent_id(text: str) -> bool:
    """Whether an agent of this id can have streams."""
    return _AGENT_ID.fullmatch(text) is not None


def agents_of(streams: Iterable[str]) -> set[str]:
    """The agents whose intake streams these are; other keys are left out."""
    named = (name.removeprefix(_INTAKE) for name in streams if name.startswith(_INTAKE))
    return {agent_id for agent_id in named if is_agent_id(agent_id)}
