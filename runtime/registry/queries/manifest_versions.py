"""Versions of manifests: their state, their predecessors, and what a draft is held against."""

from collections.abc import Collection, Sequence

from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentRole, AgentStatus, ManifestState
from runtime.core import ports
from runtime.kernel import manifest_lint
from runtime.registry.models import Agent, Manifest, PolicyKind
from runtime.registry.queries import granted_kinds, stored_documents, workflow_versions

MOST_VERSIONS = 1000


def state_of(row: Manifest, *, active_id: int | None) -> ManifestState:
    """The status of a version; `active_id` is the primary key of the agent's active manifest."""
    if row.pk == active_id:
        return ManifestState.ACTIVE
    if row.discarded_at is not None:
        return ManifestState.DISCARDED
    return ManifestState.DRAFT if row.activated_at is None else ManifestState.SUPERSEDED


def get_version(*, agent: Agent, version: str) -> Manifest | None:
    """One version of an agent's manifest, or None."""
    if "\x00" in version:
        return None
    return Manifest.objects.filter(agent=agent, version=version).first()


def list_names(*, agent: Agent) -> list[str]:
    """Every version number that is taken, of drafts and discarded ones too."""
    return list(Manifest.objects.filter(agent=agent).values_list("version", flat=True))


def contract_of(row: Manifest) -> ManifestDocument:
    """The stored document."""
    return stored_documents.manifest_of(bytes(row.body))


def list_predecessors(*, agent: Agent, rows: Sequence[Manifest]) -> dict[int, Manifest | None]:
    """By primary key, the version that was active before each; of a draft, the one active now.

    Of a discarded one, the one that was active when it was written.
    """
    activated = Manifest.objects.filter(agent=agent, activated_at__isnull=False)
    history = list(activated.order_by("activated_at", "pk")[:MOST_VERSIONS])
    before = {row.pk: history[at - 1] if at else None for at, row in enumerate(history)}
    made: dict[int, Manifest | None] = {}
    for row in rows:
        if row.pk in before:
            made[row.pk] = before[row.pk]
        elif row.discarded_at is None:
            made[row.pk] = agent.active_manifest
        else:
            then = [old for old in history if old.activated_at and old.activated_at <= row.created_at]
            made[row.pk] = then[-1] if then else None
    return made


def registry_for(*, agent: Agent, draft: ManifestDocument, besides: str = "") -> manifest_lint.Registry:
    """What a draft of this agent is held against; `besides` is a version not to count as an earlier one."""
    kinds = _known_kinds(agent.tenant, draft.policy_kinds)
    others = Agent.objects.of(agent.tenant).filter(agent_id__in=draft.may_delegate_to)
    return manifest_lint.Registry(
        role=AgentRole(agent.role),
        kinds={name: granted_kinds.contract_of(row) for name, row in kinds.items()},
        inactive={name for name, row in kinds.items() if not row.active},
        agents=set(others.exclude(status=AgentStatus.RETIRED).values_list("agent_id", flat=True)),
        workflows=workflow_versions.list_names(tenant=agent.tenant),
        facts=ports.list_existing_facts(tenant=agent.tenant, selectors=draft.subscribes),
        earlier_versions=[name for name in list_names(agent=agent) if name != besides],
    )


def list_known_kinds(*, tenant: str, names: Collection[str]) -> dict[str, KindDocument]:
    """Of each named kind the active version, or the newest."""
    return {name: granted_kinds.contract_of(row) for name, row in _known_kinds(tenant, names).items()}


def list_monitors_of(*, tenant: str, kind: str) -> frozenset[str]:
    """The MONITORs whose active manifest grants a kind."""
    rows = Agent.objects.of(tenant).filter(role=AgentRole.MONITOR, active_manifest__isnull=False)
    return frozenset(
        agent.agent_id
        for agent in rows.select_related("active_manifest")
        if agent.active_manifest is not None and kind in contract_of(agent.active_manifest).policy_kinds
    )


def _known_kinds(tenant: str, names: Collection[str]) -> dict[str, PolicyKind]:
    kinds: dict[str, PolicyKind] = {}
    for row in PolicyKind.objects.of(tenant).filter(kind__in=names).order_by("kind", "-active", "-id"):
        kinds.setdefault(row.kind, row)
    return kinds
