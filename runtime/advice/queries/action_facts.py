"""What a recommendation may know of actions: the active policy kinds of their names."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from runtime.contracts.decision import ActionFacts, Option
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import CONFIDENCE_THRESHOLDS, KindDocument, RiskTier
from runtime.kernel import schemas
from runtime.kernel.rules import safety
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds


@dataclass(frozen=True, kw_only=True)
class KnownActions:
    """The facts of actions by name (under the empty name, of any other), and why options are unfit."""

    actions: dict[str, ActionFacts]
    unfit: dict[str, str]


def read(*, agent: Agent, names: Collection[str], options: Iterable[Option]) -> KnownActions:
    """What holds of the actions of these names, and of these options, for an agent."""
    manifest = granted_kinds.manifest_of(agent)
    granted = frozenset() if manifest is None else frozenset(manifest.policy_kinds)
    rows = granted_kinds.list_active(tenant=agent.tenant, names=granted | frozenset(names))
    kinds = {row.kind: granted_kinds.contract_of(row) for row in rows}
    own = [kind for name, kind in kinds.items() if name in granted]
    actions = {name: _of_kind(kinds[name], manifest) for name in sorted(names) if name in kinds}
    strictest = max(own, key=lambda kind: kind.risk_tier, default=None)
    actions[""] = _of_any(strictest, manifest)
    unfit = {option.id: why for option in options if (why := _unfit(option, kinds, granted))}
    return KnownActions(actions=actions, unfit=unfit)


def _unfit(option: Option, kinds: dict[str, KindDocument], granted: Collection[str]) -> str:
    kind = kinds.get(option.action.name)
    if kind is None:
        return ""  # no policy kind has this name: the agent cannot propose it as it is
    if kind.kind not in granted:
        return f"The agent's manifest does not grant {kind.kind}."
    if safety.why_unsafe(kind):
        return f"{kind.kind} {kind.version} is not evaluated until a new version is active."
    wrong = schemas.violations(kind.params_schema, option.action.parameters)
    return f"Its parameters do not fit {kind.kind}: {wrong[0].pointer} {wrong[0].message}." if wrong else ""


def _threshold(tier: RiskTier, manifest: ManifestDocument | None) -> float:
    wanted = None if manifest is None else manifest.escalate_below_confidence
    return max(CONFIDENCE_THRESHOLDS[tier], wanted or 0.0)


def _needs_person(tier: RiskTier, manifest: ManifestDocument | None) -> bool:
    return tier is RiskTier.T3 and (manifest is None or not manifest.waive_tier3_review)


def _of_any(strictest: KindDocument | None, manifest: ManifestDocument | None) -> ActionFacts:
    """Of an action that is no policy kind: the strictest tier of those that the agent may propose."""
    tier = RiskTier.T3 if strictest is None else strictest.risk_tier
    return ActionFacts(
        risk_tier=tier, threshold=_threshold(tier, manifest), needs_person=_needs_person(tier, manifest)
    )


def _of_kind(kind: KindDocument, manifest: ManifestDocument | None) -> ActionFacts:
    assertions: list[dict[str, Any]] = [
        {"invariant_id": bound.id, "parameters": {"requires": bound.require}} for bound in kind.constraints
    ]
    assertions += [{"invariant_id": rule.id, "parameters": {"requires": rule.require}} for rule in kind.rules]
    assertions += [
        {"invariant_id": limit.id, "parameters": {"value": limit.value, "limit": limit.limit}}
        for limit in kind.limits
    ]
    assertions += [
        {"invariant_id": line.id, "parameters": {"forbids": line.forbid}} for line in kind.forbidden
    ]
    requirements = [{"type": "evidence", "detail": need.name} for need in kind.needs]
    if kind.people_needed > 1:
        requirements.append({"type": "two_persons", "detail": "Two different people must let it run."})
    if kind.follows_decision:
        requirements.append({"type": "follows_decision", "detail": "The proposal must name this package."})
    return ActionFacts(
        risk_tier=kind.risk_tier,
        threshold=0.0 if kind.confidence_waiver else _threshold(kind.risk_tier, manifest),
        needs_person=_needs_person(kind.risk_tier, manifest),
        preconditions=tuple(bound.require for bound in kind.constraints),
        expected_effects=tuple(prediction.fact for prediction in kind.predicts),
        dependencies=tuple(dependency.fact for dependency in kind.depends_on),
        required_capabilities=tuple(dict.fromkeys(step.target or step.executor for step in kind.steps)),
        safety_assertions=tuple(assertions),
        policy_requirements=tuple(requirements),
        sla_s=kind.sla_s,
    )
