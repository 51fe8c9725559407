"""The keys of payloads as the page shows them: how much is under each, and which entries tell of it.

Every number is read from an index and ends somewhere.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F

from audit.events import EVENTS, Kind
from audit.models import ClassKey, LedgerEntry, Payload
from audit.packs import sources
from audit.verification.verify import UNREADABLE
from runtime.maintenance.models import PayloadRound

# A count on the page ends here.
MOST_COUNTED = 10_000
# Of each class.
MOST_SHOWN = 50
# How many entries are read to find the flows of payloads, and how many of the flows are named.
MOST_READ = 20_000
MOST_NAMED = 10
_CHUNK = 2_000
_COMMITTING = [
    kind for kind, event in EVENTS.items() if any("_commitment" in name for name in event.model_fields)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An entry about a key, with its payload."""

    entry: LedgerEntry
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOfClass:
    """A key with the entries that tell of it, and how much is under it, `MOST_COUNTED` at most.

    `made` is None for the first key of a class, which begins with its first payload and has no entry.
    """

    row: ClassKey
    payloads: int
    round: PayloadRound | None
    made: Told | None
    retired: Told | None
    destroyed: Told | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Whose payloads they are: the number of flows, some of them, and how many belong to no flow.

    Not `is_whole` where more entries would have to be read to know all of them.
    """

    flows: int
    named: Sequence[UUID]
    of_no_flow: int
    is_whole: bool


def list_keys(*, tenant: str) -> Mapping[str, Sequence[KeyOfClass]]:
    """The keys by class: first the one in use, then the retired and the destroyed ones, newest first."""
    keys = ClassKey.objects.filter(tenant=tenant)
    newest = keys.order_by(
        F("destroyed_at").desc(nulls_first=True), F("retired_at").desc(nulls_first=True), "-created_at"
    )
    classes = keys.order_by("data_class").values_list("data_class", flat=True).distinct()
    rows = {data_class: list(newest.filter(data_class=data_class)[:MOST_SHOWN]) for data_class in classes}
    told = _told(tenant)
    rounds = {each.key_id: each for each in PayloadRound.objects.of(tenant)}
    return {
        data_class: [
            KeyOfClass(
                row=row,
                payloads=0 if row.destroyed_at else count_under(row.pk, tenant=tenant),
                round=rounds.get(row.pk),
                made=told["key_id"].get(str(row.pk)),
                retired=told["retired_key_id"].get(str(row.pk)),
                destroyed=told["destroyed"].get(str(row.pk)),
            )
            for row in of_class
        ]
        for data_class, of_class in rows.items()
    }


def get_key(key_id: UUID, *, tenant: str) -> ClassKey | None:
    """The key of this id."""
    return ClassKey.objects.filter(tenant=tenant, pk=key_id).first()


def count_under(key_id: UUID | None, *, tenant: str) -> int:
    """How many payloads are under a key, or in clear; `MOST_COUNTED` stands for that many or more."""
    rows = Payload.objects.filter(tenant=tenant, key=key_id, erased_at=None)
    return len(rows.order_by("pk").values_list("pk")[:MOST_COUNTED])


def find_round_in_clear(*, tenant: str) -> PayloadRound | None:
    """The round that encrypts what is in clear."""
    return PayloadRound.objects.of(tenant).filter(key=None).first()


def find_touched(key: ClassKey) -> Touched:
    """Whose payloads are under a key, by the newest `MOST_READ` entries that name payloads."""
    rows = Payload.objects.filter(key=key, erased_at=None)
    left = set(rows.order_by().values_list("commitment", flat=True))
    entries = LedgerEntry.objects.filter(tenant=key.tenant, kind__in=_COMMITTING).order_by("-id")
    flows, of_no_flow = dict[UUID, None](), 0
    last: int | None = None
    for _ in range(MOST_READ // _CHUNK):
        if not left:
            break
        chunk = list((entries if last is None else entries.filter(id__lt=last))[:_CHUNK])
        for entry in chunk:
            found = left.intersection(_named(entry))
            left -= found
            if found and (dfid := _flow_of(entry.stream)) is not None:
                flows[dfid] = None
            else:
                of_no_flow += len(found)
        if len(chunk) < _CHUNK:
            break
        last = chunk[-1].pk
    return Touched(flows=len(flows), named=list(flows)[:MOST_NAMED], of_no_flow=of_no_flow, is_whole=not left)


def _named(entry: LedgerEntry) -> Collection[str]:
    try:
        return [value for _, value in sources.list_commitments(entry.payload)]
    except UNREADABLE:
        return ()


def _flow_of(stream: str) -> UUID | None:
    try:
        return UUID(stream)
    except ValueError:
        return None


def _told(tenant: str) -> Mapping[str, Mapping[str, Told]]:
    """The entries about keys, by what they say of which key. Keys are few, and so are these."""
    found: dict[str, dict[str, Told]] = defaultdict(dict)
    kinds = [Kind.PAYLOAD_KEY_ROTATED, Kind.PAYLOAD_KEY_DESTROYED]
    for entry in LedgerEntry.objects.filter(tenant=tenant, kind__in=kinds).order_by("-id")[:1_000]:
        try:
            payload = entry.payload
        except UNREADABLE:
            continue
        told = Told(entry=entry, payload=payload)
        if entry.kind == Kind.PAYLOAD_KEY_DESTROYED:
            found["destroyed"][str(payload.get("key_id"))] = told
        else:
            for field in ("key_id", "retired_key_id"):
                found[field][str(payload.get(field))] = told
    return found
