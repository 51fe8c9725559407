"""What was said beforehand: the rulesets of the kind, and the decision package that the proposal names.

The rulesets are evaluated here again, over what the gate itself reads. What was recommended is a fact of the
flow; how it came to be is nothing that the gate knows.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from audit import canonical
from runtime.contracts.reasons import Reason
from runtime.contracts.ruleset import RuleMatch, RulesetDocument
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError
from runtime.kernel.rulesets import evaluate

# The action of a rule that says no, whatever was asked.
DENY = "DENY"


def check_rulesets(case: Case) -> Iterable[Finding]:
    """What do the rulesets say that the policy kind names? (IDE paper, 3.3)

    RULESET_MISSING, RULESET_INCOMPLETE, RULESET_CONFLICT, RULESET_GUARDRAIL and RULESET_DENIES are Fails.
    RULESET_REQUIRES is a Refer: a mandatory rule asks for something else than what is proposed.
    """
    by_name = {ruleset.name: ruleset for ruleset in case.rules.rulesets}
    for name in case.kind.rulesets:
        ruleset = by_name.get(name)
        if ruleset is None:
            said = f"The ruleset {name} is not active, so it cannot be asked."
            yield findings.fail(CheckName.RULESETS, Reason.RULESET_MISSING, said, subject=name)
        else:
            yield from _ask(case, ruleset)


def check_follows_decision(case: Case) -> Iterable[Finding]:
    """Is this what the decision package selected that the proposal names? (IDE paper, 3.4)

    R_FOLLOWS_DECISION: a Fail without a package, or for another action; a Refer where the package asks for a
    person. It is not asked of a person.
    """
    found = case.facts.decision
    if found is None:
        said = "The proposal names no decision package of its flow, and the policy kind asks for one."
        yield findings.fail(CheckName.FOLLOWS_DECISION, Reason.R_FOLLOWS_DECISION, said)
        return
    selected = [found.action, found.params]
    if canonical.encode(selected) != canonical.encode([case.kind.kind, case.proposal.params]):
        said = f"The decision package selected {found.action or 'nothing'}, or other parameters."
        yield findings.fail(
            CheckName.FOLLOWS_DECISION, Reason.R_FOLLOWS_DECISION, said, subject=found.decision_id
        )
    elif found.needs_person:
        said = "The decision package asks for a person."
        yield findings.refer(
            CheckName.FOLLOWS_DECISION, Reason.R_FOLLOWS_DECISION, said, subject=found.decision_id
        )


def _ask(case: Case, ruleset: RulesetDocument) -> Iterator[Finding]:
    features = features_of(case, ruleset)
    for name in ruleset.features:
        if name not in features:
            said = f"The feature {name} of {ruleset.name} has no value of its type."
            yield findings.fail(
                CheckName.RULESETS, Reason.RULESET_INCOMPLETE, said, subject=f"{ruleset.ruleset}:{name}"
            )
    result = evaluate.evaluate(ruleset, features, cedar=(case.facts.cedar or {}).get(ruleset.name))
    for guard in result.guardrails_triggered:
        yield findings.fail(
            CheckName.RULESETS,
            Reason.RULESET_GUARDRAIL,
            f"{guard.invariant_id}: {guard.detail}",
            subject=f"{ruleset.ruleset}:{guard.invariant_id}",
        )
    for conflict in result.conflicts:
        if not conflict.resolved_by:
            yield findings.fail(
                CheckName.RULESETS,
                Reason.RULESET_CONFLICT,
                f"{', '.join(conflict.rule_ids)}: {conflict.rationale}",
                subject=f"{ruleset.ruleset}:{conflict.rule_ids[0]}",
            )
    deciding = {rule for aspect in result.decided for rule in aspect.rule_ids}
    for match in result.matches:
        if match.mandatory and match.rule_id in deciding and not _is_met(case, match):
            yield _against(ruleset, match)


def _against(ruleset: RulesetDocument, match: RuleMatch) -> Finding:
    subject = f"{ruleset.ruleset}:{match.rule_id}"
    why = f" {match.justification}." if match.justification else ""
    if match.action_proposal.action == DENY:
        said = f"The mandatory rule {match.rule_id} says no.{why}"
        return findings.fail(CheckName.RULESETS, Reason.RULESET_DENIES, said, subject=subject)
    said = f"The mandatory rule {match.rule_id} asks for {match.action_proposal.action}.{why}"
    return findings.refer(CheckName.RULESETS, Reason.RULESET_REQUIRES, said, subject=subject)


def _is_met(case: Case, match: RuleMatch) -> bool:
    """Whether what is proposed is what the rule asks for: its action, with the parameters that it names."""
    wanted = match.action_proposal
    if wanted.action != case.kind.kind:
        return False
    named = {name: case.proposal.params[name] for name in wanted.params if name in case.proposal.params}
    return canonical.encode(named) == canonical.encode(wanted.params)


def features_of(case: Case, ruleset: RulesetDocument) -> dict[str, Any]:
    """The features that have a value of their type."""
    found = {}
    for name, feature in ruleset.features.items():
        if feature.value is None:
            continue
        try:
            value = canonical.normalise(language.compile_expression(feature.value).evaluate(case.names))
        except ExpressionError:
            continue
        if evaluate.fits(feature, value):
            found[name] = value
    return found
