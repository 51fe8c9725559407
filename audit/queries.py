"""Reads of the ledger: entries by their kinds, and texts by their commitments."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from audit import canonical
from audit.events import Kind
from audit.models import LedgerEntry, Payload


def list_payloads(*, tenant: str, stream: str, kinds: Collection[Kind]) -> list[tuple[Kind, dict[str, Any]]]:
    """Kind and payload of the entries of these kinds in one stream, oldest first.

    For comparisons with rows: an entry that cannot be read proves nothing, so it is left out.
    """
    rows = LedgerEntry.objects.filter(tenant=tenant, stream=stream, kind__in=list(kinds))
    return readable(rows.order_by("seq"))


def list_payloads_of(
    *, tenant: str, streams: Mapping[str, Collection[Kind]]
) -> list[tuple[Kind, dict[str, Any]]]:
    """The same for several streams with their own kinds, in one query; oldest first."""
    wanted = Q(pk__in=())
    for stream, kinds in streams.items():
        wanted |= Q(tenant=tenant, stream=stream, kind__in=list(kinds))
    return readable(LedgerEntry.objects.filter(wanted).order_by("id"))


def readable(rows: QuerySet[LedgerEntry]) -> list[tuple[Kind, dict[str, Any]]]:
    """Kind and payload of the entries whose bytes can be read."""
    found: list[tuple[Kind, dict[str, Any]]] = []
    for kind, body in rows.values_list("kind", "body"):
        try:
            payload = canonical.decode(bytes(body))["payload"]
        except (canonical.CanonicalError, KeyError, TypeError):
            continue
        if isinstance(payload, dict):
            found.append((Kind(kind), payload))
    return found


def list_texts(*, tenant: str, commitments: Collection[str]) -> dict[str, str]:
    """The texts behind commitments; one that is unknown here, was erased or is no text is left out."""
    rows = Payload.objects.filter(tenant=tenant, commitment__in=list(commitments), body__isnull=False)
    found: dict[str, str] = {}
    for commitment, body in rows.values_list("commitment", "body"):
        try:
            text = canonical.decode(bytes(body or b""))
        except ValueError:
            continue
        if isinstance(text, str):
            found[commitment] = text
    return found
