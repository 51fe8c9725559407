"""The context that an agent keeps with its task, read from the entries of its flow.

The entries commit to the words, which are stored as payloads: each is compared before it is shown, and gone
where the words of the flow were erased.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from audit import canonical, cells, chain, queries
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.contracts.states import FlowState
from runtime.contracts.task_schemas import ContextPart
from runtime.flows.models import Flow
from runtime.state.queries import world, world_places

# Of events and of links each.
MOST_SHOWN: Final = 100
# A flow that was opened without a context has an empty one.
FIRST_VERSION: Final = 1


class Unreadable(StrEnum):
    """Why a task's context cannot be shown."""

    TAMPERED = "TAMPERED"
    ERASED = "ERASED"
    # At the version asked for there was no such task.
    NOT_THERE = "NOT_THERE"
    # No entry tells when the version of the world was made.
    NOT_PLACED = "NOT_PLACED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """An event that the agent added: its words are `{event_type, data}`."""

    event_id: str
    version: int
    at: datetime
    words: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLink:
    """What the agent linked; `fact_version` is that of a fact."""

    version: int
    at: datetime
    to: str
    ref: str
    fact_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """A task at a moment: the state of its flow then, and its context; `world_version` is that moment's."""

    version: int
    state: str
    reason: str
    world_version: int
    document: dict[str, Any]
    events: Sequence[TaskEvent] = ()
    links: Sequence[TaskLink] = ()


@dataclass(slots=True)
class _Fold:
    """Entries of one flow, put together in their order; words are still commitments."""

    state: str = ""
    reason: str = ""
    # The newest version, and the one that is shown.
    newest: int = FIRST_VERSION
    version: int = FIRST_VERSION
    document: str | None = None
    events: list[tuple[datetime, dict[str, Any]]] = field(default_factory=list)
    links: list[tuple[datetime, dict[str, Any]]] = field(default_factory=list)


def get_flow(*, tenant: str, dfid: UUID, agent_pk: int | None) -> Flow | None:
    """The flow that a task is; with `agent_pk` only one of that agent."""
    rows = Flow.objects.of(tenant).select_related("agent").filter(dfid=dfid)
    return (rows if agent_pk is None else rows.filter(agent=agent_pk)).first()


def read(flow: Flow) -> TaskContext | Unreadable:
    """A task as it is now."""
    last = world.last_version(flow.tenant)
    fold = _fold(_entries(flow))
    if isinstance(fold, Unreadable):
        return fold
    fold.state, fold.reason = str(flow.state), flow.reason
    return _opened(flow, fold, world_version=last)


def read_at(flow: Flow, *, version: int) -> TaskContext | Unreadable:
    """A task as it was when a numbered version of the world was made: the same whenever it is read."""
    place = world_places.find_place(tenant=flow.tenant, version=version)
    if place is None:
        return Unreadable.NOT_PLACED
    then = world_places.list_before(_entries(flow), place)
    if not then:
        return Unreadable.NOT_THERE
    fold = _fold(then)
    return fold if isinstance(fold, Unreadable) else _opened(flow, fold, world_version=version)


def read_at_context(flow: Flow, *, version: int) -> TaskContext | Unreadable:
    """The context as it was at one of its own versions, beside the state of now."""
    fold = _fold(_entries(flow), last=version)
    if isinstance(fold, Unreadable):
        return fold
    if not FIRST_VERSION <= version <= fold.newest:
        return Unreadable.NOT_THERE
    fold.state, fold.reason = str(flow.state), flow.reason
    return _opened(flow, fold, world_version=world.last_version(flow.tenant))


def read_document(flow: Flow) -> TaskContext | Unreadable:
    """The context as it is now, without its events and links; the caller holds the flow's lock."""
    fold = _fold(_entries(flow))
    if isinstance(fold, Unreadable):
        return fold
    fold.events.clear()
    fold.links.clear()
    return _opened(flow, fold, world_version=0)


def _entries(flow: Flow) -> list[LedgerEntry]:
    kinds = [Kind.FLOW_OPENED, Kind.FLOW_MOVED, Kind.TASK_CONTEXT_CHANGED]
    rows = LedgerEntry.objects.filter(tenant=flow.tenant, stream=str(flow.dfid), kind__in=kinds)
    return sorted(rows, key=lambda entry: entry.seq)


def _fold(entries: Sequence[LedgerEntry], *, last: int | None = None) -> _Fold | Unreadable:
    fold = _Fold()
    try:
        for entry, said in _said(entries):
            match entry.kind:
                case Kind.FLOW_OPENED:
                    fold.state = FlowState.CREATED.value
                case Kind.FLOW_MOVED:
                    fold.state, fold.reason = said["to_state"], said["reason"]
                case _:
                    fold.newest = _next(fold, said)
                    if last is None or fold.newest <= last:
                        fold.version = fold.newest
                        _take(fold, entry.at, said)
    except UNREADABLE:
        return Unreadable.TAMPERED
    return fold


def _said(entries: Sequence[LedgerEntry]) -> Iterator[tuple[LedgerEntry, dict[str, Any]]]:
    for entry in entries:
        body, before = cells.bytes_of(entry.body), cells.bytes_of(entry.prev_hash)
        if body is None or before is None or chain.entry_hash(before, body) != cells.bytes_of(entry.hash):
            raise ValueError("the entry is not what was recorded")
        yield entry, entry.payload


def _next(fold: _Fold, said: dict[str, Any]) -> int:
    """The version of a change, which is one more than that before it: none is missing between them."""
    version: int = said["version"]
    is_first = version == FIRST_VERSION and fold.document is None
    if not is_first and version != fold.newest + 1:
        raise ValueError("a version of the context is missing")
    return version


def _take(fold: _Fold, at: datetime, said: dict[str, Any]) -> None:
    match ContextPart(said["part"]):
        case ContextPart.CONTEXT:
            fold.document = said["words_commitment"]
        case ContextPart.EVENT:
            fold.events.append((at, said))
        case ContextPart.LINK:
            fold.links.append((at, said))


def _opened(flow: Flow, fold: _Fold, *, world_version: int) -> TaskContext | Unreadable:
    """The context with its words, as far as they are what the entries commit to."""
    shown = fold.events[-MOST_SHOWN:]
    named = [said["words_commitment"] for _, said in shown]
    if fold.document is not None:
        named.append(fold.document)
    bodies = queries.list_bodies(tenant=flow.tenant, commitments=named) if named else {}
    if any(body == b"" for body in bodies.values()):
        return Unreadable.ERASED
    words: dict[str, Any] = {}
    for commitment in named:
        body = bodies.get(commitment)
        if body is None:
            return Unreadable.TAMPERED
        words[commitment] = canonical.decode(body)
    return TaskContext(
        version=fold.version,
        state=fold.state,
        reason=fold.reason,
        world_version=world_version,
        document={} if fold.document is None else words[fold.document],
        events=tuple(
            TaskEvent(
                event_id=said["event_id"],
                version=said["version"],
                at=at,
                words=words[said["words_commitment"]],
            )
            for at, said in shown
        ),
        links=tuple(
            TaskLink(
                version=said["version"],
                at=at,
                to=said["link_to"],
                ref=said["link_ref"],
                fact_version=said["link_version"],
            )
            for at, said in fold.links[-MOST_SHOWN:]
        ),
    )
