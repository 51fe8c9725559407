"""What a choice comes to once those are heard who were consulted (IDE 3.4, the Consultation Manager).

Pure. Answers are claims of providers: they lower the confidence or lead to a person, and permit nothing.
"""

from dataclasses import dataclass
from typing import Any

from runtime.contracts.consultation import Consensus, ConsultationState, Consulted
from runtime.contracts.decision import ActionFacts, ConsultationInput, Method
from runtime.kernel import consensus

# What packages say that were made before anybody could be consulted.
NO_CAPABILITY = "Nobody was consulted: no capability for consultations is registered."
_DECIDED = (Method.ADOPT, Method.REFINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard:
    """A choice before the answers: the id of the selected option, empty where there is none."""

    method: Method
    option: str
    confidence: float
    has_others: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The choice after them. `why` says why a person is needed, `note` who was consulted."""

    method: Method
    confidence: float
    why: str
    found: Consensus | None
    note: str


def hear(talk: ConsultationInput | None, facts: ActionFacts, choice: Unheard) -> Heard:
    """The choice with what was answered; without `talk` as it was before anybody could be consulted."""
    if talk is None:
        why = _why_person(facts, choice.confidence) if choice.method in _DECIDED else choice.why
        return Heard(
            method=_restricted(choice.method, why),
            confidence=choice.confidence,
            why=why,
            found=None,
            note=NO_CAPABILITY,
        )
    found = consensus.measure(talk.consulted, selected=choice.option or None)
    confidence, why = consensus.lowered(choice.confidence, found), choice.why
    if choice.method in _DECIDED:
        why = consensus.objection(found, selected=choice.option) or _why_person(facts, confidence)
    method = _restricted(choice.method, why)
    asking = _why_consult(talk, found, choice, is_unclear=choice.has_others or method is Method.ABSTAIN)
    return Heard(
        method=Method.CONSULT if asking else method,
        confidence=confidence,
        why=asking or why,
        found=found,
        note=_note(talk, found),
    )


def consultations(talk: ConsultationInput | None) -> tuple[dict[str, Any], ...]:
    """Each consultation with the three members of IAE 3.3.3; its metrics are what the provider said."""
    return tuple(
        {
            "provider": one.provider,
            "consultation_id": one.consultation_id,
            "consensus_metrics": _metrics(one),
        }
        for one in (() if talk is None else talk.consulted)
    )


def _restricted(method: Method, why: str) -> Method:
    return Method.ABSTAIN if why and method in _DECIDED else method


def _why_person(facts: ActionFacts, confidence: float) -> str:
    if confidence < facts.threshold:
        return (
            f"The confidence is below the threshold {facts.threshold:g} of the risk tier {facts.risk_tier}."
        )
    return f"Risk tier {facts.risk_tier} always needs a person." if facts.needs_person else ""


def _why_consult(talk: ConsultationInput, found: Consensus, choice: Unheard, *, is_unclear: bool) -> str:
    """Why others are heard first; empty where the choice stands without them, and where it is a no."""
    if not choice.option or choice.method is Method.DENY:
        return ""
    waits = sum(one.counts and one.state is ConsultationState.ASKED for one in talk.consulted)
    if waits:
        return f"Of {found.asked} that are consulted, {waits} may still answer. Decide again then."
    if talk.wanted and talk.providers and is_unclear and not found.asked:
        return (
            f"The choice is not clear: {len(talk.providers)} are consulted. Decide again once they answered."
        )
    return ""


def _note(talk: ConsultationInput, found: Consensus) -> str:
    others = len(talk.consulted) - found.asked
    about = f" {others} were asked about other options and do not count." if others else ""
    if not found.asked:
        return f"Nobody has answered about these options.{about} {talk.why_none}".rstrip()
    return (
        f"Of {found.asked} that were consulted, {found.answered} answered and {found.abstained} abstained. "
        f"What they say are claims: they can lower the confidence, and permit nothing.{about}"
    )


def _metrics(one: Consulted) -> dict[str, Any]:
    """What one provider said; its own metrics under `stated`."""
    return {
        "capability": one.capability,
        "state": one.state.value,
        "counts": one.counts,
        "choice": one.choice,
        "confidence": one.confidence,
        "reason": one.reason,
        "stated": dict(one.stated),
        "dissent": list(one.dissent),
    }
