"""The decision package that a proposal names, as a part of its evidence: words of the runtime."""

from audit import canonical
from escalations.advice_contracts import (
    AdviceEvidence,
    AlternativeEvidence,
    ConsensusEvidence,
    ConsultedEvidence,
    DroppedEvidence,
    RuleMatchEvidence,
    RuleOutputEvidence,
)
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.advice.queries import packages, rule_outputs
from runtime.contracts.decision import DecisionPackage
from runtime.contracts.proposal import ProposalDocument
from runtime.flows.models import Flow


def of_proposal(flow: Flow, asked: ProposalDocument) -> AdviceEvidence | None:
    """The package that a proposal names, with the rule output that it stands on; None where it names none.

    A row that the ledger did not record as it is now is named and not shown: nobody recommended that.
    """
    if asked.decision_id is None:
        return None
    row = packages.get_package(flow=flow, decision_id=asked.decision_id)
    if row is None:
        return AdviceEvidence(decision_id=asked.decision_id, differs=("decisionpackagerow",))
    differs = _differing(row)
    if differs:
        return AdviceEvidence(decision_id=asked.decision_id, differs=differs)
    package = packages.document_of(row)
    selected = package.selected_action
    action, params = ("", {}) if selected is None else (selected.name, dict(selected.parameters))
    proposed = canonical.encode([asked.policy_kind, asked.params])
    return AdviceEvidence(
        decision_id=package.decision_id,
        package_digest=canonical.digest(bytes(row.body)),
        method=package.method,
        action=action,
        params=params,
        expected_utility=package.expected_utility,
        confidence=package.confidence_score,
        needs_person=package.human_review_required,
        is_followed=canonical.encode([action, params]) == proposed,
        alternatives=tuple(
            AlternativeEvidence(
                id=each.id,
                action=each.action.name,
                params=dict(each.action.parameters),
                expected_utility=each.expected_utility,
                confidence=each.confidence,
                trade_offs=tuple((part.objective, part.difference) for part in each.trade_offs),
            )
            for each in package.alternatives
        ),
        dropped=tuple(DroppedEvidence(id=each.id, reason=each.reason) for each in package.dropped),
        rules=None if row.rule_output is None else _rules(row.rule_output),
        consulted=_consulted(package),
        consensus=_consensus(package),
    )


def _consulted(package: DecisionPackage) -> tuple[ConsultedEvidence, ...]:
    found = package.consensus
    dissenting = set() if found is None else {each.provider for each in found.dissent}
    return tuple(
        ConsultedEvidence(
            provider=each["provider"],
            capability=said["capability"],
            state=said["state"],
            counts=said["counts"],
            dissents=each["provider"] in dissenting,
            choice=said["choice"] or "",
            confidence=said["confidence"],
            reason=said["reason"],
            dissent=tuple(said["dissent"]),
        )
        for each in package.consultations
        for said in (each["consensus_metrics"],)
    )


def _consensus(package: DecisionPackage) -> ConsensusEvidence | None:
    """None where nobody was consulted: such evidence has the bytes of before."""
    found = package.consensus
    if found is None or not found.asked:
        return None
    return ConsensusEvidence(
        asked=found.asked,
        answered=found.answered,
        abstained=found.abstained,
        leading=found.leading or "",
        agreement=found.agreement,
        support=found.support,
        dispersion=found.dispersion,
    )


def _rules(row: RuleOutput) -> RuleOutputEvidence:
    output = rule_outputs.document_of(row)
    return RuleOutputEvidence(
        rule_output_id=output.rule_output_id,
        ruleset=f"{output.ruleset}@{output.ruleset_version}",
        status=output.status,
        matches=tuple(
            RuleMatchEvidence(
                rule_id=match.rule_id,
                version=match.rule_version,
                decides=match.decides,
                action=match.action_proposal.action,
                params=dict(match.action_proposal.params),
                certainty=match.certainty,
                mandatory=match.mandatory,
                justification=match.justification,
            )
            for match in output.matches
        ),
        guardrails=tuple((guard.invariant_id, guard.detail) for guard in output.guardrails_triggered),
        conflicts=tuple((", ".join(each.rule_ids), each.rationale) for each in output.conflicts),
        residuals=output.residuals,
    )


def _differing(row: DecisionPackageRow) -> tuple[str, ...]:
    """Which of the two rows is not what the entries of the flow say."""
    compared = (
        packages.compare(row),
        None if row.rule_output is None else rule_outputs.compare(row.rule_output),
    )
    return tuple(mismatch.row for mismatch in compared if mismatch is not None)
