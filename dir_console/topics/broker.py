"""What the intake does at Redis: groups, messages that wait or were left behind, answers, and bounds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis
from django.conf import settings

from dir_console.topics import names
from dir_console.topics.messages import Answer, Fields, key_of

# An agent that does not read keeps no more than this, and none for longer.
MOST_ANSWERS: Final = 1_000
ANSWERS_KEPT_S: Final = 3_600
# What a stream may hold at all. Beyond it the oldest messages are cut off, unanswered.
MOST_MESSAGES: Final = 5_000
# Without the broker's own bound one message may take half a gigabyte.
LARGEST_MESSAGE: Final = 1024 * 1024
_IDLE_CONSUMER_MS: Final = 3_600_000
_SOCKET_S: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Received:
    """An entry of an intake stream. `deliveries` counts this one."""

    agent_id: str
    entry_id: bytes
    fields: Fields
    deliveries: int = 1


def connect() -> "redis.Redis":
    """A client of the broker of topics, which answers in bytes."""
    client: redis.Redis = redis.Redis.from_url(
        settings.DIR_TOPIC_URL, protocol=2, socket_timeout=_SOCKET_S, socket_connect_timeout=3
    )
    return client


class Broker:
    """The broker as one consumer of the group sees it."""

    def __init__(self, client: "redis.Redis", *, consumer: str) -> None:
        self.client: Any = client  # redis-py types each answer as that of both its clients
        self.consumer = consumer

    def list_agents(self) -> set[str]:
        """The agents that have an intake stream."""
        found = self.client.scan_iter(match=names.EVERY_INTAKE, count=500, _type="stream")
        return names.agents_of(name.decode("utf-8", "replace") for name in found)

    def join(self, agent_id: str) -> None:
        """Make the stream and the group of an agent, where they are not there."""
        try:
            self.client.xgroup_create(names.intake_of(agent_id), names.GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def receive(
        self, agents: Collection[str], *, each: int, wait_ms: int
    ) -> Mapping[str, Sequence[Received]]:
        """The next messages of these agents, `each` at most; waits for the first one."""
        of = {names.intake_of(agent_id).encode(): agent_id for agent_id in agents}
        found = self.client.xreadgroup(
            names.GROUP, self.consumer, dict.fromkeys(of, ">"), count=each, block=wait_ms
        )
        listed = found.items() if isinstance(found, dict) else found
        return {
            of[stream]: [
                Received(agent_id=of[stream], entry_id=entry_id, fields=fields)
                for entry_id, fields in _entries(entries)
            ]
            for stream, entries in listed or ()
        }

    def reclaim(self, agent_id: str, *, idle_ms: int) -> Received | None:
        """The oldest message that a consumer took so long ago and never answered; it is ours from now on.

        One at a time: where a message ends every process that takes it, the ones behind it were not taken.
        """
        stream = names.intake_of(agent_id)
        found = self.client.xautoclaim(
            stream, names.GROUP, self.consumer, min_idle_time=idle_ms, start_id="0-0", count=1
        )
        entries = _entries(found[1])
        if not entries:
            return None
        ((entry_id, fields),) = entries
        pending = self.client.xpending_range(stream, names.GROUP, min=entry_id, max=entry_id, count=1)
        deliveries = pending[0]["times_delivered"] if pending else 1
        return Received(agent_id=agent_id, entry_id=entry_id, fields=fields, deliveries=deliveries)

    def settle(self, message: Received, answer: Answer) -> None:
        """Publish the answer and let go of the message, both or none. It is deleted: it holds a token."""
        stream = names.intake_of(message.agent_id)
        with self.client.pipeline(transaction=True) as pipe:
            pipe.xadd(
                names.answers_of(message.agent_id),
                answer.fields(to=message.entry_id, key=key_of(message.fields)),
                maxlen=MOST_ANSWERS,
                approximate=False,
            )
            pipe.xack(stream, names.GROUP, message.entry_id)
            pipe.xdel(stream, message.entry_id)
            pipe.execute()

    def count_waiting(self, agent_id: str) -> int:
        """How many messages of an agent are not answered yet."""
        return int(self.client.xlen(names.intake_of(agent_id)))

    def trim(self, agent_id: str) -> None:
        """Keep the streams of an agent within their bounds, and forget consumers that are long gone."""
        stream, answers = names.intake_of(agent_id), names.answers_of(agent_id)
        self.client.xtrim(stream, maxlen=MOST_MESSAGES, approximate=False)
        seconds, _ = self.client.time()
        self.client.xtrim(answers, minid=(seconds - ANSWERS_KEPT_S) * 1000, approximate=False)
        for consumer in self.client.xinfo_consumers(stream, names.GROUP):
            is_gone = consumer["pending"] == 0 and consumer["idle"] > _IDLE_CONSUMER_MS
            if is_gone and consumer["name"] != self.consumer.encode():
                self.client.xgroup_delconsumer(stream, names.GROUP, consumer["name"])

    def leave(self, agents: Collection[str]) -> None:
        """Take this consumer out of the groups where it has nothing under way."""
        for agent_id in agents:
            stream = names.intake_of(agent_id)
            pending = self.client.xpending_range(
                stream, names.GROUP, min="-", max="+", count=1, consumername=self.consumer
            )
            if not pending:
                self.client.xgroup_delconsumer(stream, names.GROUP, self.consumer)

    def trouble(self) -> str | None:
        """What is unsafe about how this Redis is set up; None where nothing is known to be."""
        if access_is_open(self.client):
            return "anybody who reaches this Redis is its admin: its user `default` needs no password"
        try:
            bound = int(self.client.config_get("proto-max-bulk-len")["proto-max-bulk-len"])
        except (redis.ResponseError, KeyError, ValueError):
            return None
        if bound > LARGEST_MESSAGE:
            return f"one message may take {bound:,} bytes: set proto-max-bulk-len to {LARGEST_MESSAGE}"
        return None


def access_is_open(client: Any) -> bool:
    """Whether the user `default`, as whom everybody begins, is on and needs no password."""
    try:
        default = client.acl_getuser("default")
    except redis.ResponseError:
        return False  # not ours to see, so the one who runs it has set rights
    flags = {flag.decode() if isinstance(flag, bytes) else flag for flag in (default or {}).get("flags", [])}
    return {"on", "nopass"} <= flags


def _entries(found: Any) -> list[tuple[bytes, Fields]]:
    """Entries of a stream. One that was deleted meanwhile has no fields, and nobody waits for its answer."""
    return [(entry_id, fields) for entry_id, fields in found if fields]
