"""The evidence of an interrupted workflow as the decision page shows it, from the stored evidence alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from audit import canonical
from escalations.evidence_contracts import InterruptEvidence
from escalations.presenters import Piece, segments
from escalations.views.evidence_page import AnswerShown
from runtime.contracts.workflow import INTERRUPT
from runtime.core.views import labels
from runtime.kernel import effects


@dataclass(frozen=True, slots=True)
class InterruptView:
    """Everything that the evidence sections show. `demands` is empty where the router only called a person.

    `refused` is the step that checkers refused, with `given` as its input. `reported` are input and output of
    the last step, as its agent claims them; `visits` how often each instruction was taken.
    """

    effect: Sequence[Piece]
    frozen_at: datetime | None
    workflow: str
    version: str
    digest: str
    policy: str
    demands: str
    message: str
    refused_by: Sequence[tuple[str, str]]
    refused: str
    given: str
    position: str
    reliability: int
    visits: Sequence[tuple[str, int]]
    reported: Sequence[tuple[str, str]]
    answers: Sequence[AnswerShown]
    manifest_version: str
    owner: str
    raw: str


def read(evidence: InterruptEvidence, *, body: bytes) -> InterruptView:
    """Build the view of the evidence; `body` is what is stored of it."""
    fold, cause, followed = evidence.fold, evidence.cause, evidence.followed
    reported: list[tuple[str, str]] = []
    if fold.last is not None:
        parts = (("Input", fold.last.input), ("Output", fold.last.output))
        reported = [(name, _visible(given)) for name, given in parts]
    return InterruptView(
        effect=segments(evidence),
        frozen_at=parse_datetime(evidence.frozen_at),
        workflow=followed.workflow,
        version=followed.version,
        digest=followed.digest,
        policy=cause.policy,
        demands="" if cause.demands == INTERRUPT else cause.demands,
        message=effects.visible(cause.message),
        refused_by=[(one.policy, effects.visible(one.message)) for one in cause.refused_by],
        refused="" if cause.refused is None else cause.refused.instruction,
        given="" if cause.refused is None else _visible(cause.refused.input),
        position=fold.position or "",
        reliability=fold.reliability,
        visits=sorted(fold.visits.items()),
        reported=reported,
        answers=[
            AnswerShown(
                number=item.number,
                question=labels.visible_lines(item.question),
                answer=labels.visible_lines(item.answer),
                payload_ref=item.payload_ref,
                answered_at=parse_datetime(item.answered_at),
            )
            for item in evidence.questions
        ],
        manifest_version=evidence.agent.manifest_version,
        owner=effects.visible(evidence.agent.owner),
        raw=labels.pretty(canonical.decode(body)),
    )


def _visible(given: Mapping[str, Any]) -> str:
    return effects.visible(canonical.encode(dict(given)).decode())
