"""How the decision page shows what the runtime said beforehand, and which confidence the gate compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from escalations.advice_contracts import AdviceEvidence, ConsensusEvidence, ConsultedEvidence
from runtime.contracts.calibration import WHOLE_CONFIDENCE, UsedConfidence
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.flows.views import consultations_shown
from runtime.kernel import effects
from runtime.proposals.views import proposal_presenters

_METHODS: Mapping[str, str] = {
    "adopt": "adopted what the rules say",
    "refine": "chose among the options",
    "consult": "asks others first",
    "abstain": "abstained: a person should decide",
    "deny": "denied it",
}


@dataclass(frozen=True, slots=True)
class CalibratedView:
    """The stated confidence beside the one of the map; `is_lower` where the map's one counted."""

    stated: str
    mapped: str
    used: str
    is_lower: bool
    calibration: int
    pairs: int


@dataclass(frozen=True, slots=True)
class AlternativeView:
    """An option that was not selected. `params` are those that differ from what was selected."""

    id: str
    action: str
    params: Sequence[tuple[str, str]]
    utility: str
    confidence: str
    trade_offs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class MatchView:
    """A rule that holds, with what it proposes."""

    rule_id: str
    version: str
    decides: str
    does: str
    certainty: str
    mandatory: bool
    justification: str


@dataclass(frozen=True, slots=True)
class ConsultedView:
    """What one provider answered: claims of another agent."""

    provider: str
    capability: str
    state: Badge
    counts: bool
    dissents: bool
    choice: str
    confidence: str
    reason: str
    dissent: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConsensusView:
    """How far the providers agree: counts, and shares of those that answered in per cent."""

    asked: int
    answered: int
    abstained: int
    leading: str
    agreement: str
    support: str
    dispersion: str


@dataclass(frozen=True, slots=True)
class AdviceView:
    """The decision package of a proposal; `alternatives` are the best first."""

    decision_id: str
    method: str
    action: str
    params: Sequence[tuple[str, str]]
    utility: str
    confidence: str
    needs_person: bool
    is_followed: bool
    alternatives: Sequence[AlternativeView]
    dropped: Sequence[tuple[str, str]]
    ruleset: str
    status: str
    matches: Sequence[MatchView]
    guardrails: Sequence[tuple[str, str]]
    conflicts: Sequence[tuple[str, str]]
    residuals: Sequence[str]
    differs: Sequence[str]
    consulted: Sequence[ConsultedView]
    consensus: ConsensusView | None


def calibrated(used: UsedConfidence | None) -> CalibratedView | None:
    """The confidence that the gate compared; None where no map was asked."""
    if used is None:
        return None
    return CalibratedView(
        stated=_share(used.stated),
        mapped=_share(used.mapped),
        used=_share(used.used),
        is_lower=used.used < used.stated,
        calibration=used.calibration,
        pairs=used.pairs,
    )


def advice(found: AdviceEvidence | None, units: Mapping[str, str]) -> AdviceView | None:
    """What was recommended; None where the proposal names no decision package."""
    if found is None:
        return None
    rules = found.rules
    return AdviceView(
        decision_id=found.decision_id,
        method=_METHODS.get(found.method, found.method),
        action=found.action,
        params=proposal_presenters.pairs(found.params, units),
        utility=_number(found.expected_utility),
        confidence=_number(found.confidence),
        needs_person=found.needs_person,
        is_followed=found.is_followed,
        alternatives=[
            AlternativeView(
                id=each.id,
                action=each.action,
                params=proposal_presenters.pairs(_different(each.params, found.params), units),
                utility=_number(each.expected_utility),
                confidence=_number(each.confidence),
                trade_offs=[(name, f"{value:+g}") for name, value in each.trade_offs],
            )
            for each in found.alternatives
        ],
        dropped=[(each.id, effects.visible(each.reason)) for each in found.dropped],
        ruleset="" if rules is None else rules.ruleset,
        status="" if rules is None else rules.status,
        matches=[]
        if rules is None
        else [
            MatchView(
                rule_id=match.rule_id,
                version=match.version,
                decides=match.decides,
                does=_does(match.action, proposal_presenters.pairs(match.params, units)),
                certainty=_number(match.certainty),
                mandatory=match.mandatory,
                justification=match.justification,
            )
            for match in rules.matches
        ],
        guardrails=[] if rules is None else rules.guardrails,
        conflicts=[] if rules is None else rules.conflicts,
        residuals=[] if rules is None else rules.residuals,
        differs=found.differs,
        consulted=[_consulted(each) for each in found.consulted],
        consensus=_consensus(found.consensus),
    )


def _consulted(each: ConsultedEvidence) -> ConsultedView:
    return ConsultedView(
        provider=each.provider,
        capability=each.capability,
        state=labels.badge(consultations_shown.STATES, each.state),
        counts=each.counts,
        dissents=each.dissents,
        choice=each.choice,
        confidence=_number(each.confidence),
        reason=effects.visible(each.reason),
        dissent=[effects.visible(said) for said in each.dissent],
    )


def _consensus(found: ConsensusEvidence | None) -> ConsensusView | None:
    if found is None:
        return None
    return ConsensusView(
        asked=found.asked,
        answered=found.answered,
        abstained=found.abstained,
        leading=found.leading,
        agreement=_percent(found.agreement),
        support=_percent(found.support),
        dispersion=_number(found.dispersion),
    )


def _different(params: Mapping[str, Any], selected: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if selected.get(name) != value}


def _does(action: str, params: Sequence[tuple[str, str]]) -> str:
    named = ", ".join(f"{name} {value}" for name, value in params)
    return f"{action}: {named}" if named else action


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _share(millionths: int) -> str:
    return f"{millionths / WHOLE_CONFIDENCE:g}"
