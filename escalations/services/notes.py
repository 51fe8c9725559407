"""Notes: written once, on the stream of what they are about. Nothing is ever decided by one."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from audit import actors, canonical, events, ledger
from audit.payload_keys import PayloadClass
from escalations import note_text
from escalations.contracts import NotePurpose
from escalations.models import Escalation, Note, NoteMention
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.core.ids import new_id
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal
from runtime.registry.models import Agent


def store(
    *,
    tenant: str,
    purpose: NotePurpose,
    author: Any,
    text: str,
    at: datetime,
    event: Callable[..., events.Event],
    **about: Any,
) -> events.Event:
    """Keep a text that `note_text.check` gave, in the caller's transaction; returns its entry.

    `event` takes `note_id`, `text_commitment` and `mentions`; `about` are the further columns of the row.
    """
    mentioned = list(
        User.objects.filter(is_active=True, username__in=note_text.names_in(text)).order_by("pk")
    )
    commitment = ledger.commit_payload(
        tenant=tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(text)
    )
    note = Note.objects.create(
        note_id=new_id(),
        tenant=tenant,
        purpose=purpose,
        author=author,
        commitment=commitment,
        written_at=at,
        **about,
    )
    NoteMention.objects.bulk_create([NoteMention(note=note, user=user) for user in mentioned])
    return event(
        note_id=note.note_id,
        text_commitment=commitment,
        mentions=[actors.user(user.pk) for user in mentioned],
    )


@transactions.retried
def write_on_flow(
    *, tenant: str, dfid: UUID, author: Any, text: str, escalation_id: UUID | None = None
) -> Problem | None:
    """Write a note beside a flow, or beside one of its escalations."""
    checked = note_text.check(text, NotePurpose.NOTE)
    if isinstance(checked, Problem):
        return checked
    flow = locks.lock_one(dfid=dfid, tenant=tenant)
    if flow is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No flow has this id.")
    journal = Journal(flow=flow, actor=actors.user(author.pk), at=clock.now())
    journal.add(
        store(
            tenant=tenant,
            purpose=NotePurpose.NOTE,
            author=author,
            text=checked,
            at=journal.at,
            event=partial(
                events.NoteWritten, escalation_id=None if escalation_id is None else str(escalation_id)
            ),
            flow=flow,
            escalation_id=escalation_id,
        )
    )
    journal.write()
    return None


def write_on_escalation(*, tenant: str, escalation_id: UUID, author: Any, text: str) -> Problem | None:
    """Write a note beside an escalation; it is in the stream of its flow."""
    rows = Escalation.objects.of(tenant).filter(escalation_id=escalation_id)
    dfid = rows.values_list("flow_id", flat=True).first()
    if dfid is None:
        return Problem(code=ProblemCode.ESCALATION_NOT_FOUND, detail="No escalation has this id.")
    return write_on_flow(tenant=tenant, dfid=dfid, author=author, text=text, escalation_id=escalation_id)


@transactions.retried
def write_on_agent(*, tenant: str, agent_id: str, author: Any, text: str) -> Problem | None:
    """Write a note beside an agent."""
    checked = note_text.check(text, NotePurpose.NOTE)
    if isinstance(checked, Problem):
        return checked
    agent = Agent.objects.of(tenant).filter(agent_id=agent_id).first()
    if agent is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No agent has this id.")
    _append(
        tenant,
        actors.agent(agent_id),
        author,
        lambda at: store(
            tenant=tenant,
            purpose=NotePurpose.NOTE,
            author=author,
            text=checked,
            at=at,
            event=events.NoteWritten,
            agent=agent,
        ),
    )
    return None


@transactions.retried
def hand_over_shift(*, tenant: str, author: Any, text: str) -> Problem | None:
    """Write a note for whoever works next."""
    checked = note_text.check(text, NotePurpose.SHIFT)
    if isinstance(checked, Problem):
        return checked
    _append(
        tenant,
        actors.SYSTEM,
        author,
        lambda at: store(
            tenant=tenant,
            purpose=NotePurpose.SHIFT,
            author=author,
            text=checked,
            at=at,
            event=events.ShiftHandedOver,
        ),
    )
    return None


def _append(tenant: str, stream: str, author: Any, make: Callable[[datetime], events.Event]) -> None:
    at = ledger.time_of_next(tenant=tenant, stream=stream, at=clock.now())
    ledger.append_to(tenant=tenant, stream=stream, actor=actors.user(author.pk), at=at, events=[make(at)])
