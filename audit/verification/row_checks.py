"""How rows are compared with entries, published to the apps that own the rows (`settings.DIR_ROW_CHECKS`).

The ledger knows entries and nothing of the rows of other apps: each app gives a check that sees the entries
pass, stream by stream, and reports which of its rows differ from what was recorded.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, Self, TypeVar
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from audit import actors, cells, erasure_columns, erasures
from audit.chain import BreakKind, ChainBreak
from audit.erasures import Erasure
from audit.events import Kind
from audit.verification.verify import UNREADABLE

SETTING = "DIR_ROW_CHECKS"
STREAMS_AT_ONCE = 200
LONGEST_SHOWN = 80
_SKEW = timedelta(minutes=1)
Key = TypeVar("Key")
Cells = TypeVar("Cells")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the walk, decoded."""

    tenant: str
    stream: str
    seq: int
    kind: str
    at: datetime
    actor: str
    payload: Mapping[str, Any]

    def wrong(self, fault: BreakKind, detail: str) -> ChainBreak:
        """A finding at this entry's place."""
        return ChainBreak(self.tenant, self.stream, self.seq, fault, detail)


@dataclass(frozen=True, slots=True)
class NotProved:
    """Columns of a table that are compared with no entry, or not always, and why; none named: all of them."""

    table: str
    columns: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.table}{'.' if self.columns else ''}{', '.join(self.columns)}: {self.why}"


class RowCheck(Protocol):
    """Sees the entries of its kinds by (tenant, stream, seq), then ends; both give what they found."""

    kinds: frozenset[Kind]
    not_proved: Sequence[NotProved]

    @property
    def not_verified(self) -> Sequence[str]: ...
    def see(self, entry: Entry) -> Iterable[ChainBreak]: ...
    def finish(self) -> Iterable[ChainBreak]: ...


def all_checks() -> list[RowCheck]:
    """A fresh check of each app that has rows."""
    return [import_string(path)() for path in getattr(settings, SETTING, ())]


def is_then(told: datetime, stored: object) -> bool:
    """Whether a row's time is that of its entry: rows are written a moment before, in one transaction."""
    return isinstance(stored, datetime) and abs(told - stored) <= _SKEW


@dataclass(slots=True)
class Found:
    """What a comparison found; every method notes at most one finding.

    `unknown_keys` are the entries whose signature is by a key that is not held here, by key id. `erased` are
    the flows whose words were erased, by stream: their emptied cells are not compared with earlier entries.
    That they are empty has a check of its own.
    """

    breaks: list[ChainBreak] = field(default_factory=list)
    unknown_keys: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    erased: Mapping[str, Erasure] = field(default_factory=dict)

    def erasure_after(self, entry: Entry) -> Erasure | None:
        """The erasure of the entry's flow, if it came after the entry."""
        erasure = self.erased.get(entry.stream)
        return None if erasure is None or erasure.seq <= entry.seq else erasure

    def is_gone(self, entry: Entry, what: str) -> bool:
        """Whether a cell was emptied after its entry."""
        return what in erasure_columns.names() and self.erasure_after(entry) is not None

    def same(self, entry: Entry, what: str, recorded: object, stored: object) -> None:
        """Note that a row's value is not the recorded one."""
        if recorded != stored and not self.is_gone(entry, what):
            detail = f"{what} is {_short(stored)}, but the ledger recorded {_short(recorded)}"
            self.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, detail))

    def then(self, entry: Entry | None, at: Entry, what: str, stored: object) -> None:
        """Note that a row's time is not that of the entry that made it; None: nothing has made it yet.

        `at` is the place of the finding.
        """
        if entry is None:
            self.same(at, what, None, stored)
        elif not is_then(entry.at, stored):
            self.same(entry, what, entry.at, stored)

    def by_then(self, entry: Entry | None, at: Entry, what: str, stored: object) -> None:
        """`then` for a row of no flow: where a clock was set back, its time is before that of its entry.

        An entry is never earlier than the one before it in its stream; such a row keeps the clock's time.
        """
        if entry is None or not isinstance(stored, datetime) or stored > entry.at:
            self.then(entry, at, what, stored)

    def bytes(self, entry: Entry, what: str, digest: str, cell: object) -> None:
        """Note that a cell's bytes do not have the recorded digest."""
        if self.is_gone(entry, what):
            return
        if not digest or cells.digest_of(cell) != digest:
            self.breaks.append(entry.wrong(BreakKind.ROW_MISMATCH, f"{what} does not match the ledger"))

    def rows_of(
        self, entries: Iterable[Entry], rows: MutableMapping[Key, Cells], key: Callable[[Any], Key], what: str
    ) -> Iterator[tuple[Entry, Cells]]:
        """Each entry with its row, which is taken out of `rows`; an entry without one is noted.

        `key` tells the row from the payload, and `what` is a format of the payload that names it to people.
        """
        for entry in entries:
            row = rows.pop(key(entry.payload), None)
            if row is None:
                self.missing(entry, what.format(**entry.payload))
            else:
                yield entry, row

    def missing(self, entry: Entry, what: str) -> None:
        """Note that the row of an entry is gone."""
        self.breaks.append(entry.wrong(BreakKind.ROW_MISSING, f"{what} is missing"))

    def without_entry(self, tenant: str, stream: str, what: str) -> None:
        """Note a row that no entry records."""
        self.breaks.append(
            ChainBreak(tenant, stream, 0, BreakKind.ROW_WITHOUT_ENTRY, f"no entry records {what}")
        )


def erased_in(flows: Mapping[UUID, Sequence[Entry]]) -> dict[str, Erasure]:
    """The last erasure of each of these flows, by stream."""
    found: dict[str, Erasure] = {}
    for entries in flows.values():
        for entry in entries:
            if entry.kind == Kind.FLOW_ERASED:
                found[entry.stream] = erasures.of_entry(
                    found.get(entry.stream),
                    seq=entry.seq,
                    at=entry.at,
                    actor=entry.actor,
                    payload=entry.payload,
                )
    return found


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


class FlowRows:
    """The base of checks on rows of flows: compares some hundred flows at a time."""

    kinds: frozenset[Kind] = frozenset()
    not_proved: Sequence[NotProved] = ()

    @property
    def not_verified(self) -> Sequence[str]:
        """What there is and could not be checked here, once all is compared."""
        return ()

    def __init__(self) -> None:
        self._held: dict[tuple[str, UUID], list[Entry]] = {}

    def see(self, entry: Entry) -> Iterator[ChainBreak]:
        """Keep the entry with its flow; compare when enough flows are held."""
        if len(entry.stream) != len("00000000-0000-0000-0000-000000000000"):
            return
        try:
            dfid = UUID(entry.stream)
        except ValueError:
            return
        key = (entry.tenant, dfid)
        if key not in self._held and len(self._held) >= STREAMS_AT_ONCE:
            yield from self._compare_held()
        self._held.setdefault(key, []).append(entry)

    def flush(self) -> Iterator[ChainBreak]:
        """Compare what is left of the entries that were seen."""
        yield from self._compare_held()

    def absorb(self, other: Self) -> None:
        """Take over what another one has counted, as if its entries had been seen here."""

    def finish(self) -> Iterator[ChainBreak]:
        """Compare what is left."""
        yield from self._compare_held()

    def compare(self, flows: Mapping[UUID, Sequence[Entry]]) -> Iterable[ChainBreak]:
        """The findings of some flows, each with its entries in order."""
        raise NotImplementedError

    def _compare_held(self) -> Iterator[ChainBreak]:
        held, self._held = self._held, {}
        by_dfid = {dfid: entries for (_, dfid), entries in held.items()}
        tenants = {dfid: tenant for tenant, dfid in held}
        # Flow by flow, as the walk goes; `compare` goes table by table.
        yield from sorted(safely(self.compare, by_dfid, tenants), key=lambda found: found.stream)


class LastingRows:
    """The base of checks on rows of no flow: what entries record is collected and compared at the end."""

    kinds: frozenset[Kind] = frozenset()
    not_proved: Sequence[NotProved] = ()

    @property
    def not_verified(self) -> Sequence[str]:
        """What there is and could not be checked here, once all is compared."""
        return ()

    def see(self, entry: Entry) -> Iterable[ChainBreak]:
        """Take the entry; nothing is compared yet."""
        self.take(entry)
        return ()

    def finish(self) -> Iterator[ChainBreak]:
        """Compare every row, table by table; one that cannot be read is a finding."""
        for what, compare in self.comparisons().items():
            found = Found()
            try:
                compare(found)
            except UNREADABLE as error:
                detail = f"rows of {what} cannot be read ({type(error).__name__})"
                found.breaks.append(ChainBreak("", actors.SYSTEM, 0, BreakKind.UNREADABLE, detail))
            yield from found.breaks

    def take(self, entry: Entry) -> None:
        """Collect what the entry records."""
        raise NotImplementedError

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """What compares the rows of each table, by a word for them."""
        raise NotImplementedError


class RowsWithHistory(LastingRows):
    """The base of checks on one small table whose rows are changed by entries of the system's stream.

    `what` is the word for one row, `id_field` the field of an entry that has its primary key.
    """

    what: str
    id_field: str

    def __init__(self) -> None:
        self._entries: dict[str, list[Entry]] = defaultdict(list)

    def take(self, entry: Entry) -> None:
        """Keep the entry with its row; there are few."""
        self._entries[entry.payload[self.id_field]].append(entry)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """The one table."""
        return {f"{self.what}s": self._compare}

    def rows(self) -> Iterable[Any]:
        """Every row, with `pk`, `tenant` and `name`."""
        raise NotImplementedError

    def compare_row(self, found: Found, row: Any, entries: list[Entry]) -> None:
        """Compare a row with its entries, the oldest first."""
        raise NotImplementedError

    def _compare(self, found: Found) -> None:
        rows = {str(row.pk): row for row in self.rows()}
        for key, entries in self._entries.items():
            row = rows.pop(key, None)
            if row is None:
                found.missing(entries[0], f"the {self.what} {entries[0].payload['name']}")
            else:
                self.compare_row(found, row, sorted(entries, key=lambda entry: entry.seq))
        for row in rows.values():
            found.without_entry(row.tenant, actors.SYSTEM, f"the {self.what} {row.name}")


def safely(
    compare: Callable[[Mapping[UUID, Sequence[Entry]]], Iterable[ChainBreak]],
    flows: Mapping[UUID, Sequence[Entry]],
    tenants: Mapping[UUID, str],
) -> list[ChainBreak]:
    """Compare; where rows cannot be read, flow by flow, so that the one with such a row is named."""
    try:
        return list(compare(flows))
    except UNREADABLE as error:
        if len(flows) > 1:
            return [found for dfid in flows for found in safely(compare, {dfid: flows[dfid]}, tenants)]
        (dfid,) = flows
        detail = f"a row of this flow cannot be read ({type(error).__name__})"
        return [ChainBreak(tenants[dfid], str(dfid), 0, BreakKind.UNREADABLE, detail)]
