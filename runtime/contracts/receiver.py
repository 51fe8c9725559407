"""Receivers of events outside: their kinds and forms, which events they get, and an entry to send. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from audit.events import Kind
from runtime.contracts.states import Choice

LONGEST_NAME: Final = 63
LONGEST_PLACE: Final = 2000
LONGEST_ERROR: Final = 300
MOST_PATTERNS: Final = 30
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
SECRET_ENV: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
EVERYTHING: Final = "*"
# A pattern for changes of facts: of all, or with the id of an agent of those that its manifest subscribes to.
STATE_CHANGED: Final = "state:changed"
STATE_RESYNC: Final = "state:resync"


class ReceiverKind(Choice):
    """How a receiver is reached."""

    WEBHOOK = "WEBHOOK"
    SIEM_HTTP = "SIEM_HTTP"
    SIEM_FILE = "SIEM_FILE"
    SIEM_SYSLOG = "SIEM_SYSLOG"
    OTLP_HTTP = "OTLP_HTTP"


class EventFormat(Choice):
    """How an event is written."""

    CLOUDEVENTS = "CLOUDEVENTS"
    OCSF = "OCSF"
    CSV = "CSV"
    SPANS = "SPANS"


# The forms that a kind of receiver takes, the usual one first.
FORMATS: Final[Mapping[ReceiverKind, Sequence[EventFormat]]] = {
    ReceiverKind.WEBHOOK: (EventFormat.CLOUDEVENTS,),
    ReceiverKind.SIEM_HTTP: (EventFormat.OCSF, EventFormat.CSV),
    ReceiverKind.SIEM_FILE: (EventFormat.OCSF, EventFormat.CSV),
    ReceiverKind.SIEM_SYSLOG: (EventFormat.OCSF, EventFormat.CSV),
    ReceiverKind.OTLP_HTTP: (EventFormat.SPANS,),
}
# The forms in which each event is a line by itself.
LINES: Final = (EventFormat.CLOUDEVENTS, EventFormat.OCSF, EventFormat.CSV)

# Without its secret nothing that such a receiver gets could be trusted.
NEED_SECRET: Final = frozenset({ReceiverKind.WEBHOOK})


class ReceiverState(Choice):
    """ACTIVE gets what is sealed; PAUSED keeps its position and gets nothing."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedEntry:
    """An entry to send. `body` are the members that were hashed, `leaf` its place in the tree from 0.

    `entry_hash` and `prev_hash` are hexadecimal: SHA-256 of the bytes of `prev_hash` followed by the
    canonical JSON of `body` is `entry_hash`.
    """

    origin: str
    leaf: int
    entry_hash: str
    prev_hash: str
    body: Mapping[str, Any]
    at: datetime

    @property
    def kind(self) -> str:
        """The kind of the entry, such as `escalation:opened`."""
        return str(self.body["kind"])

    @property
    def stream(self) -> str:
        """The stream that the entry is in: the DFID of a flow, `agent:NAME`, `user:7`, `system`."""
        return str(self.body["stream"])

    @property
    def payload(self) -> Mapping[str, Any]:
        """What the entry says."""
        payload: Mapping[str, Any] = self.body["payload"]
        return payload


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntry:
    """An entry of a flow, by its number from 1 in the flow, for what is worked out from several of them."""

    seq: int
    kind: str
    at: datetime
    payload: Mapping[str, Any]


def wrong_pattern(patterns: Sequence[str]) -> str | None:
    """What is wrong with a choice of events; None where nothing is.

    A pattern is a kind (`escalation:opened`), all kinds of one noun (`escalation:*`), or `*` for everything;
    or `state:changed`, which stands alone, alone or with `@` and the id of an agent.
    """
    if not patterns or len(patterns) > MOST_PATTERNS:
        return f"Enter from 1 to {MOST_PATTERNS} kinds of events, or * for all of them."
    if any(_is_of_state(pattern) for pattern in patterns):
        if len(patterns) == 1:
            return None
        return f"A receiver of {STATE_CHANGED} gets nothing else. Add another receiver for other events."
    for pattern in patterns:
        if not any(_fits(pattern, kind.value) for kind in Kind):
            return f"No kind of event is {pattern}. Write kinds as escalation:opened, escalation:* or *."
    return None


def is_wanted(patterns: Sequence[str], kind: str) -> bool:
    """Whether one of the patterns names the kind."""
    if gets_state(patterns):
        return kind == Kind.FACT_WRITTEN
    return any(_fits(pattern, kind) for pattern in patterns)


def gets_state(patterns: Sequence[str]) -> bool:
    """Whether a receiver gets changes of facts, in the terms of `/state/changes`."""
    return any(_is_of_state(pattern) for pattern in patterns)


def state_reader(patterns: Sequence[str]) -> str:
    """The agent that such a receiver gets changes for; empty: of all facts."""
    return patterns[0].partition("@")[2] if patterns else ""


def _is_of_state(pattern: str) -> bool:
    name, at, agent_id = pattern.partition("@")
    return name == STATE_CHANGED and bool(agent_id) == bool(at)


def message_id(receiver_id: object, entries: Sequence[SealedEntry]) -> str:
    """The id of a message with these entries: the same at every try, and another one for each receiver."""
    named = ":".join([str(receiver_id), *(entry.entry_hash for entry in entries)])
    digest = hashlib.sha256(named.encode()).hexdigest()
    return f"msg_{digest[:32]}"


def _fits(pattern: str, kind: str) -> bool:
    if pattern == EVERYTHING:
        return True
    noun, _, verb = pattern.partition(":")
    return pattern == kind or (verb == EVERYTHING and kind.startswith(f"{noun}:"))
