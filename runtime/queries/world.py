"""The world as one agent may see it, and single facts with their versions."""

from collections.abc import Iterable

from django.db.models import Q

from audit import canonical
from runtime.contracts.context import SeenFact
from runtime.kernel.rules import evaluate
from runtime.models import Agent, Fact, FactVersion, PolicyKind
from runtime.queries import schemas


def selectors(*, agent: Agent, kinds: Iterable[PolicyKind]) -> tuple[str, ...]:
    """Exact paths and namespaces (`price.`) that the agent needs to know; `kinds` are those granted to it.

    Those its manifest subscribes to; without any, those that its granted kinds depend on.
    """
    manifest = schemas.manifest_of(agent)
    if manifest is not None and manifest.subscribes:
        return manifest.subscribes
    found = {path for row in kinds for path in evaluate.static_prefixes(schemas.contract_of(row))}
    return tuple(sorted(found))


def list_facts(*, tenant: str, selected: tuple[str, ...]) -> tuple[SeenFact, ...]:
    """The current facts under the selectors, by path."""
    if not selected:
        return ()
    wanted = Q()
    for selector in selected:
        wanted |= Q(path__startswith=selector) if selector.endswith(".") else Q(path=selector)
    rows = Fact.objects.of(tenant).filter(wanted).order_by("path").values_list("path", "version", "value")
    return tuple(
        SeenFact(path=path, version=version, value=canonical.decode(bytes(value)))
        for path, version, value in rows
    )


def get_fact(*, tenant: str, path: str, at_version: int | None) -> Fact | FactVersion | None:
    """The current version of a fact, or the named one; None where there is none."""
    if at_version is None:
        return Fact.objects.of(tenant).filter(path=path).first()
    return FactVersion.objects.of(tenant).filter(path=path, version=at_version).first()
