"""Notices: that something became of a flow. They hold ids and no words; the agent reads these over the API.

They are made from sealed entries, in the order of the tree. Nothing here is a command: an intent is carried
out from its row, and no executor listens to a topic.
"""

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import redis
from django.conf import settings

from audit import told
from audit.chain import time_text
from audit.events import Kind
from dir_console.topics import names
from dir_console.topics.broker import MOST_ANSWERS
from runtime.contracts.receiver import SealedEntry
from runtime.epochs.services import epochs
from runtime.flows.models import Feedback, Flow
from runtime.outward.queries import sealed

# In one step, and steps in a row: then messages have their turn.
LEAVES: Final = 500
MOST_BATCHES: Final = 10
INTENT_CREATED: Final = "INTENT_CREATED"

_log = logging.getLogger(__name__)


class Notices:
    """Publishes what was sealed since the position that the broker keeps; a lost position begins at now."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client: Any = client

    def publish(self, agents: Collection[str]) -> int:
        """Publish what is due to those of `agents` that it is for; returns how many notices.

        Of several processes that do it at once one moves the position, and only its notices are published.
        """
        published = 0
        if epochs.refuse_while_recovering() is None:
            for _ in range(MOST_BATCHES):
                count, is_more = self._publish_batch(agents)
                published += count
                if not is_more:
                    break
        return published

    def _publish_batch(self, agents: Collection[str]) -> tuple[int, bool]:
        """How many notices were published of the next leaves, and whether there may be more."""
        with self._client.pipeline(transaction=True) as pipe:
            pipe.watch(names.POSITION)
            stored = pipe.get(names.POSITION)
            from_leaf = _position(stored)
            try:
                entries, next_leaf = sealed.list_leaves(
                    tenant=settings.DIR_TENANT, from_leaf=from_leaf, most=LEAVES
                )
            except sealed.NotAsSealedError as error:
                _log.error("no notices are published: %s", error)
                return 0, False
            if stored == str(next_leaf).encode():
                return 0, False
            notices = list(_notices(entries, agents))
            pipe.multi()
            for agent_id, body in notices:
                fields = {"type": "notice", "body": json.dumps(body)}
                pipe.xadd(names.answers_of(agent_id), fields, maxlen=MOST_ANSWERS, approximate=False)
            pipe.set(names.POSITION, next_leaf)
            try:
                pipe.execute()
            except redis.WatchError:
                return 0, False
        return len(notices), next_leaf - from_leaf == LEAVES


def _position(stored: bytes | None) -> int:
    """The leaf to go on from; the end of the tree where none is kept, or one of another database."""
    size = sealed.size()
    return int(stored) if stored is not None and stored.isdigit() and int(stored) <= size else size


def _notices(
    entries: Sequence[SealedEntry], agents: Collection[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    of_flows = {entry.stream: dfid for entry in entries if (dfid := _dfid(entry.stream)) is not None}
    holders = dict(
        Flow.objects.of(settings.DIR_TENANT)
        .filter(dfid__in=of_flows.values(), agent__agent_id__in=agents)
        .values_list("dfid", "agent__agent_id")
    )
    wanted = [entry for entry in entries if of_flows.get(entry.stream) in holders]
    types = _feedback_types(wanted, of_flows)
    for entry in wanted:
        dfid = of_flows[entry.stream]
        told_at = {"dfid": entry.stream, "at": time_text(entry.at)}
        if entry.kind == Kind.INTENT_CREATED:
            intent = {name: entry.body["payload"][name] for name in ("intent_id", "valid_until")}
            yield holders[dfid], {"event_type": INTENT_CREATED, **told_at, **intent}
        for seq in _feedback_seqs(entry):
            if (dfid, seq) in types:
                yield holders[dfid], {"event_type": types[dfid, seq], **told_at, "seq": seq}


def _feedback_types(
    entries: Sequence[SealedEntry], of_flows: Mapping[str, UUID]
) -> dict[tuple[UUID, int], str]:
    """What kind of feedback the entries speak of, by flow and number."""
    told_flows = {of_flows[entry.stream] for entry in entries if _feedback_seqs(entry)}
    rows = Feedback.objects.filter(flow_id__in=told_flows).values_list("flow_id", "seq", "event_type")
    return {(dfid, seq): event_type for dfid, seq, event_type in rows} if told_flows else {}


def _feedback_seqs(entry: SealedEntry) -> list[int]:
    return sorted(int(seq) for seq in told.committed(entry.body["payload"], told.FEEDBACK))


def _dfid(stream: str) -> UUID | None:
    try:
        return UUID(stream)
    except ValueError:
        return None
