"""The world at a version, and the versions themselves: read from rows that never change.

So a version reads the same at any time. Where retention has deleted rows that it may need, it is not read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from audit import canonical, statements
from runtime.contracts.ontology import OntologyDocument
from runtime.kernel import ontology
from runtime.state.models import Fact, FactVersion, WorldVersion
from runtime.state.queries.sight import Sight

# Of one answer.
MOST_FACTS: Final = 5_000
MOST_BYTES: Final = 4_194_304
MOST_VERSIONS: Final = 200
MOST_WRITTEN: Final = 100
_AT_ONCE: Final = 200
# The discipline of IAE whose work the write was: execution for what a receipt says, else the state itself.
_EXECUTION, _STATE = "IEE", "IAE"


class Missing(StrEnum):
    """Why a version of the world cannot be read."""

    UNKNOWN = "UNKNOWN"
    NOT_NUMBERED = "NOT_NUMBERED"
    NOT_KEPT = "NOT_KEPT"


@dataclass(frozen=True, kw_only=True)
class World:
    """The facts of one version, by path; `after` is the path after which to go on, None at the end."""

    version: int
    facts: Mapping[str, FactVersion]
    after: str | None

    def values(self) -> dict[str, Any]:
        """The values, by path."""
        return {path: canonical.decode(bytes(row.value)) for path, row in self.facts.items()}


@dataclass(frozen=True, kw_only=True)
class SeenVersion:
    """A version of the world as a caller may know it.

    `writer` is None where it wrote nothing that the caller may read; `written` are the versions of such
    facts.
    """

    version: int
    write_id: str
    writer: str | None
    at: datetime
    toolchain: str
    written: Mapping[str, int]

    @property
    def parent(self) -> int | None:
        """The version before; None for the first."""
        return self.version - 1 or None

    @property
    def discipline(self) -> str | None:
        """The discipline of IAE that wrote: `IEE` (execution) or `IAE` (state)."""
        if self.writer is None:
            return None
        return _EXECUTION if self.writer.startswith("intent:") else _STATE


@dataclass(frozen=True, kw_only=True)
class VersionPage:
    """Versions in order, and the number to go on from; None at the end."""

    versions: Sequence[SeenVersion]
    following: int | None


def last_version(tenant: str) -> int:
    """The last numbered version; 0 where no fact was ever written."""
    return _LAST.first(tenant=tenant) or 0


def last_numbered(*, tenant: str) -> QuerySet[WorldVersion, int | None]:
    """The same for a query; no row where no fact was ever written."""
    numbered = WorldVersion.objects.of(tenant).filter(version__isnull=False).order_by("-version")
    return numbered.values_list("version", flat=True)[:1]


_LAST: Final = statements.Read(last_numbered)


def version_at(*, tenant: str, at: datetime) -> int:
    """The last version that was written at a time or before; 0 where none was.

    By the times of the writes: of two that overlapped, the one that began later may have the lower number.
    """
    rows = WorldVersion.objects.of(tenant).filter(written_at__lte=at, version__isnull=False)
    return rows.order_by("-version").values_list("version", flat=True).first() or 0


def number_of_write(*, write_id: str) -> int | None:
    """The version that a write made; None while it is not numbered, or where there is none."""
    return WorldVersion.objects.filter(write_id=write_id).values_list("version", flat=True).first()


def versions_of_writer(*, tenant: str, writer: str) -> list[int | None]:
    """The versions that the writes of one writer made, which are few; None for one that is not numbered."""
    rows = WorldVersion.objects.of(tenant).filter(writer=writer)
    return list(rows.values_list("version", flat=True))


def is_of_write(*, tenant: str, path: str, version: int, write_id: str) -> bool:
    """Whether there is such a write, and it made this version of a fact, as far as that is still kept."""
    if not WorldVersion.objects.of(tenant).filter(write_id=write_id).exists():
        return False
    rows = FactVersion.objects.of(tenant).filter(path=path)
    found = rows.filter(Q(version=version) | Q(write_id=write_id)).values_list("version", "write_id")
    return all(row == (version, write_id) for row in found)


def find_version(*, tenant: str, named: str | None) -> int | Missing:
    """The number of a version by its number or the id of its write; the last one where none is named."""
    if named is None:
        return last_version(tenant)
    rows = WorldVersion.objects.of(tenant)
    if named.isdecimal():
        found = rows.filter(version=int(named))
        return int(named) if found.exists() else Missing.UNKNOWN
    row = rows.filter(write_id=named).first()
    if row is None:
        return Missing.UNKNOWN
    return Missing.NOT_NUMBERED if row.version is None else row.version


def read(
    *,
    sight: Sight,
    version: int,
    prefix: str = "",
    after: str = "",
    within: Sequence[str] | None = None,
    most: int = MOST_FACTS,
) -> World | Missing:
    """The facts that `sight` covers, as they were at a numbered version.

    `within` narrows them to paths, of which `most` + 1 are enough. One answer has at most `most` facts, and
    MOST_BYTES of values. NOT_KEPT where versions of one of the facts were deleted that it may have had then.
    """
    versions = FactVersion.objects.of(sight.tenant).filter(path=OuterRef("path"))
    then = versions.filter(world_version__lte=version).order_by("-world_version", "-version")
    rows = Fact.objects.of(sight.tenant).filter(sight.where(prefix), path__gt=after).order_by("path")
    if within is not None:
        rows = rows.filter(path__in=within)
    found = rows.annotate(
        then=Subquery(then.values("pk")[:1]),
        oldest=Subquery(versions.order_by("version").values("version")[:1]),
    ).values_list("path", "then", "oldest")[: most + 1]
    places = list(found)
    if any(then is None and (oldest or 0) > 1 for _, then, oldest in places):
        return Missing.NOT_KEPT
    # What is cut off here comes with the next page.
    following = places[most - 1][0] if len(places) > most else None
    pks = {path: then for path, then, _ in places[:most] if then is not None}
    facts, size = dict[str, FactVersion](), 0
    for chunk in _chunks(list(pks.items())):
        kept = FactVersion.objects.in_bulk([pk for _, pk in chunk])
        for path, pk in chunk:
            row = kept.get(pk)
            if row is None:  # deleted since the look above
                return Missing.NOT_KEPT
            if facts and size + len(bytes(row.value)) > MOST_BYTES:
                return World(version=version, facts=facts, after=next(reversed(facts)))
            facts[path] = row
            size += len(bytes(row.value))
    return World(version=version, facts=facts, after=following)


def list_tagged(
    *,
    sight: Sight,
    prefix: str,
    after: str,
    document: OntologyDocument,
    tags: Collection[str],
    most: int = MOST_FACTS,
) -> list[str]:
    """The next facts that `sight` covers and that are declared with all of these tags, `most` + 1 of them."""
    rows = Fact.objects.of(sight.tenant).filter(sight.where(prefix), path__gt=after).order_by("path")
    paths = rows.values_list("path", flat=True).iterator()
    return list(
        islice((path for path in paths if ontology.has_tags(document, path=path, tags=tags)), most + 1)
    )


def list_versions(
    *, sight: Sight, first: int, last: int | None, writer: str | None, most: int = MOST_VERSIONS
) -> VersionPage:
    """Versions from one number to another, in order; with `writer` only those that it wrote.

    A writer may be asked for only where the caller may know it.
    """
    rows = WorldVersion.objects.of(sight.tenant).filter(version__gte=first).order_by("version")
    if last is not None:
        rows = rows.filter(version__lte=last)
    if writer is not None:
        rows = rows.filter(writer=writer)
        if writer != sight.stream and "" not in sight.spaces:
            facts = FactVersion.objects.of(sight.tenant).filter(sight.where())
            rows = rows.filter(Exists(facts.filter(write_id=OuterRef("write_id"))))
    page = list(rows[: most + 1])
    written = {
        write_id: dict(islice(facts.items(), MOST_WRITTEN))
        for write_id, facts in list_written(sight, [row.write_id for row in page[:most]]).items()
    }
    versions = [
        SeenVersion(
            version=row.version or 0,
            write_id=row.write_id,
            writer=row.writer if row.write_id in written or _is_own(row, sight) else None,
            at=row.written_at,
            toolchain=row.toolchain,
            written=written.get(row.write_id, {}),
        )
        for row in page[:most]
    ]
    return VersionPage(
        versions=versions,
        following=page[most].version if len(page) > most else None,
    )


def list_written(sight: Sight, write_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """By write, the version of each fact in sight that it wrote; a write with none is left out."""
    rows = FactVersion.objects.of(sight.tenant).filter(sight.where(), write_id__in=write_ids)
    written = dict[str, dict[str, int]]()
    found = rows.order_by("path", "version").values_list("write_id", "path", "version")
    for write_id, path, version in found:
        written.setdefault(write_id, {})[path] = version
    return written


def _is_own(row: WorldVersion, sight: Sight) -> bool:
    return row.writer == sight.stream or "" in sight.spaces


def _chunks(items: Sequence[tuple[str, int]]) -> Sequence[Sequence[tuple[str, int]]]:
    return [items[at : at + _AT_ONCE] for at in range(0, len(items), _AT_ONCE)]
