"""What a pack must hold together beyond its grammar, and what of it enforces nothing."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from runtime.contracts import recorded_only
from runtime.contracts.guard import GuardKind, bps, text
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.pack import PackDocument, TargetProtocol
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentRole
from runtime.kernel import roles, silence
from runtime.kernel.guards import confidence
from runtime.kernel.rules import invariants, kind_linter
from runtime.kernel.workflows import linter as workflow_linter
from runtime.registry.queries import kind_versions
from runtime.registry.services.document_reading import DocumentProblem

Linted = tuple[DocumentProblem, ...]


def problems(
    pack: PackDocument,
    *,
    targets: Mapping[str, bool],
    kinds: Collection[str],
    linted: Sequence[Linted],
    workflows: Collection[str],
    servers: Collection[str] = (),
    commands: Collection[str] = (),
) -> Iterator[DocumentProblem]:
    """Everything that does not hold together. `targets`, `kinds` and `workflows` exist already.

    `targets` tells of each whether it honours keys; `linted` is the result of `lint` by kind of the pack.
    `servers` are the MCP servers among them, and `commands` those that the installation declares.
    """
    yield from _taken_names(pack, commands)
    spoken = {*(set(servers) - pack.targets.keys()), *_mcp_targets(pack)}
    honouring = {**targets, **{name: target.honours_keys for name, target in pack.targets.items()}}
    resources = {resource.name for resource in pack.resources}
    for at, kind in enumerate(pack.policy_kinds):
        for problem in kind_problems(
            kind, linted=linted[at], targets=honouring, resources=resources, servers=spoken
        ):
            yield DocumentProblem(("policy_kinds", at, *problem.place), problem.message)
        yield from _unsigned_callbacks(pack, kind, at=at)
    yield from (DocumentProblem(place, said) for place, said in invariants.lint_pack(pack))
    known = {*kinds, *(kind.kind for kind in pack.policy_kinds)}
    for at, agent in enumerate(pack.agents):
        for number, name in enumerate(agent.manifest.policy_kinds):
            if name not in known:
                place = ("agents", at, "manifest", "policy_kinds", number)
                yield DocumentProblem(place, f"the policy kind {name} is neither in the pack nor registered")
        for field, message in silence.lint(agent.manifest):
            yield DocumentProblem(("agents", at, "manifest", "hours", field), message)
    yield from _unknown_workflows(pack, workflows)
    yield from _twice(("policy_kinds", "kind"), [kind.kind for kind in pack.policy_kinds])
    yield from _twice(("agents", "agent_id"), [agent.agent_id for agent in pack.agents])
    yield from _twice(("resources", "name"), [resource.name for resource in pack.resources])
    for at, guard in enumerate(pack.guards):
        if guard.target is not None and guard.target not in honouring:
            yield DocumentProblem(("guards", at, "target"), f"there is no target named {guard.target}")
        for number, name in enumerate(guard.policy_kinds):
            if name not in known:
                named = ("guards", at, "policy_kinds", number)
                yield DocumentProblem(named, f"the policy kind {name} is neither in the pack nor registered")
    yield from _twice(("guards", "id"), [guard.id for guard in pack.guards])
    for problem, finding in lint_workflows(pack):
        if finding.severity is LintSeverity.ERROR:
            yield DocumentProblem(problem.place, f"{finding.code}: {problem.message}")
    names = [f"{workflow.workflow} {workflow.version}" for workflow in pack.workflows]
    yield from _twice(("workflows", "version"), names)


def _unsigned_callbacks(pack: PackDocument, kind: KindDocument, *, at: int) -> Iterator[DocumentProblem]:
    for number, step in enumerate(kind.steps):
        target = None if step.callback is None else pack.targets.get(step.target or "")
        if target is not None and not target.secret_env:
            said = f"the target {step.target} has no secret_env, by which it would sign what it reports"
            yield DocumentProblem(("policy_kinds", at, "steps", number, "callback"), said)


def _mcp_targets(pack: PackDocument) -> set[str]:
    return {name for name, target in pack.targets.items() if target.protocol is TargetProtocol.MCP}


def _taken_names(pack: PackDocument, commands: Collection[str]) -> Iterator[DocumentProblem]:
    for name in sorted(pack.targets.keys() & set(commands)):
        said = "an MCP server of this installation (DIR_TOOL_COMMANDS) has this name"
        yield DocumentProblem(("targets", name), said)


def _unknown_workflows(pack: PackDocument, workflows: Collection[str]) -> Iterator[DocumentProblem]:
    brought = {f"{workflow.workflow}@{workflow.version}" for workflow in pack.workflows}
    for at, agent in enumerate(pack.agents):
        followed = agent.manifest.workflow
        if followed is not None and followed not in {*workflows, *brought}:
            said = f"the workflow {followed} is neither in the pack nor registered"
            yield DocumentProblem(("agents", at, "manifest", "workflow"), said)


def lint_workflows(pack: PackDocument) -> Iterator[tuple[DocumentProblem, workflow_linter.LintFinding]]:
    """What the linter finds in the pack's workflows, each with its place in the pack."""
    for at, workflow in enumerate(pack.workflows):
        for finding in workflow_linter.lint(workflow):
            yield DocumentProblem(("workflows", at, *finding.place), finding.message), finding


def role_problems(
    pack: PackDocument, *, roles_of: Mapping[str, AgentRole], kinds: Mapping[str, KindDocument]
) -> Iterator[DocumentProblem]:
    """What the roles of the pack's agents do not allow; an agent that exists keeps the role that it has.

    `kinds` are those that are registered; the pack's own replace them.
    """
    known = {**kinds, **{kind.kind: kind for kind in pack.policy_kinds}}
    for at, agent in enumerate(pack.agents):
        role = roles_of.get(agent.agent_id, agent.role)
        for item in roles.misfits(role, agent.manifest, known):
            yield DocumentProblem(("agents", at, "manifest", *item.place), item.message)


def monitor_problems(kind: KindDocument, monitors: Collection[str]) -> Iterator[DocumentProblem]:
    """Steps of a kind that `monitors` may propose by their active manifests."""
    if kind.steps and monitors:
        said = f"{', '.join(sorted(monitors))} may propose it, and a MONITOR changes nothing"
        yield DocumentProblem(("steps",), said)


def lint(kind: KindDocument) -> Linted:
    """What is wrong with one kind in itself; places begin at the kind.

    It may take seconds and reads no row: so it runs before a transaction, while no one waits.
    """
    return tuple(DocumentProblem(problem.place, problem.message) for problem in kind_linter.lint_kind(kind))


def kind_problems(
    kind: KindDocument,
    *,
    linted: Linted,
    targets: Mapping[str, bool],
    resources: Collection[str],
    servers: Collection[str],
) -> Iterator[DocumentProblem]:
    """What is wrong with one kind, in itself (`linted`) or among what there is; places begin at the kind.

    `targets` tells of each whether it honours keys; `servers` are those that are MCP servers.
    """
    yield from linted
    for number, step in enumerate(kind.steps):
        if step.target is not None and step.target not in targets:
            place = ("steps", number, "target")
            yield DocumentProblem(place, f"there is no target named {step.target}")
        elif step.executor.calls_target and (step.tool is not None) is not (step.target in servers):
            said = "is no MCP server, whose tools could be called" if step.tool else "is an MCP server"
            yield DocumentProblem(("steps", number, "executor"), f"the target {step.target} {said}")
    for message in kind_versions.list_forgetting(kind, targets=targets):
        yield DocumentProblem(("on_unknown",), message)
    for number, claim in enumerate(kind.claims):
        if claim.resource not in resources:
            place = ("claims", number, "resource")
            yield DocumentProblem(place, f"there is no resource named {claim.resource}")


def not_enforced(pack: PackDocument) -> Iterator[str]:
    """For each kind and manifest the fields that are recorded and that nothing enforces."""
    documents = (
        *((kind.kind, kind) for kind in pack.policy_kinds),
        *((agent.agent_id, agent.manifest) for agent in pack.agents),
    )
    for name, document in documents:
        if said := recorded_only.sentence(document):
            yield f"{name}: {said}"


def target_problems(pack: PackDocument, *, kind: KindDocument) -> Iterator[DocumentProblem]:
    """The targets of a pack that do not honour keys, although a kind that stays active relies on it."""
    for name in sorted(kind.resends_to & pack.targets.keys()):
        if not pack.targets[name].honours_keys:
            said = f"{kind.kind} {kind.version}, which is active, resends unknown results to it"
            yield DocumentProblem(("targets", name, "honours_keys"), f"{said}: {kind_versions.HONOURS_NOT}")


def warnings(pack: PackDocument) -> Iterator[str]:
    """What cannot work as written, once it is active."""
    for agent in pack.agents:
        for kind in pack.policy_kinds:
            if kind.kind not in agent.manifest.policy_kinds:
                continue
            for name in sorted(kind_linter.limits_read(kind) - agent.manifest.limits.keys()):
                lacking = f"{kind.kind} reads manifest.limits.{name}, which is not set"
                yield f"{agent.agent_id}: {lacking}; its proposals will be refused"
    for guard in pack.guards:
        is_lexical = guard.guard is GuardKind.LEXICAL
        if guard.emergency_stop and is_lexical and bps(guard.stop_confidence) > confidence.MOST_BPS:
            most = f"the confidence of a lexical guard is at most {text(confidence.MOST_BPS)}"
            yield f"{guard.id}: {most}, so it never stops an agent at {guard.stop_confidence}"


def _twice(place: tuple[str, str], values: list[str]) -> Iterator[DocumentProblem]:
    group, name = place
    counts = Counter(values)
    for at, value in enumerate(values):
        if counts[value] > 1 and values.index(value) != at:
            yield DocumentProblem((group, at, name), f"{value} is already in this pack")
