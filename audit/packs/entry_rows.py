"""The rows that one entry commits to: whether they are stored, and are what the entry names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from audit import cells, chain
from audit.models import Payload
from audit.packs import sources


class Held(StrEnum):
    """What there is of the bytes behind a digest or a commitment."""

    STORED = "STORED"
    ERASED = "ERASED"
    ABSENT = "ABSENT"
    DIFFERENT = "DIFFERENT"
    ELSEWHERE = "ELSEWHERE"


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A field of a payload that names bytes, and what there is of them; `why` where there are none."""

    name: str
    value: str
    held: Held
    why: str = ""


def list_named(*, tenant: str, stream: str, kind: str, payload: Mapping[str, Any]) -> Sequence[NamedRow]:
    """Each digest and commitment of a payload, in its order.

    Digests of a flow's entries are compared with the rows of all apps, commitments with the payload store.
    Other digests are of rows that `verify_ledger` compares.
    """
    found = _objects(tenant, stream, list(sources.list_named(kind, payload)))
    committed = dict(sources.list_commitments(payload))
    rows = Payload.objects.filter(tenant=tenant, commitment__in=set(committed.values()))
    stored = {row.commitment: row.held for row in rows}
    named = []
    for name, value in payload.items():
        if not sources.is_digest(value):
            continue
        if name in committed:
            named.append(_commitment(name, value, stored.get(value)))
        elif value in found.bodies:
            named.append(NamedRow(name, value, Held.STORED))
        elif value in found.absent:
            why = found.absent[value]
            held = Held.DIFFERENT if why == sources.DIFFERENT else Held.ABSENT
            named.append(NamedRow(name, value, Held.ERASED if why == sources.ERASED else held, why))
        else:
            named.append(NamedRow(name, value, Held.ELSEWHERE))
    return named


def _objects(tenant: str, stream: str, wanted: Sequence[str]) -> sources.Objects:
    try:
        dfid = UUID(stream)
    except ValueError:
        return sources.Objects()
    return sources.collect(tenant=tenant, dfid=dfid, wanted=wanted) if wanted else sources.Objects()


def _commitment(name: str, value: str, row: tuple[Any, Any] | None) -> NamedRow:
    if row is None:
        return NamedRow(name, value, Held.ABSENT, sources.GONE)
    if row == (None, None):
        return NamedRow(name, value, Held.ERASED)
    salt, body = map(cells.bytes_of, row)
    is_same = salt is not None and body is not None and chain.commitment(salt, body) == value
    return NamedRow(name, value, Held.STORED if is_same else Held.DIFFERENT)
