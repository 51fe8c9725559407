"""Who wrote versions of facts, and when, as their entries say (`settings.DIR_FACT_WRITES`)."""

from collections.abc import Collection, Iterator
from typing import Final

from django.db.models import Q

from audit import canonical, chain
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification.verify import UNREADABLE
from runtime.state.models import FactVersion

# A path and the number of a version; who wrote it, and when.
Named = tuple[str, int]
Write = tuple[str, str]
# SQLite takes expressions of at most a thousand parts.
AT_ONCE: Final = 200


def list_recorded(tenant: str, versions: Collection[Named]) -> dict[Named, Write]:
    """The writer and the time of these versions; none of one that is gone or that no entry records so.

    A row only says where to look: what is given is what an entry says of the same path, version, digest and
    writer. An intent writes in the stream of its flow, so the stream says nothing.
    """
    found: dict[Named, Write] = {}
    wanted = sorted(versions)
    for start in range(0, len(wanted), AT_ONCE):
        found |= dict(_recorded(tenant, wanted[start : start + AT_ONCE]))
    return found


def _recorded(tenant: str, versions: Collection[Named]) -> Iterator[tuple[Named, Write]]:
    asked = Q(pk__in=())
    for path, version in versions:
        asked |= Q(path=path, version=version)
    columns = ("path", "version", "digest", "writer", "written_at")
    rows = list(FactVersion.objects.of(tenant).filter(asked).values_list(*columns))
    held = {(path, version): (digest, writer) for path, version, digest, writer, _ in rows}
    # By the time, of which there is an index: a feed may have written a million versions.
    times = {row[-1] for row in rows}
    entries = LedgerEntry.objects.filter(tenant=tenant, kind=Kind.FACT_WRITTEN, at__in=times)
    for entry in entries.order_by():
        try:
            body = bytes(entry.body)
            is_whole = chain.entry_hash(bytes(entry.prev_hash), body) == bytes(entry.hash)
            said = canonical.decode(body)
            payload = said["payload"]
            named = (payload["path"], payload["version"])
            recorded = (payload["digest"], payload["writer"])
        except UNREADABLE:
            continue
        if is_whole and held.get(named) == recorded:
            yield named, (str(payload["writer"]), str(said["at"]))
