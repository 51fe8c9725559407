"""Reads of consultations: what was asked and answered in a flow, as its entries record it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit import canonical, queries
from audit.events import Kind
from runtime.advice.models import Consultation
from runtime.contracts.consultation import ConsultationState, Consulted
from runtime.contracts.decision import Option
from runtime.flows.models import Flow

_KINDS = (Kind.CONSULTATION_ASKED, Kind.CONSULTATION_ENDED)
MOST_DISSENT = 20


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A consultation with what the entries of its flow say: only these count, whatever the row holds.

    `options` are those that it was asked about, None where the question was erased or changed.
    """

    consultation_id: str
    provider: str
    capability: str
    conversation_id: str
    message_id: str
    state: ConsultationState
    options: list[dict[str, Any]] | None
    answer: dict[str, Any] | None

    def seen(self, options: Sequence[Option]) -> Consulted:
        """As a recommendation about these options sees it. What is not as it was recorded does not count."""
        choice = None if self.answer is None else self.answer["answer"].get("choice")
        is_lost = self.state is ConsultationState.ANSWERED and choice is None
        said = {} if self.answer is None else self.answer["answer"]
        return Consulted(
            consultation_id=self.consultation_id,
            provider=self.provider,
            capability=self.capability,
            state=ConsultationState.DECLINED if is_lost else self.state,
            counts=self.options is not None and is_about(self.options, options),
            choice=choice,
            confidence=said.get("confidence"),
            reason=said.get("reason", ""),
            stated={} if self.answer is None else dict(self.answer.get("consensus_metrics", {})),
            dissent=() if self.answer is None else _dissent(self.answer),
        )


def plain(options: Sequence[Option]) -> list[dict[str, Any]]:
    """What providers are told of options: ids and actions, and nothing of how the agent values them."""
    return [{"id": one.id, "action": one.action.model_dump(mode="json")} for one in options]


def is_about(told: list[dict[str, Any]], options: Sequence[Option]) -> bool:
    """Whether these are the options that a provider was told of, in any order."""
    return _in_order(told) == _in_order(plain(options))


def open_all(flow: Flow, *, overdue: Collection[str] = ()) -> list[Opened]:
    """The consultations of a flow, oldest first, from its entries and the messages that they commit to.

    `overdue` are those that this transaction ends by their deadline, and whose entries are yet to be written.
    """
    told = queries.list_payloads(tenant=flow.tenant, stream=str(flow.pk), kinds=_KINDS)
    asked = [said for kind, said in told if kind == Kind.CONSULTATION_ASKED]
    if not asked:
        return []
    ends: dict[str, dict[str, Any]] = {}
    # The first end counts: a row that was set back lets nobody answer again.
    for kind, said in told:
        if kind == Kind.CONSULTATION_ENDED:
            ends.setdefault(said["consultation_id"], said)
    silent = {"state": ConsultationState.OVERDUE.value, "message_commitment": None}
    ends = dict.fromkeys(overdue, silent) | ends
    named = {said["message_commitment"] for _, said in told if said["message_commitment"]}
    bodies = queries.list_bodies(tenant=flow.tenant, commitments=named)
    return [_opened(said, ends.get(said["consultation_id"]), bodies) for said in asked]


def find_question(*, tenant: str, message_id: str) -> Consultation | None:
    """The consultation whose question is this message; None for any other message."""
    rows = Consultation.objects.select_related("provider", "request__conversation", "flow__agent")
    return rows.filter(tenant=tenant, request__message_id=message_id).first()


def list_rows(flow: Flow) -> list[Consultation]:
    """The rows of a flow, oldest first."""
    return list(Consultation.objects.select_related("provider").filter(flow=flow).order_by("request_id"))


def list_overdue(*, at: datetime, limit: int) -> list[UUID]:
    """Consultations whose deadline has passed without an answer, by id."""
    rows = Consultation.objects.filter(state=ConsultationState.ASKED, deadline__lte=at)
    return list(rows.order_by("deadline").values_list("pk", flat=True)[:limit])


def list_uncounted(*, limit: int) -> list[UUID]:
    """Consultations that have ended and do not count for their providers' health yet, oldest end first."""
    rows = Consultation.objects.filter(ended_at__isnull=False, counted_at__isnull=True)
    return list(rows.order_by("ended_at").values_list("pk", flat=True)[:limit])


def _opened(said: dict[str, Any], end: dict[str, Any] | None, bodies: dict[str, bytes | None]) -> Opened:
    question = _payload(bodies, said["message_commitment"])
    commitment = None if end is None else end["message_commitment"]
    return Opened(
        consultation_id=said["consultation_id"],
        provider=said["provider"],
        capability=said["capability"],
        conversation_id=said["conversation_id"],
        message_id=said["message_id"],
        state=ConsultationState.ASKED if end is None else ConsultationState(end["state"]),
        options=None if question is None else question["constraints"]["options"],
        answer=None
        if end is None or end["state"] != ConsultationState.ANSWERED
        else _payload(bodies, commitment),
    )


def _payload(bodies: dict[str, bytes | None], commitment: str | None) -> dict[str, Any] | None:
    """What a message says; None where it was erased, or is not what was committed to."""
    body = None if commitment is None else bodies.get(commitment)
    if not body:
        return None
    payload: dict[str, Any] = canonical.decode(body)["payload"]
    return payload


def _dissent(answer: dict[str, Any]) -> tuple[str, ...]:
    """What the voices of one provider said against its own answer."""
    told = answer.get("dissent_summaries", ())
    return tuple(one if isinstance(one, str) else str(one["summary"]) for one in told)[:MOST_DISSENT]


def _in_order(options: list[dict[str, Any]]) -> list[bytes]:
    return sorted(canonical.encode(one) for one in options)
