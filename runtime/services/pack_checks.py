"""What a pack must hold together beyond its grammar, and what of it is not enforced yet."""

from collections import Counter
from collections.abc import Collection, Iterator

from runtime.contracts.guard import GuardKind, bps, text
from runtime.contracts.manifest import Manifest
from runtime.contracts.pack import Pack
from runtime.contracts.policy_kind import PolicyKind
from runtime.kernel import silence
from runtime.kernel.guards import weights
from runtime.kernel.rules import kind_linter
from runtime.services.pack_reading import Problem

# Fields that are parsed and stored, but that nothing acts on yet.
_IDLE_KIND_FIELDS = (
    "subjects",
    "outputs_schema",
    "allowed_outcomes",
    "required_evidence",
    "approval_mode",
    "gate_id",
    "red_lines",
)
_IDLE_MANIFEST_FIELDS = (
    "model_profile",
    "prompt_bundle_hash",
    "evaluator_suite",
)


def problems(pack: Pack, *, targets: Collection[str], kinds: Collection[str]) -> Iterator[Problem]:
    """Everything that does not hold together. `targets` and `kinds` are those that exist already."""
    resources = {resource.name for resource in pack.resources}
    for at, kind in enumerate(pack.policy_kinds):
        for problem in kind_problems(kind, targets={*pack.targets, *targets}, resources=resources):
            yield Problem(("policy_kinds", at, *problem.place), problem.message)
    known = {*kinds, *(kind.kind for kind in pack.policy_kinds)}
    for at, agent in enumerate(pack.agents):
        for number, name in enumerate(agent.manifest.policy_kinds):
            if name not in known:
                place = ("agents", at, "manifest", "policy_kinds", number)
                yield Problem(place, f"the policy kind {name} is neither in the pack nor registered")
        for field, message in silence.lint(agent.manifest):
            yield Problem(("agents", at, "manifest", "hours", field), message)
    yield from _twice(("policy_kinds", "kind"), [kind.kind for kind in pack.policy_kinds])
    yield from _twice(("agents", "agent_id"), [agent.agent_id for agent in pack.agents])
    yield from _twice(("resources", "name"), [resource.name for resource in pack.resources])
    yield from _guard_problems(pack, targets={*pack.targets, *targets}, kinds=known)


def _guard_problems(pack: Pack, *, targets: Collection[str], kinds: Collection[str]) -> Iterator[Problem]:
    for at, guard in enumerate(pack.guards):
        if guard.target is not None and guard.target not in targets:
            yield Problem(("guards", at, "target"), f"no target is called {guard.target}")
        for number, name in enumerate(guard.policy_kinds):
            if name not in kinds:
                place = ("guards", at, "policy_kinds", number)
                yield Problem(place, f"the policy kind {name} is neither in the pack nor registered")
    yield from _twice(("guards", "id"), [guard.id for guard in pack.guards])


def kind_problems(
    kind: PolicyKind, *, targets: Collection[str], resources: Collection[str]
) -> Iterator[Problem]:
    """What is wrong with one kind, in itself or among what there is; places begin at the kind."""
    for problem in kind_linter.lint_kind(kind):
        yield Problem(problem.place, problem.message)
    for number, step in enumerate(kind.steps):
        if step.target is not None and step.target not in targets:
            place = ("steps", number, "target")
            yield Problem(place, f"no target is called {step.target}")
    for number, claim in enumerate(kind.claims):
        if claim.resource not in resources:
            place = ("claims", number, "resource")
            yield Problem(place, f"no resource is called {claim.resource}")


def warnings(pack: Pack) -> Iterator[str]:
    """By name, what this version of the runtime does not enforce, and what cannot work as written."""
    for kind in pack.policy_kinds:
        for name in idle_fields(kind):
            yield f"{kind.kind}: {name} is not enforced yet"
    for agent in pack.agents:
        for name in _IDLE_MANIFEST_FIELDS:
            if getattr(agent.manifest, name):
                yield f"{agent.agent_id}: {name} is not enforced yet"
        yield from _missing_limits(pack, agent.agent_id, agent.manifest)
    for guard in pack.guards:
        is_lexical = guard.guard is GuardKind.LEXICAL
        if guard.emergency_stop and is_lexical and bps(guard.stop_confidence) > weights.MOST_BPS:
            most = f"a lexical guard is never surer than {text(weights.MOST_BPS)}"
            yield f"{guard.id}: {most}, so it stops nobody at {guard.stop_confidence}"


def idle_fields(kind: PolicyKind) -> Iterator[str]:
    """The fields of a kind that are stored, but that this version of the runtime does not act on."""
    yield from (name for name in _IDLE_KIND_FIELDS if getattr(kind, name))
    for at, rule in enumerate(kind.rules):
        if not rule.mandatory:
            yield f"rules[{at}].mandatory false"
        if rule.priority:
            yield f"rules[{at}].priority"


def _missing_limits(pack: Pack, agent_id: str, manifest: Manifest) -> Iterator[str]:
    for kind in pack.policy_kinds:
        if kind.kind in manifest.policy_kinds:
            for name in sorted(kind_linter.limits_read(kind) - manifest.limits.keys()):
                lacking = f"{kind.kind} reads manifest.limits.{name}, which is not set"
                yield f"{agent_id}: {lacking}; its proposals will be refused"


def _twice(place: tuple[str, str], values: list[str]) -> Iterator[Problem]:
    group, name = place
    counts = Counter(values)
    for at, value in enumerate(values):
        if counts[value] > 1 and values.index(value) != at:
            yield Problem((group, at, name), f"{value} is already in this pack")
