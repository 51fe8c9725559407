"""The facts that one agent may see, and single facts with their versions."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet, Subquery

from audit import canonical, statements
from runtime.contracts import timestamps
from runtime.contracts.context import SeenFact
from runtime.kernel.rules import evaluate
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.queries import granted_kinds
from runtime.state.models import Fact, FactVersion, Version, WorldVersion


def selectors(*, agent: Agent, kinds: Iterable[PolicyKind]) -> tuple[str, ...]:
    """Exact paths and namespaces (`price.`) that the agent needs to know; `kinds` are those granted to it.

    Those its manifest subscribes to; without any, those that its granted kinds depend on.
    """
    manifest = granted_kinds.manifest_of(agent)
    if manifest is not None and manifest.subscribes:
        return manifest.subscribes
    found = {path for row in kinds for path in evaluate.static_prefixes(granted_kinds.contract_of(row))}
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """Current values and their versions, by path, and the last numbered version of the world beside them.

    The current version of a fact may be newer than that. None: no fact was read, or none is numbered yet.
    """

    values: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    world_version: int | None = None

    def under(self, selected: Collection[str]) -> "LiveFacts":
        """Those of them that `read_live` finds under some of the selectors that these were read by."""
        namespaces = tuple(filter(_is_namespace, selected))
        values = {
            path: value
            for path, value in self.values.items()
            if path in selected or path.startswith(namespaces)
        }
        return LiveFacts(
            values=values,
            versions={path: self.versions[path] for path in values},
            world_version=self.world_version if values else None,
        )

    def as_seen(self) -> Iterator[SeenFact]:
        """The same as an agent sees them."""
        for path, value in self.values.items():
            yield SeenFact(path=path, version=self.versions[path], value=value)


def read_live(*, tenant: str, selected: Collection[str]) -> LiveFacts:
    """Exact paths, and all in some namespaces (`price.`; the empty one: every fact), in one statement."""
    namespaces = frozenset(filter(_is_namespace, selected))
    paths = sorted(namespaces.symmetric_difference(selected))
    rows = _VALUES.rows(tuple(sorted(namespaces)), tenant=tenant, paths=paths)
    return LiveFacts(
        values={path: canonical.decode(bytes(value)) for path, value, _, _ in rows},
        versions={path: version for path, _, version, _ in rows},
        world_version=rows[0][3] if rows else None,
    )


def get_fact(*, tenant: str, path: str, at_version: int | None) -> Fact | FactVersion | None:
    """The current version of a fact, or the named one; None where there is none."""
    if at_version is None:
        return Fact.objects.of(tenant).filter(path=path).first()
    return FactVersion.objects.of(tenant).filter(path=path, version=at_version).first()


def list_versions(*, tenant: str, values: Mapping[str, Any], at_ms: int) -> dict[str, Version]:
    """The version of each fact that held the given value at `at_ms` (Unix milliseconds), by path.

    The values were read earlier than this, and feeds write in between: the current version may hold another
    value, or the same one again from a later time. A fact that never held its value is left out.
    """
    digests = {path: canonical.digest(canonical.encode(value)) for path, value in values.items()}
    found: dict[str, Version] = {}
    for row in Fact.objects.of(tenant).filter(path__in=list(values)):
        digest = digests[row.path]
        if row.digest == digest and timestamps.to_ms(row.written_at) <= at_ms:
            found[row.path] = row
            continue
        # The newest version with this digest that was there at `at_ms`, else the newest with it, since a
        # version may come between the time of a judgement and its reads. Searched from the newest back, so
        # that it costs what was written since, and not what was ever written.
        rows = FactVersion.objects.of(row.tenant).filter(path=row.path, digest=digest).order_by("-version")
        earlier = rows.filter(written_at__lt=timestamps.from_ms(at_ms) + timedelta(milliseconds=1))
        version = earlier.first() or rows.first()
        if version is not None:
            found[row.path] = version
    return found


def list_named(*, tenant: str, versions: Mapping[str, int]) -> dict[str, FactVersion]:
    """The named version of each fact, by path; one that is not there is left out."""
    wanted = Q()
    for path, version in versions.items():
        wanted |= Q(path=path, version=version)
    rows = FactVersion.objects.of(tenant).filter(wanted) if versions else ()
    return {row.path: row for row in rows}


def list_with_next(*, tenant: str, versions: Mapping[str, int]) -> list[FactVersion]:
    """The named version of each fact and the one after it, as far as they are there."""
    if not versions:
        return []
    paths, after = list(versions), [version + 1 for version in versions.values()]
    return _WITH_NEXT.rows(tenant=tenant, paths=paths, versions=list(versions.values()), after=after)


def list_current(*, tenant: str, paths: Collection[str]) -> dict[str, Fact]:
    """The current version of each fact, by path."""
    return {row.path: row for row in Fact.objects.of(tenant).filter(path__in=paths)}


def _is_namespace(selector: str) -> bool:
    return not selector or selector.endswith(".")


def _values(
    namespaces: tuple[str, ...], *, tenant: str, paths: list[str]
) -> QuerySet[Fact, tuple[str, bytes | memoryview, int, int | None]]:
    wanted = Q(path__in=paths)
    for namespace in namespaces:
        wanted |= Q(path__startswith=namespace)
    numbered = WorldVersion.objects.of(tenant).filter(version__isnull=False).order_by("-version")
    # Not correlated: the database works it out once.
    last = Subquery(numbered.values("version")[:1])
    return Fact.objects.of(tenant).filter(wanted).values_list("path", "value", "version", last)


def _with_next(
    *, tenant: str, paths: list[str], versions: list[int], after: list[int]
) -> QuerySet[FactVersion]:
    wanted = Q()
    for path, *numbers in zip(paths, versions, after, strict=True):
        wanted |= Q(path=path, version__in=numbers)
    return FactVersion.objects.of(tenant).filter(wanted)


_VALUES: Final = statements.Read(_values)
_WITH_NEXT: Final = statements.Read(_with_next)


def list_existing(*, tenant: str, selectors: Collection[str]) -> frozenset[str]:
    """Of paths, and of namespaces (with a dot at the end), those that a fact exists for."""
    rows = Fact.objects.of(tenant)
    spaces = {item for item in selectors if item.endswith(".")}
    exact = rows.filter(path__in=set(selectors) - spaces).values_list("path", flat=True)
    return frozenset(exact) | {space for space in spaces if rows.filter(path__startswith=space).exists()}
