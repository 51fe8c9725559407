"""Who reads a fact: computed from manifests and policy kinds, since no read leaves a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentStatus
from runtime.kernel.rules import evaluate, templates
from runtime.kernel.rules.language import ExpressionError
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.queries import granted_kinds, recorded_versions
from runtime.state.models import FactVersion
from runtime.state.queries import visible_facts

# Of each list.
MOST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An agent or a policy kind that reads a fact, and by which path or namespace it names it."""

    name: str
    version: str
    selector: str


def list_whole_kinds(*, tenant: str) -> list[PolicyKind]:
    """The active kinds by name, without those that are not what was activated: nothing evaluates them."""
    rows = PolicyKind.objects.of(tenant).filter(active=True).order_by("kind")
    return [row for row in rows if recorded_versions.compare_kind(row) is None]


def list_agents(whole: Sequence[PolicyKind], *, tenant: str, path: str) -> list[Reader]:
    """The agents whose contexts show the fact, by name; `whole` are those of `list_whole_kinds`."""
    agents = Agent.objects.of(tenant).exclude(active_manifest=None).exclude(status=AgentStatus.RETIRED)
    kinds = {row.kind: row for row in whole}
    found = list[Reader]()
    for agent in agents.select_related("active_manifest").order_by("agent_id").iterator():
        manifest = granted_kinds.manifest_of(agent)
        if manifest is None:
            continue
        granted = [kinds[name] for name in manifest.policy_kinds if name in kinds]
        for selector in visible_facts.selectors(agent=agent, kinds=granted):
            if templates.selects(selector, path):
                found.append(Reader(name=agent.agent_id, version=manifest.version, selector=selector))
                break
        if len(found) == MOST:
            break
    return found


def list_kinds(whole: Sequence[PolicyKind], *, path: str) -> list[Reader]:
    """The active policy kinds that depend on the fact or require it, by name."""
    found = list[Reader]()
    for row in whole:
        contract = granted_kinds.contract_of(row)
        named = next((name for name in _selectors(contract) if templates.selects(name, path)), None)
        if named is not None and len(found) < MOST:
            found.append(Reader(name=row.kind, version=row.version, selector=named))
    return found


def list_history(*, tenant: str, path: str, before: int | None, most: int) -> list[FactVersion]:
    """The versions of a fact that are kept, the newest first, one more than `most`."""
    rows = FactVersion.objects.of(tenant).filter(path=path).order_by("-version")
    return list((rows if before is None else rows.filter(version__lt=before))[: most + 1])


def _selectors(kind: KindDocument) -> Iterator[str]:
    yield from evaluate.static_prefixes(kind)
    for need in kind.needs:
        if need.fact is not None:
            try:
                yield templates.static_selector(need.fact)
            except ExpressionError:
                continue
