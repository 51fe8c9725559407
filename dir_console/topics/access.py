"""The agent's user at the broker: it may write to its own intake stream and read its own answers, no more."""

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis

from dir_console.topics import names
from dir_console.topics.broker import Broker

# Where the numbered database is not the first one, a client must say so before anything else.
_COMMANDS = ("-@all", "+xadd", "+xread")
_WITH_SELECT = "+select"


@dataclass(frozen=True, kw_only=True)
class TopicUser:
    """A new user with its password, which is shown once. `rules` hold the password's hash only."""

    name: str
    password: str = field(repr=False)
    rules: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line of an ACL file."""
        return " ".join(["user", self.name, *self.rules])

    def url(self, base: str) -> str:
        """The address that the agent connects to, with its user and password."""
        parts = urlsplit(base)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, f"{self.name}:{self.password}@{place}", parts.path, "", ""))


def draft(agent_id: str, *, base: str) -> TopicUser:
    """A user for an agent at the broker at `base`; nothing is changed there."""
    password = secrets.token_urlsafe(32)
    needs_select = urlsplit(base).path.strip("/") not in {"", "0"}
    rules = (
        "reset",
        "on",
        f"#{hashlib.sha256(password.encode()).hexdigest()}",
        f"%W~{names.intake_of(agent_id)}",
        f"%R~{names.answers_of(agent_id)}",
        *_COMMANDS,
        *((_WITH_SELECT,) if needs_select else ()),
    )
    return TopicUser(name=names.user_of(agent_id), password=password, rules=rules)


def create(client: "redis.Redis", user: TopicUser, *, agent_id: str) -> bool:
    """Put the user in place of an earlier one, and make its topic; whether it outlives a restart of Redis."""
    broker: Any = client
    broker.execute_command("ACL SETUSER", user.name, *user.rules)
    # Whoever came in with the password before would otherwise stay.
    broker.execute_command("CLIENT KILL", "USER", user.name)
    Broker(client, consumer="").join(agent_id)
    return _save(broker)


def remove(client: "redis.Redis", agent_id: str) -> bool:
    """Remove the agent's user, end its connections, and delete its streams; False where there was none."""
    broker: Any = client
    removed = bool(broker.acl_deluser(names.user_of(agent_id)))
    broker.delete(names.intake_of(agent_id), names.answers_of(agent_id))
    _save(broker)
    return removed


def _save(broker: Any) -> bool:
    try:
        broker.acl_save()
    except redis.ResponseError:
        return False  # this Redis has no ACL file
    return True
