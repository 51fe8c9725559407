"""What the ledger says of erased flows: who erased the words, when, why, and what stays checkable."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from audit import canonical
from audit.events import Kind
from audit.models import LedgerEntry

SIGNED_PREFIX: Final = b"dir-console erased statement 1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The last erasure of a flow's words. Entries with a number below `seq` name what is gone.

    `statements` are the attested digests of signed statements, each with signature and key id;
    `salted` are digests whose bytes had a salt.
    """

    seq: int
    at: datetime
    actor: str
    reason: str
    cells: int = 0
    payloads: int = 0
    guessable: int = 0
    statements: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    salted: frozenset[str] = frozenset()


def signed_bytes(statement_digest: str) -> bytes:
    """What is signed instead of a statement that is erased: it says that its own signature was valid."""
    return SIGNED_PREFIX + statement_digest.encode()


def of_entry(
    earlier: Erasure | None, *, seq: int, at: datetime, actor: str, payload: Mapping[str, Any]
) -> Erasure:
    """The erasure that an entry tells of; `earlier` is the one before it in its stream."""
    attested = {
        item["statement_digest"]: (item["signature"], item["key_id"])
        for item in payload.get("statements") or ()
    }
    return Erasure(
        seq=seq,
        at=at,
        actor=actor,
        reason=payload["reason"],
        cells=sum(payload["counts"].values()),
        payloads=payload["payloads"],
        guessable=payload["guessable"],
        statements={**(earlier.statements if earlier else {}), **attested},
        salted=(earlier.salted if earlier else frozenset()) | set(payload.get("salted_digests") or ()),
    )


def find(*, tenant: str, dfid: object) -> Erasure | None:
    """The last erasure of one flow; None where its words were never erased."""
    return find_all(tenant=tenant, streams=[str(dfid)]).get(str(dfid))


def find_all(*, tenant: str, streams: Collection[str]) -> dict[str, Erasure]:
    """The last erasures of these flows, by stream."""
    rows = LedgerEntry.objects.filter(tenant=tenant, stream__in=list(streams), kind=Kind.FLOW_ERASED)
    return _read(rows.order_by("stream", "seq").values_list("body", flat=True))


def _read(bodies: Iterable[Any]) -> dict[str, Erasure]:
    found: dict[str, Erasure] = {}
    for body in bodies:
        try:
            said = canonical.decode(bytes(body))
            stream = said["stream"]
            found[stream] = of_entry(
                found.get(stream),
                seq=said["seq"],
                at=datetime.fromisoformat(said["at"]),
                actor=said["actor"],
                payload=said["payload"],
            )
        except (canonical.CanonicalError, KeyError, TypeError, ValueError, AttributeError):
            continue  # an entry that cannot be read erases nothing
    return found
