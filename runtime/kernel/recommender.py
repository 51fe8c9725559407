"""The Decision Engineering Recommender (IDE 3.4): which action to propose, or that a person must decide.

Pure, and advice: it moves nothing, and the gate never imports it. It adopts what rules say with high
confidence, weighs the options that no bound excludes, and abstains below the threshold of the risk tier.
Where the choice is not clear and the agent allows it, other agents are consulted first: what they answer can
lower the confidence or lead to a person, and never raises or selects anything. Utilities are compared
exactly, as fractions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from runtime.contracts import timestamps
from runtime.contracts.decision import (
    DER_VERSION,
    FIRST_DER_VERSION,
    ActionFacts,
    Alternative,
    Budgets,
    ConfidenceInterpretation,
    DecisionInput,
    DecisionPackage,
    DecisionType,
    Dropped,
    EscalationRoute,
    Method,
    Objective,
    Option,
    OptionAction,
    PolicyRequirement,
    References,
    SafetyAssertion,
    SelectedAction,
    TradeOff,
)
from runtime.contracts.ruleset import MatchStatus, ProposedAction, RuleMatch, RuleResult
from runtime.kernel import hearing, salts
from runtime.kernel.rulesets import evaluate

SCHEMA_VERSION = "1.0"
# The action of a rule that says no, whatever was asked.
DENY = "DENY"
_TYPES = {
    Method.ADOPT: DecisionType.APPROVE,
    Method.REFINE: DecisionType.CHOOSE,
    Method.CONSULT: DecisionType.ROUTE,
    Method.ABSTAIN: DecisionType.ROUTE,
    Method.DENY: DecisionType.DENY,
}


@dataclass(frozen=True, slots=True)
class Scored:
    """An option that nothing excludes, with its weighted utility; None where it was not weighed."""

    id: str
    action: OptionAction
    confidence: float
    utility: Fraction | None = None
    utilities: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What the gatekeeper came to. `why` is for people, where nobody was found or a person is needed."""

    method: Method
    chosen: Scored | None
    others: Sequence[Scored] = ()
    dropped: Sequence[Dropped] = ()
    why: str = ""


def recommend(asked: DecisionInput) -> DecisionPackage:
    """The package; the same input always gives the same bytes."""
    choice = _choose(asked)
    chosen = choice.chosen
    facts = known(asked.actions, "" if chosen is None else chosen.action.name)
    heard = hearing.hear(asked.consultation, facts, _unheard(choice))
    method, confidence, notes = heard.method, heard.confidence, heard.why
    needs_person = method in (Method.CONSULT, Method.ABSTAIN, Method.DENY)
    requirements = [PolicyRequirement(**item) for item in facts.policy_requirements]
    if needs_person:
        requirements.insert(0, PolicyRequirement(type="human_approval", detail=notes))
    return DecisionPackage(
        decision_id=asked.decision_id,
        schema_version=SCHEMA_VERSION,
        task_id=asked.dfid,
        timestamp=timestamps.iso(timestamps.from_ms(asked.at_ms)),
        decision_type=_TYPES[method],
        method=method,
        selected_action=None if chosen is None else _selected(chosen.action, facts),
        safety_assertions=tuple(SafetyAssertion(**item) for item in facts.safety_assertions),
        expected_utility=None if chosen is None else _number(chosen.utility),
        confidence_score=confidence,
        confidence_interpretation=ConfidenceInterpretation(
            calibration_method=None,
            band="below_threshold" if confidence < facts.threshold else "at_or_above_threshold",
            notes=notes or "As stated, and not calibrated; compared with the threshold of the risk tier.",
        ),
        risk_tier=facts.risk_tier,
        abstain_threshold=facts.threshold,
        human_review_required=needs_person,
        escalation_route=EscalationRoute(
            contact=asked.contact, SLA=None if facts.sla_s is None else f"PT{facts.sla_s}S"
        ),
        alternatives=tuple(_alternative(other, chosen) for other in choice.others),
        dropped=tuple(choice.dropped),
        reasoning_trace_ref=f"/api/v1/audit/contracts/reasoning_trace/{asked.dfid}",
        references=_references(asked),
        consultations=hearing.consultations(asked.consultation),
        consultation_note=heard.note,
        budgets=Budgets(
            time=None if asked.time_left_s is None else f"PT{asked.time_left_s}S", cost=asked.cost_left_usd
        ),
        policy_requirements=tuple(requirements),
        consensus=heard.found,
        salt=salts.derive(asked.salt, of="decision_package"),
    )


def _unheard(choice: _Choice) -> hearing.Unheard:
    chosen = choice.chosen
    return hearing.Unheard(
        method=choice.method,
        option="" if chosen is None else chosen.id,
        confidence=0.0 if chosen is None else chosen.confidence,
        has_others=bool(choice.others),
        why=choice.why,
    )


def _references(asked: DecisionInput) -> References:
    output = asked.rule_output
    return References(
        context_id=asked.context_id,
        rule_output_id=None if output is None else output.rule_output_id,
        world_version_id=asked.world_version_id,
        CET_version=None,
        Ruleset_version=None if output is None else output.ruleset_version,
        DER_version=FIRST_DER_VERSION if asked.consultation is None else DER_VERSION,
    )


def known(actions: Mapping[str, ActionFacts], name: str) -> ActionFacts:
    """What is known of an action; of one that is unknown, what holds of any."""
    return actions.get(name) or actions[""]


def _choose(asked: DecisionInput) -> _Choice:
    result = None if asked.rule_output is None else asked.rule_output.result
    mandatory = [] if result is None else mandatory_matches(result)
    if result is not None:
        if result.guardrails_triggered:
            guards = ", ".join(guard.invariant_id for guard in result.guardrails_triggered)
            return _deny(asked, f"A guardrail is triggered: {guards}.")
        denying = [match.rule_id for match in mandatory if match.action_proposal.action == DENY]
        if denying:
            return _deny(asked, f"A mandatory rule says no: {', '.join(denying)}.")
    if asked.options:
        return _refine(asked, mandatory)
    if result is None:
        return _Choice(method=Method.ABSTAIN, chosen=None, why="There are neither options nor a rule output.")
    return _adopt(result)


def _deny(asked: DecisionInput, why: str) -> _Choice:
    dropped = tuple(Dropped(id=option.id, reason=why) for option in asked.options)
    return _Choice(method=Method.DENY, chosen=None, dropped=dropped, why=why)


def mandatory_matches(result: RuleResult) -> list[RuleMatch]:
    """The mandatory matches that decided an aspect."""
    deciding = {rule for aspect in result.decided for rule in aspect.rule_ids}
    return [match for match in result.matches if match.mandatory and match.rule_id in deciding]


def _adopt(result: RuleResult) -> _Choice:
    """What the rules decided: of a mandatory rule first, else of the aspect that is declared first."""
    ordered = sorted(
        result.decided,
        key=lambda aspect: (
            not any(match.mandatory and match.rule_id in aspect.rule_ids for match in result.matches)
        ),
    )
    scored = [
        Scored(
            id=f"{aspect.aspect}:{number}" if len(aspect.actions) > 1 else aspect.aspect,
            action=_as_option(action),
            confidence=aspect.certainty,
        )
        for aspect in ordered
        for number, action in enumerate(aspect.actions)
    ]
    why = ""
    if result.status is not MatchStatus.HIGH:
        why = f"The rules gave {result.status}."
    elif result.requested_retransformations:
        gaps = ", ".join(gap.feature_gap for gap in result.requested_retransformations)
        why = f"Features are missing or too old: {gaps}."
    return _Choice(
        method=Method.ABSTAIN if why else Method.ADOPT,
        chosen=scored[0] if scored else None,
        others=scored[1:],
        why=why,
    )


def _as_option(action: ProposedAction) -> OptionAction:
    return OptionAction(name=action.action, parameters=action.params)


def _refine(asked: DecisionInput, mandatory: Sequence[RuleMatch]) -> _Choice:
    dropped: list[Dropped] = []
    left: list[Scored] = []
    for option in sorted(asked.options, key=lambda option: option.id):
        reason = asked.unfit.get(option.id) or _excluded(option, asked.objectives, mandatory)
        if reason:
            dropped.append(Dropped(id=option.id, reason=reason))
        else:
            left.append(_score(option, asked.objectives))
    weighing = [objective.id for objective in asked.objectives if objective.weight > 0]
    kept: list[Scored] = []
    for one in left:
        better = next((other.id for other in left if dominates(other, one, weighing)), None)
        if better is None:
            kept.append(one)
        else:
            reason = f"{better} is at least as good for every objective, and better for one."
            dropped.append(Dropped(id=one.id, reason=reason))
    ranked = sorted(kept, key=lambda one: (-(one.utility or Fraction(0)), one.id))
    if not ranked:
        return _Choice(method=Method.ABSTAIN, chosen=None, dropped=dropped, why="No option is left.")
    others = [match.rule_id for match in mandatory if match.action_proposal.action != ranked[0].action.name]
    return _Choice(
        method=Method.ABSTAIN if others else Method.REFINE,
        chosen=ranked[0],
        others=ranked[1:],
        dropped=dropped,
        why=f"A mandatory rule asks for another action: {', '.join(others)}." if others else "",
    )


def _excluded(option: Option, objectives: Sequence[Objective], mandatory: Sequence[RuleMatch]) -> str:
    """Why an option is ruled out; empty where nothing does."""
    for objective in objectives:
        utility = option.utilities.get(objective.id)
        if utility is None:
            return f"It has no utility for {objective.id}."
        if objective.at_least is not None and evaluate.exactly(utility) < evaluate.exactly(
            objective.at_least
        ):
            return f"Its utility for {objective.id} is below {objective.at_least}."
    for match in mandatory:
        wanted = match.action_proposal
        if wanted.action == option.action.name and not has_params(option.action, wanted):
            return f"The mandatory rule {match.rule_id} asks for other parameters."
    return ""


def has_params(action: OptionAction, wanted: ProposedAction) -> bool:
    """Whether an action has all parameters that a rule names, with these values."""
    named = {name: action.parameters[name] for name in wanted.params if name in action.parameters}
    return evaluate.is_same(ProposedAction(action=wanted.action, params=named), wanted)


def _score(option: Option, objectives: Sequence[Objective]) -> Scored:
    utilities = {objective.id: evaluate.exactly(option.utilities[objective.id]) for objective in objectives}
    total = sum(
        (evaluate.exactly(objective.weight) * utilities[objective.id] for objective in objectives),
        start=Fraction(0),
    )
    return Scored(
        id=option.id,
        action=option.action,
        confidence=option.confidence or 0.0,
        utility=total,
        utilities=utilities,
    )


def dominates(one: Scored, other: Scored, objectives: Sequence[str]) -> bool:
    """Whether an option is at least as good as another for every objective, and better for one."""
    pairs = [(one.utilities[name], other.utilities[name]) for name in objectives]
    return all(mine >= theirs for mine, theirs in pairs) and any(mine > theirs for mine, theirs in pairs)


def _number(value: Fraction | None) -> int | float | None:
    return None if value is None else evaluate.plain_number(value)


def _selected(action: OptionAction, facts: ActionFacts) -> SelectedAction:
    return SelectedAction(
        name=action.name,
        parameters=action.parameters,
        preconditions=facts.preconditions,
        expected_effects=facts.expected_effects,
        dependencies=facts.dependencies,
        required_capabilities=facts.required_capabilities,
    )


def _alternative(other: Scored, chosen: Scored | None) -> Alternative:
    compared = {} if chosen is None else chosen.utilities
    return Alternative(
        id=other.id,
        action=other.action,
        expected_utility=_number(other.utility),
        confidence=other.confidence,
        trade_offs=tuple(
            TradeOff(objective=name, difference=evaluate.plain_number(value - compared[name]))
            for name, value in other.utilities.items()
            if name in compared and value != compared[name]
        ),
    )
