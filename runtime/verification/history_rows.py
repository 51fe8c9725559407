"""Who was in which group until when, and who owned an agent before, against entries, for `verify_ledger`.

Both bind people for days after a change (`kernel.separation`), so a forged or missing row grants a right.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from audit import actors
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found, NotProved
from runtime.registry.models import Membership, OwnerChange

_OF_PEOPLE = frozenset(
    {Kind.USER_ADDED, Kind.USER_ROLES_CHANGED, Kind.USER_DEACTIVATED, Kind.USER_REACTIVATED}
)
# The field in which an entry names the groups that a person has from then on.
_GAINED = {Kind.USER_ADDED: "roles", Kind.USER_REACTIVATED: "groups", Kind.USER_ROLES_CHANGED: "gained"}
_OF_OWNERS = frozenset(
    {Kind.AGENT_OWNER_CHANGE_ASKED, Kind.AGENT_OWNER_CHANGED, Kind.AGENT_OWNER_CHANGE_DROPPED}
)
Row = Mapping[str, Any]


@dataclass(slots=True)
class _Told:
    """What entries record of one row: when it began, and the values of its columns with the entry of each."""

    began: Entry
    columns: dict[str, tuple[Entry, Any]] = field(default_factory=dict)


class HistoryRowCheck(row_checks.LastingRows):
    """Memberships of people in groups, and changes of owners of agents."""

    kinds = _OF_PEOPLE | _OF_OWNERS
    not_proved = (
        NotProved("runtime_failedsignin", (), "short-lived; the counts become one entry per minute"),
    )

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], dict[int, Entry]] = defaultdict(dict)

    def take(self, entry: Entry) -> None:
        """Keep the entry with its stream, once."""
        self._streams[entry.tenant, entry.stream][entry.seq] = entry

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """Memberships, and changes of owners."""
        return {
            "memberships": lambda found: _compare_memberships(found, self._of(_OF_PEOPLE)),
            "owner changes": lambda found: _compare_owners(found, self._of(_OF_OWNERS)),
        }

    def _of(self, kinds: Collection[Kind]) -> Iterator[Sequence[Entry]]:
        """The entries of each stream of these kinds, in order."""
        for entries in self._streams.values():
            ordered = [entries[seq] for seq in sorted(entries) if entries[seq].kind in kinds]
            if ordered:
                yield ordered


def _compare_memberships(found: Found, streams: Iterable[Sequence[Entry]]) -> None:
    told: dict[tuple[int, str], list[_Told]] = defaultdict(list)
    for entries in streams:
        for entry in entries:
            _follow_groups(told, entry)
    stored: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in Membership.objects.order_by("since", "pk").values("user_id", "group", "since", "until"):
        stored[row["user_id"], row["group"]].append(row)
    for (user_id, group), rows in sorted(stored.items()):
        what = f"user {user_id} in the group {group}"
        _compare_each(found, told.pop((user_id, group), []), rows, "since", actors.user(user_id), what)
    for (user_id, group), left in sorted(told.items(), key=lambda item: item[0]):
        for one in left:
            found.missing(one.began, f"the row of user {user_id} in the group {group}")


def _follow_groups(told: dict[tuple[int, str], list[_Told]], entry: Entry) -> None:
    said = entry.payload
    user_id = said["user_id"]
    standing = {
        group: rows[-1]
        for (pk, group), rows in told.items()
        if pk == user_id and rows and rows[-1].columns["until"][1] is None
    }
    is_gone = entry.kind == Kind.USER_DEACTIVATED
    gained = [] if is_gone else said[_GAINED[Kind(entry.kind)]]
    lost = list(standing) if is_gone else said.get("lost", ())
    for group in lost:
        if group in standing:
            standing[group].columns["until"] = (entry, entry.at)
    for group in gained:
        if group not in standing:
            told[user_id, group].append(_Told(entry, {"until": (entry, None)}))


def _compare_owners(found: Found, streams: Iterable[Sequence[Entry]]) -> None:
    told: dict[tuple[str, str], list[_Told]] = {}
    for entries in streams:
        first = entries[0]
        told[first.tenant, first.payload["agent_id"]] = _follow_owner(entries)
    stored: dict[tuple[str, str], list[Row]] = defaultdict(list)
    columns = ("owner_before", "owner_after", "asked_by", "asked_at", "solo")
    ends = ("agreed_by", "agreed_at", "dropped_by", "dropped_at")
    for row in OwnerChange.objects.order_by("asked_at", "pk").values(
        "agent__tenant", "agent__agent_id", *columns, *ends
    ):
        stored[row["agent__tenant"], row["agent__agent_id"]].append(row)
    for (tenant, agent_id), rows in sorted(stored.items()):
        left = told.pop((tenant, agent_id), [])
        what = f"a change of owner of {agent_id}"
        _compare_each(found, left, rows, "asked_at", actors.agent(agent_id), what, tenant=tenant)
    for (_, agent_id), left in told.items():
        for one in left:
            found.missing(one.began, f"the row of a change of owner of {agent_id}")


def _follow_owner(entries: Sequence[Entry]) -> list[_Told]:
    """The changes of an agent's owner; one that waits is agreed to or dropped by the next entry."""
    changes: list[_Told] = []
    waiting: _Told | None = None
    for entry in entries:
        said = entry.payload
        if waiting is None or entry.kind == Kind.AGENT_OWNER_CHANGE_ASKED:
            waiting = _Told(entry)
            changes.append(waiting)
            waiting.columns = {
                "owner_before": (entry, said.get("owner_before")),
                "owner_after": (entry, said["owner_after"]),
                "asked_by": (entry, said.get("asked_by", entry.actor)),
                **dict.fromkeys(("agreed_by", "dropped_by"), (entry, "")),
                **dict.fromkeys(("agreed_at", "dropped_at"), (entry, None)),
                "solo": (entry, False),
            }
        if entry.kind == Kind.AGENT_OWNER_CHANGE_ASKED:
            continue
        end = "agreed" if entry.kind == Kind.AGENT_OWNER_CHANGED else "dropped"
        waiting.columns |= {f"{end}_by": (entry, entry.actor), f"{end}_at": (entry, entry.at)}
        waiting.columns["solo"] = (entry, said.get("solo", False))
        waiting = None
    return changes


def _compare_each(
    found: Found,
    told: Sequence[_Told],
    rows: Sequence[Row],
    began: str,
    stream: str,
    what: str,
    *,
    tenant: str = "",
) -> None:
    """Each row with the entries about the one that began then; those of no such moment in their order."""
    left = list(told)
    without: list[Row] = []
    for row in rows:
        same = next((one for one in left if row_checks.is_then(one.began.at, row[began])), None)
        if same is None:
            without.append(row)
            continue
        left.remove(same)
        _compare_columns(found, same, row, what)
    for one, row in zip(left, without, strict=False):
        found.same(one.began, f"{what}: {began}", one.began.at, row[began])
        _compare_columns(found, one, row, what)
    for one in left[len(without) :]:
        found.missing(one.began, f"the row of {what}")
    for _ in without[len(left) :]:
        found.without_entry(tenant, stream, what)


def _compare_columns(found: Found, told: _Told, row: Row, what: str) -> None:
    for name, (entry, value) in told.columns.items():
        stored = row[name]
        if isinstance(value, datetime) and row_checks.is_then(value, stored):
            continue
        found.same(entry, f"{what}: {name}", value, stored)
