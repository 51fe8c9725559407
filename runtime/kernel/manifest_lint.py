"""Manifests beside each other and against the registry: what tightens one, and what is wrong with a draft."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from runtime.contracts.manifest import ManifestDocument, MemoryAccess
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentRole
from runtime.kernel import roles, silence, version_diff, versions
from runtime.kernel.rules import kind_linter, language, list_bounds
from runtime.kernel.version_diff import Change, DiffRule, MissingMeans, Tighter, VersionDifference

Place = tuple[str | int, ...]

_BOUND = MissingMeans.OPEN  # without a cap nothing bounds the agent
_MEMORY: dict[str | bool, Decimal | frozenset[str]] = {
    MemoryAccess.READ.value: frozenset({"read"}),
    MemoryAccess.WRITE.value: frozenset({"write"}),
    MemoryAccess.READ_WRITE.value: frozenset({"read", "write"}),
}
RULES: tuple[DiffRule, ...] = (
    DiffRule(path="version", tighter=Tighter.SKIPPED),
    DiffRule(path="policy_kinds", tighter=Tighter.FEWER),
    # A limit that a kind reads and that is not set refuses: setting one is neither tighter nor looser.
    DiffRule(path="limits.min_*", tighter=Tighter.HIGHER),
    DiffRule(path="limits.*", tighter=Tighter.LOWER),
    DiffRule(path="scope.*", tighter=Tighter.FEWER, absent=MissingMeans.OPEN),
    # An empty list is what the kinds depend on, which may be more or less than a list.
    DiffRule(path="subscribes", tighter=Tighter.FEWER, prefixes=True, empty_is_absent=True),
    DiffRule(path="escalate_below_confidence", tighter=Tighter.HIGHER, absent=_BOUND),
    # The smaller of both values counts: asking for maps is never looser.
    DiffRule(path="confidence", tighter=Tighter.HIGHER, absent=_BOUND),
    DiffRule(path="escalations_per_hour", tighter=Tighter.LOWER),
    DiffRule(path="max_intent_retries", tighter=Tighter.LOWER),
    # Between none and one is the default: which of both is longer depends on the number.
    DiffRule(path="retry_window_s", tighter=Tighter.HIGHER),
    DiffRule(path="proposals_per_minute", tighter=Tighter.LOWER, absent=_BOUND),
    DiffRule(path="waive_tier3_review", tighter=Tighter.LOWER, meaning={False: Decimal(0), True: Decimal(1)}),
    DiffRule(path="compute.*", tighter=Tighter.LOWER, absent=_BOUND),
    DiffRule(path="silent_after_s", tighter=Tighter.LOWER, absent=_BOUND),
    DiffRule(path="memory_scopes", tighter=Tighter.FEWER, keyed_by="scope"),
    DiffRule(path="memory_scopes.*.access", tighter=Tighter.FEWER, meaning=_MEMORY),
    # Between none and one is the default, as above.
    DiffRule(path="memory_scopes.*.writes_per_minute", tighter=Tighter.LOWER),
    DiffRule(path="may_delegate_to", tighter=Tighter.FEWER),
    DiffRule(path="messages_to", tighter=Tighter.FEWER, absent=_BOUND),
    DiffRule(path="advertises", tighter=Tighter.FEWER, absent=_BOUND),
    # Without it nobody is consulted: less of it tells fewer agents what this one is about to do.
    DiffRule(path="consultations.*", tighter=Tighter.LOWER, absent=MissingMeans.SHUT),
    DiffRule(path="environments", tighter=Tighter.FEWER, absent=_BOUND),
    # What each rule asks is not compared: it may hold for other kinds after other labels.
    DiffRule(path="label_rules", tighter=Tighter.MORE, keyed_by="id"),
    # Without it only a person ends a label.
    DiffRule(path="labels_end_after_s.*", tighter=Tighter.HIGHER, absent=_BOUND),
    # Without it there are the defaults: which of both is tighter depends on the numbers.
    DiffRule(path="autonomy.supervised_at", tighter=Tighter.LOWER),
    DiffRule(path="autonomy.read_only_at", tighter=Tighter.LOWER),
    DiffRule(path="autonomy.window_s", tighter=Tighter.HIGHER),
    DiffRule(path="autonomy.labels.points.*", tighter=Tighter.HIGHER),
    DiffRule(path="autonomy.*.*", tighter=Tighter.HIGHER),
)


@dataclass(frozen=True, kw_only=True)
class Registry:
    """What a draft is held against, and `role`, that of its agent.

    `kinds` has the version in force, or the newest, of each kind; `inactive` names those of which no version
    is in force; `workflows` are `name@version`, and `facts` holds the paths that exist and the namespaces
    (`price.`) of those.
    """

    role: AgentRole
    kinds: Mapping[str, KindDocument]
    inactive: Collection[str]
    agents: Collection[str]
    workflows: Collection[str]
    facts: Collection[str]
    earlier_versions: Collection[str]


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about a draft: where, and a plain sentence. What `is_wrong` keeps it from being saved."""

    place: Place
    message: str
    is_wrong: bool


def diff(
    before: ManifestDocument | None, after: ManifestDocument, *, registry: Registry | None = None
) -> tuple[VersionDifference, ...]:
    """What `after` changes of `before`; of an agent without a manifest, everything that it grants.

    With `registry`, a name in `after` that the registry does not have is UNKNOWN: it changes nothing.
    Without it every name counts as known: a version was checked when it was saved.
    """
    old = _GRANTS_NOTHING if before is None else before
    found = version_diff.diff(old.model_dump(mode="json"), after.model_dump(mode="json"), RULES)
    return tuple(_right(item) if registry is None else _told(item, after, registry) for item in found)


def lint(draft: ManifestDocument, registry: Registry) -> tuple[Remark, ...]:
    """Everything that speaks against a draft, in the order of its fields; first what is wrong."""
    found: list[Remark] = []
    highest = versions.highest(registry.earlier_versions)
    if not versions.is_later(draft.version, highest):
        higher = f"must be higher than {highest}, the highest so far"
        said = "is no semantic version" if highest is None else higher
        found.append(Remark(("version",), said, is_wrong=True))
    found.extend(_kinds(draft, registry))
    found.extend(_limits(draft, registry))
    parameters = _parameters(draft, registry)
    for name, values in sorted(draft.scope.items()):
        if name not in parameters:
            said = "is a parameter of no kind that the manifest grants: it narrows nothing"
            found.append(Remark(("scope", name), said, is_wrong=False))
        elif not values:
            found.append(Remark(("scope", name), "is empty: no value of it is allowed", is_wrong=False))
    for at, selector in enumerate(draft.subscribes):
        if selector not in registry.facts:
            verb = "begins with" if selector.endswith(".") else "is called"
            found.append(Remark(("subscribes", at), f"no fact {verb} {selector} yet", is_wrong=False))
    found.extend(_twice("subscribes", draft.subscribes))
    found.extend(_twice("memory_scopes", tuple(item.scope for item in draft.memory_scopes)))
    for at, name in enumerate(draft.may_delegate_to):
        if name not in registry.agents:
            found.append(Remark(("may_delegate_to", at), f"no agent is called {name}", is_wrong=True))
    found.extend(_twice("may_delegate_to", draft.may_delegate_to))
    if draft.workflow is not None and draft.workflow not in registry.workflows:
        said = f"no workflow {draft.workflow} is registered"
        found.append(Remark(("workflow",), said, is_wrong=True))
    found.extend(_twice("environments", draft.environments))
    for at, rule in enumerate(draft.label_rules):
        for kind in sorted(set(rule.kinds).difference(draft.policy_kinds)):
            said = f"names {kind}, which the manifest does not grant"
            found.append(Remark(("label_rules", at, "kinds"), said, is_wrong=True))
    found.extend(_twice("label_rules", tuple(rule.id for rule in draft.label_rules)))
    misfits = roles.misfits(registry.role, draft, registry.kinds)
    found.extend(Remark(item.place, item.message, is_wrong=True) for item in misfits)
    found.extend(Remark(("hours", field), said, is_wrong=True) for field, said in silence.lint(draft))
    return tuple(sorted(found, key=lambda remark: not remark.is_wrong))


_LIMITS = "manifest.limits."
_SCOPE = "scope."
# A name in these lists is a right of its own, which no number makes wider or narrower.
_RIGHTS = frozenset({"policy_kinds", "may_delegate_to"})
_OF_RIGHTS = {Change.LOOSENED: Change.GRANTED, Change.TIGHTENED: Change.WITHDRAWN}
_GRANTS_NOTHING = ManifestDocument(version="0.0.0", policy_kinds=())


def _right(item: VersionDifference) -> VersionDifference:
    change = _OF_RIGHTS.get(item.change, item.change) if item.path in _RIGHTS else item.change
    return replace(item, change=change)


def _told(item: VersionDifference, draft: ManifestDocument, registry: Registry) -> VersionDifference:
    """A difference as the registry bears it out: a name that it does not have changes nothing."""
    names = item.path.removeprefix(_SCOPE) if item.path.startswith(_SCOPE) else item.after
    known: Collection[str]
    match item.path:
        case "policy_kinds":
            known = registry.kinds
        case "may_delegate_to":
            known = registry.agents
        case path if path.startswith(_SCOPE) and item.after is not None:
            known = _parameters(draft, registry)
        case _:
            return _right(item)
    # A list whose order alone differs is one difference of two lists, and no name.
    is_unknown = isinstance(names, str) and names not in known
    return replace(item, change=Change.UNKNOWN) if is_unknown else _right(item)


def _kinds(draft: ManifestDocument, registry: Registry) -> Iterator[Remark]:
    if not draft.policy_kinds:
        yield Remark(("policy_kinds",), "is empty: the agent may propose nothing", is_wrong=False)
    for at, name in enumerate(draft.policy_kinds):
        place = ("policy_kinds", at)
        if name not in registry.kinds:
            yield Remark(place, f"no policy kind is called {name}", is_wrong=True)
        elif name in registry.inactive:
            said = f"no version of {name} is in force: its proposals are refused until one is"
            yield Remark(place, said, is_wrong=False)
    yield from _twice("policy_kinds", draft.policy_kinds)


def _limits(draft: ManifestDocument, registry: Registry) -> Iterator[Remark]:
    read = {name: kind_linter.limits_read(kind) for name, kind in _granted(draft, registry).items()}
    for name, limits in sorted(read.items()):
        for limit in sorted(limits - draft.limits.keys()):
            said = f"is not set, and {name} reads it: its proposals would be refused"
            yield Remark(("limits", limit), said, is_wrong=True)
    for name, kind in sorted(_granted(draft, registry).items()):
        # The manifest's limits that the kind compares an amount with as they stand.
        bounds = (bound.limit.strip() for bound in kind.limits)
        compared = {bound.removeprefix(_LIMITS) for bound in bounds if bound.startswith(_LIMITS)}
        for limit in sorted(draft.limits.keys() & compared):
            if not language.is_amount(draft.limits[limit]):
                said = f"is no number, and {name} compares an amount with it: its proposals would be refused"
                yield Remark(("limits", limit), said, is_wrong=True)


def _granted(draft: ManifestDocument, registry: Registry) -> dict[str, KindDocument]:
    return {name: registry.kinds[name] for name in draft.policy_kinds if name in registry.kinds}


def _parameters(draft: ManifestDocument, registry: Registry) -> frozenset[str]:
    """The parameters of the kinds that the draft grants."""
    kinds = _granted(draft, registry).values()
    return frozenset(name for kind in kinds for name in list_bounds.property_names(kind.params_schema))


def _twice(name: str, values: tuple[str, ...]) -> Iterator[Remark]:
    for value, count in Counter(values).items():
        if count > 1:
            at = len(values) - 1 - values[::-1].index(value)
            yield Remark((name, at), f"{value} is listed twice", is_wrong=True)
