"""Loading packs: the file is checked whole, then its rows and entries are written in one transaction.

Kinds and manifests are immutable under their version; loading the same bytes again changes nothing.
Facts that exist, and an agent's status and budget, are never touched: they have changed since.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import connection

from audit import actors, canonical, events, ledger
from runtime.contracts.document import Contract
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.ontology import OntologyDocument
from runtime.contracts.pack import PackAgent
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.states import AgentRole
from runtime.contracts.workflow import WorkflowDocument
from runtime.core import clock, transactions
from runtime.guards.services import guard_config
from runtime.kernel import ontology as ontology_rules
from runtime.kernel.rulesets.linter import RulesetFinding
from runtime.kernel.workflows.linter import LintFinding
from runtime.registry.models import Agent, Manifest, Pack, PolicyKind, Ruleset, Workflow
from runtime.registry.models.ontologies import Ontology
from runtime.registry.queries import (
    kind_versions,
    manifest_versions,
    ontology_versions,
    ruleset_versions,
    target_endpoints,
    workflow_versions,
)
from runtime.registry.services import (
    document_checks,
    document_reading,
    groups,
    kinds,
    manifests,
    ontologies,
    registration,
    ruleset_checks,
    rulesets,
    targets,
)
from runtime.registry.services.document_reading import DocumentProblem, Read
from runtime.registry.services.versioned_documents import Document, Row, VersionedDocument
from runtime.resources.models import Resource
from runtime.resources.services import resources
from runtime.state.models import Fact
from runtime.state.services.world_writes import WorldWrite


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a load did. `warnings` are sentences for the person who loads; `changed` is False for a repeat."""

    pack: str
    version: str
    changed: bool
    registered: tuple[str, ...] = ()
    activated: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PackRefused:
    """Nothing was loaded: everything that is wrong, each with file, line and field."""

    problems: tuple[str, ...]


@dataclass(kw_only=True)
class _Loading:
    """One load inside its transaction; entries are written last, stream by stream in the order of names."""

    read: Read
    tenant: str
    actor: str
    at: datetime
    registered: list[str] = field(default_factory=list)
    activated: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    entries: dict[str, list[events.Event]] = field(default_factory=lambda: defaultdict(list))

    def write_entries(self) -> None:
        for stream in sorted(self.entries):
            ledger.append_to(
                tenant=self.tenant, stream=stream, actor=self.actor, at=self.at, events=self.entries[stream]
            )


def load(
    *, text: str, source: str, activate: bool, actor: str, tenant: str | None = None
) -> Loaded | PackRefused:
    """Load a pack file's `text`; `source` is the name that problems are reported under.

    With `activate`, its kinds and manifests become active, except those that were active before and
    were superseded: a repeated load must not undo what a person has activated since.

    Raises:
        transactions.BusyError: after three lost races; nothing was loaded.
    """
    read = document_reading.read(text=text, name=source)
    if not isinstance(read, Read):
        return PackRefused(problems=read)
    of_tenant = tenant or settings.DIR_TENANT
    linted = tuple(document_checks.lint(kind) for kind in read.pack.policy_kinds)
    return transactions.retry_on_conflict(
        lambda: _load(read, linted, activate=activate, actor=actor, tenant=of_tenant)
    )


@dataclass(frozen=True, kw_only=True)
class LintMessage:
    """One finding of `lint`: a code, `error`, `warning` or `info`, where in the file, and a sentence."""

    code: str
    severity: str
    where: str
    message: str


# The code of what no linter of workflows or rulesets found, and a load would refuse.
REFUSED = "PACK_REFUSED"


def lint(*, text: str, source: str, tenant: str | None = None) -> tuple[LintMessage, ...]:
    """What `load` would refuse of a pack, and what linters say of its parts. Writes nothing."""
    read = document_reading.read(text=text, name=source)
    if not isinstance(read, Read):
        return tuple(_refused(words) for words in read)
    of_tenant = tenant or settings.DIR_TENANT
    linted = tuple(document_checks.lint(kind) for kind in read.pack.policy_kinds)
    found: list[tuple[DocumentProblem, LintFinding | RulesetFinding]]
    found = [*document_checks.lint_workflows(read.pack), *ruleset_checks.lint(read.pack)]
    places = {problem.place for problem, _ in found}
    refused: tuple[DocumentProblem, ...]
    if Pack._meta.db_table in connection.introspection.table_names():
        refused = tuple(_refusals(read, linted, of_tenant, activate=True))
    else:
        # Whoever writes a pack need not have an installation: then nothing is registered.
        refused = tuple(
            document_checks.problems(read.pack, targets={}, kinds=(), linted=linted, workflows=())
        )
    return (
        *(
            LintMessage(
                code=finding.code,
                severity=finding.severity,
                where=f"{source}:{read.source.line(problem)} {document_reading.written(problem.place)}",
                message=problem.message,
            )
            for problem, finding in found
        ),
        *(_refused(read.source.words(problem)) for problem in refused if problem.place not in places),
    )


def _refused(words: str) -> LintMessage:
    where, _, message = words.partition(": ")
    return LintMessage(code=REFUSED, severity="error", where=where, message=message)


def _load(
    read: Read, linted: tuple[document_checks.Linted, ...], *, activate: bool, actor: str, tenant: str
) -> Loaded | PackRefused:
    problems = tuple(_refusals(read, linted, tenant, activate=activate))
    if problems:
        return PackRefused(problems=tuple(read.source.words(problem) for problem in problems))
    loading = _Loading(read=read, tenant=tenant, actor=actor, at=clock.now())
    for name, target in sorted(read.pack.targets.items()):
        if added := targets.store(tenant=tenant, name=name, given=target, at=loading.at):
            loading.entries[actors.SYSTEM] += added
    _store_facts(loading)
    _store_resources(loading)
    for guard in sorted(read.pack.guards, key=lambda one: one.id):
        if added := guard_config.configure(tenant=tenant, given=guard, at=loading.at):
            loading.entries[actors.SYSTEM] += added
    ontology_row = _store_ontology(loading)
    ruleset_rows = [_store_ruleset(loading, given) for given in read.pack.rulesets]
    _store_workflows(loading)
    kind_rows = [_store_kind(loading, kind) for kind in read.pack.policy_kinds]
    agents = [
        _store_agent(loading, agent) for agent in sorted(read.pack.agents, key=lambda one: one.agent_id)
    ]
    loading.warnings.extend(document_checks.not_enforced(read.pack))
    loading.warnings.extend(ruleset_checks.warnings(read.pack))
    if activate:
        loading.warnings.extend(document_checks.warnings(read.pack))
        if ontology_row is not None:
            held_as = ontologies.VersionedOntology(tenant)
            _activate(loading, held_as, ontology_row, name=str(ontology_row))
        for held in ruleset_rows:
            _activate(loading, rulesets.VersionedRuleset(tenant, held.ruleset), held, name=str(held))
        for row in kind_rows:
            _activate(loading, kinds.VersionedKind(tenant, row.kind), row, name=f"{row.kind} {row.version}")
        for agent, manifest in agents:
            name = f"manifest {agent.agent_id} {manifest.version}"
            _activate(loading, manifests.AgentManifest(agent), manifest, name=name)
    name, version, digest = read.pack.pack, read.pack.version, read.digest
    identity = {"tenant": tenant, "name": name, "version": version, "digest": digest}
    if not Pack.objects.filter(**identity).exists():
        Pack.objects.create(**identity, loaded_at=loading.at, loaded_by=actor)
        loading.entries[actors.SYSTEM].append(events.PackLoaded(pack=name, version=version, digest=digest))
    loading.write_entries()
    return Loaded(
        pack=name,
        version=version,
        changed=bool(loading.entries),
        registered=tuple(loading.registered),
        activated=tuple(loading.activated),
        warnings=tuple(loading.warnings),
    )


def _refusals(
    read: Read, linted: tuple[document_checks.Linted, ...], tenant: str, *, activate: bool
) -> Iterator[DocumentProblem]:
    """What is wrong with the pack's documents, beside what is registered already."""
    yield from _problems(read, linted, tenant, activate=activate)
    yield from _changed_versions(read, tenant)
    yield from _in_use(read, tenant)


def _problems(
    read: Read, linted: tuple[document_checks.Linted, ...], tenant: str, *, activate: bool
) -> Iterator[DocumentProblem]:
    targets = target_endpoints.list_honouring(tenant=tenant)
    known = set(PolicyKind.objects.of(tenant).values_list("kind", flat=True))
    yield from document_checks.problems(
        read.pack,
        targets=targets,
        kinds=known,
        linted=linted,
        workflows=workflow_versions.list_names(tenant=tenant),
        servers=target_endpoints.list_servers(tenant=tenant),
        commands=settings.DIR_TOOL_COMMANDS,
    )
    brought = [kind.kind for kind in read.pack.policy_kinds] if activate else []
    for row in PolicyKind.objects.of(tenant).filter(active=True).exclude(kind__in=brought).order_by("kind"):
        yield from document_checks.target_problems(read.pack, kind=kind_versions.contract_of(row))
    yield from ruleset_checks.problems(read.pack, tenant=tenant)
    if read.pack.ontology is not None:
        yield from _ontology_problems(read, read.pack.ontology)
    # What roles do not allow, whether the pack brings the agent, the kind or both.
    held = dict(Agent.objects.of(tenant).values_list("agent_id", "role"))
    granted = {name for agent in read.pack.agents for name in agent.manifest.policy_kinds}
    yield from document_checks.role_problems(
        read.pack,
        roles_of={name: AgentRole(role) for name, role in held.items()},
        kinds=manifest_versions.list_known_kinds(tenant=tenant, names=granted),
    )
    for at, kind in enumerate(read.pack.policy_kinds):
        monitors = manifest_versions.list_monitors_of(tenant=tenant, kind=kind.kind)
        for problem in document_checks.monitor_problems(kind, monitors):
            yield DocumentProblem(("policy_kinds", at, *problem.place), problem.message)


def _ontology_problems(read: Read, given: OntologyDocument) -> Iterator[DocumentProblem]:
    """What is wrong with the ontology of the pack, and first facts that do not fit it."""
    wrong = [
        DocumentProblem(("ontology", *problem.place), problem.message)
        for problem in ontologies.problems(given)
    ]
    yield from wrong
    if wrong:
        return
    for namespace, members in sorted(read.pack.facts.items()):
        for name, value in sorted(members.items()):
            said = ontology_rules.why_unfit(given, path=f"{namespace}.{name}", value=value)
            if said is not None:
                yield DocumentProblem(("facts", namespace, name), said)


def _changed_versions(read: Read, tenant: str) -> Iterator[DocumentProblem]:
    """Kinds and manifests whose version is registered with other content."""
    stored = {(row.kind, row.version): row for row in PolicyKind.objects.of(tenant)}
    for at, kind in enumerate(read.pack.policy_kinds):
        row = stored.get((kind.kind, kind.version))
        if row is not None and not _is_same(kind, KindDocument.from_bytes(bytes(row.body))):
            said = (
                f"{kind.kind} {kind.version} is registered with other content; give the change a new version"
            )
            yield DocumentProblem(("policy_kinds", at, "version"), said)
    declared = read.pack.ontology
    if declared is not None:
        stored_as = ontology_versions.get_version(tenant=tenant, version=declared.schema_version)
        if stored_as is not None and not _is_same(declared, ontology_versions.contract_of(stored_as)):
            said = (
                f"the ontology {declared.schema_version} is registered with other content; "
                "give the change a new version"
            )
            yield DocumentProblem(("ontology", "schema_version"), said)
    for at, given in enumerate(read.pack.rulesets):
        found = ruleset_versions.get_version(tenant=tenant, ruleset=given.ruleset, version=given.version)
        if found is not None and not _is_same(given, RulesetDocument.from_bytes(bytes(found.body))):
            said = f"{given.name} is registered with other content; give the change a new version"
            yield DocumentProblem(("rulesets", at, "version"), said)
    workflows = {(row.workflow, row.version): row for row in Workflow.objects.of(tenant)}
    for at, workflow in enumerate(read.pack.workflows):
        known = workflows.get((workflow.workflow, workflow.version))
        if known is not None and not _is_same(workflow, WorkflowDocument.from_bytes(bytes(known.body))):
            said = f"{workflow.workflow} {workflow.version} is registered with other content; "
            yield DocumentProblem(("workflows", at, "version"), said + "give the change a new version")
    versions = {
        (row.agent.agent_id, row.version): row
        for row in Manifest.objects.filter(agent__tenant=tenant).select_related("agent")
    }
    for at, agent in enumerate(read.pack.agents):
        version = agent.manifest.version
        held = versions.get((agent.agent_id, version))
        if held is not None and not _is_same(agent.manifest, ManifestDocument.from_bytes(bytes(held.body))):
            said = f"manifest {version} is registered with other content; give the change a new version"
            yield DocumentProblem(("agents", at, "manifest", "version"), said)


def _in_use(read: Read, tenant: str) -> Iterator[DocumentProblem]:
    """Resources of which more is in use than the pack would leave."""
    rows = {row.name: row for row in Resource.objects.of(tenant)}
    for at, resource in enumerate(read.pack.resources):
        row = rows.get(resource.name)
        if row is not None and resource.capacity < row.reserved + row.committed:
            yield DocumentProblem(("resources", at, "capacity"), resources.in_use_words(row))


def _is_same(new: Contract, stored: Contract) -> bool:
    # The stored document is read first: a field appended since gets its default on both sides.
    return new.to_bytes() == stored.to_bytes()


def _store_resources(loading: _Loading) -> None:
    for resource in sorted(loading.read.pack.resources, key=lambda one: one.name):
        added, warning = resources.store(
            tenant=loading.tenant, given=resource, actor=loading.actor, at=loading.at
        )
        if added:
            loading.entries[actors.SYSTEM] += added
        loading.warnings.extend([warning] if warning else [])


def _store_facts(loading: _Loading) -> None:
    """The first version of each fact that does not exist yet."""
    given = {
        f"{namespace}.{name}": canonical.encode(value)
        for namespace, members in sorted(loading.read.pack.facts.items())
        for name, value in sorted(members.items())
    }
    held = set(Fact.objects.of(loading.tenant).filter(path__in=given).values_list("path", flat=True))
    world = WorldWrite(tenant=loading.tenant, writer=loading.actor, at=loading.at)
    for path, body in given.items():
        if path not in held:
            loading.entries[actors.SYSTEM].append(world.put(path, body, current=None))


def _store_kind(loading: _Loading, kind: KindDocument) -> PolicyKind:
    held = PolicyKind.objects.of(loading.tenant).filter(kind=kind.kind, version=kind.version).first()
    if held is not None:
        return held
    row, registered = kinds.VersionedKind(loading.tenant, kind.kind).register(
        kind, actor=loading.actor, at=loading.at
    )
    loading.registered.append(f"{kind.kind} {kind.version}")
    loading.entries[actors.SYSTEM].append(registered)
    return row


def _store_ontology(loading: _Loading) -> Ontology | None:
    given = loading.read.pack.ontology
    if given is None:
        return None
    held = ontology_versions.get_version(tenant=loading.tenant, version=given.schema_version)
    if held is not None:
        return held
    row, registered = ontologies.VersionedOntology(loading.tenant).register(
        given, actor=loading.actor, at=loading.at
    )
    loading.registered.append(str(row))
    loading.entries[actors.SYSTEM].append(registered)
    return row


def _store_ruleset(loading: _Loading, given: RulesetDocument) -> Ruleset:
    held = ruleset_versions.get_version(tenant=loading.tenant, ruleset=given.ruleset, version=given.version)
    if held is not None:
        return held
    row, registered = rulesets.VersionedRuleset(loading.tenant, given.ruleset).register(
        given, actor=loading.actor, at=loading.at
    )
    loading.registered.append(str(row))
    loading.entries[actors.SYSTEM].append(registered)
    return row


def _store_workflows(loading: _Loading) -> None:
    for workflow in loading.read.pack.workflows:
        _store_workflow(loading, workflow)


def _store_workflow(loading: _Loading, given: WorkflowDocument) -> None:
    body = given.to_bytes()
    _, is_new = Workflow.objects.get_or_create(
        tenant=loading.tenant,
        workflow=given.workflow,
        version=given.version,
        defaults={
            "body": body,
            "digest": canonical.digest(body),
            "created_at": loading.at,
            "created_by": loading.actor,
        },
    )
    if is_new:
        loading.registered.append(f"workflow {given.workflow} {given.version}")
        loading.entries[actors.SYSTEM].append(
            events.WorkflowRegistered(
                workflow=given.workflow, version=given.version, digest=canonical.digest(body)
            )
        )


def _store_agent(loading: _Loading, given: PackAgent) -> tuple[Agent, Manifest]:
    """The agent, locked, with its manifest of this version; both made where they do not exist."""
    agent = Agent.objects.of(loading.tenant).select_for_update().filter(agent_id=given.agent_id).first()
    if agent is None:
        profile = registration.Profile(owner=given.owner, mission=given.mission, review_on=None)
        agent, registered = registration.create(
            tenant=loading.tenant, agent_id=given.agent_id, role=given.role, profile=profile, at=loading.at
        )
        loading.registered.append(f"agent {given.agent_id}")
        loading.entries[actors.agent(given.agent_id)].append(registered)
    elif (agent.role, agent.owner, agent.mission) != (given.role.value, given.owner, given.mission):
        loading.warnings.append(
            f"{given.agent_id} is registered with another role, owner or mission: left as it is"
        )
    if agent.owner == given.owner:
        # An unknown owner becomes an empty group, so that people can be added to it.
        added = groups.make_owner(name=given.owner)
        if added is not None:
            loading.registered.append(f"group {given.owner}, without members")
            loading.entries[actors.SYSTEM].append(added)
    manifest = agent.manifests.filter(version=given.manifest.version).first()
    if manifest is None:
        manifest, entry = manifests.AgentManifest(agent).register(
            given.manifest, actor=loading.actor, at=loading.at
        )
        loading.registered.append(f"manifest {agent.agent_id} {manifest.version}")
        loading.entries[actors.agent(agent.agent_id)].append(entry)
    return agent, manifest


def _activate(loading: _Loading, document: VersionedDocument[Row, Document], row: Row, *, name: str) -> None:
    if document.get_active() == row:
        return
    if row.activated_at is not None:
        was = "was active before and has been superseded"
        loading.warnings.append(f"{name} {was}: left as it is; give it a new version")
    elif row.discarded_at is not None:
        loading.warnings.append(f"{name} was discarded: left as it is; give it a new version")
    else:
        activated = document.set_active(row, actor=loading.actor, at=loading.at)
        loading.activated.append(name)
        loading.entries[document.stream].append(activated)
