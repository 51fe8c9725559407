"""Consultations as the page of a flow shows them: whom the agent asked, and what they claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runtime.advice.queries import consultations, packages
from runtime.advice.queries.consultations import Opened
from runtime.contracts.consultation import Consensus, ConsultationState
from runtime.core.views import labels
from runtime.core.views.labels import Badge
from runtime.flows.models import Flow
from runtime.kernel import effects

STATES: Final[Mapping[str, Badge]] = {
    ConsultationState.ASKED: Badge("info", "wait", "Asked"),
    ConsultationState.ANSWERED: Badge("ok", "check", "Answered"),
    ConsultationState.DECLINED: Badge("warn", "cross", "Declined"),
    ConsultationState.OVERDUE: Badge("warn", "clock", "No answer in time"),
}


@dataclass(frozen=True, slots=True)
class ConsultedView:
    """One provider: what it was asked for, and its answer. Words are untrusted text."""

    provider: str
    capability: str
    state: Badge
    choice: str
    confidence: str
    reason: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class ConsultationsView:
    """Everybody who was consulted, and how far they agree as the newest recommendation counted it."""

    voices: Sequence[ConsultedView]
    consensus: Consensus | None
    agreement: str


def of_flow(flow: Flow) -> ConsultationsView | None:
    """None for a flow in which nobody was consulted."""
    opened = consultations.open_all(flow)
    if not opened:
        return None
    found = _consensus(flow)
    share = None if found is None else found.agreement
    return ConsultationsView(
        voices=[_voice(each) for each in opened],
        consensus=found,
        agreement="" if share is None else f"{share:.0%}",
    )


def _consensus(flow: Flow) -> Consensus | None:
    """What the newest package that is as it was recorded counted; None where no answer is in it yet."""
    row = packages.newest(flow)
    if row is None or packages.compare(row) is not None:
        return None
    found = packages.document_of(row).consensus
    return None if found is None or not found.answered else found


def _voice(each: Opened) -> ConsultedView:
    said = each.seen(())
    return ConsultedView(
        provider=each.provider,
        capability=each.capability,
        state=labels.badge(STATES, said.state),
        choice=effects.visible(said.choice or ""),
        confidence="" if said.confidence is None else f"{said.confidence:g}",
        reason=effects.visible(said.reason),
        conversation_id=each.conversation_id,
    )
