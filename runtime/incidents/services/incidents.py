"""What people do with an incident: open it, move it on, link, note, and act on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from django.contrib.auth import get_user_model

from audit import actors, events
from audit.access import permissions
from audit.access.roles import Permission
from runtime.contracts.incident import (
    LIVE,
    LONGEST_TITLE,
    NEEDS_POST_MORTEM,
    IncidentState,
    LinkKind,
    Severity,
)
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, ports, transactions
from runtime.incidents.models import Incident, IncidentAction, IncidentLink, IncidentNote
from runtime.incidents.queries import linkable
from runtime.incidents.services import journal, post_mortems, texts
from runtime.incidents.services.journal import IncidentJournal
from runtime.kernel import incident_moves

MOST_LINKS = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be linked, as a person names it."""

    kind: LinkKind
    given: str


@transactions.retried
def open_incident(
    *,
    tenant: str,
    title: str,
    severity: Severity,
    author: int,
    lead: int | None,
    links: Sequence[Wanted] = (),
    note: str = "",
) -> Incident | Problem:
    """Open an incident by a person, with everything that it links from the start; all of it or nothing."""
    found = []
    for wanted in links:
        thing = linkable.find(tenant=tenant, kind=wanted.kind, given=wanted.given)
        if thing is None:
            return _nothing_to_link(wanted)
        found.append(thing)
    if (refused := _refuse_title(title) or _refuse_lead(lead)) is not None:
        return refused
    text = texts.check(note, what="what happened", longest=texts.LONGEST_NOTE) if note.strip() else None
    if isinstance(text, Problem):
        return text
    incident = Incident(
        tenant=tenant, title=title.strip(), severity=severity, lead_id=lead, opened_by=actors.user(author)
    )
    # Of a stream that does not exist yet no entry can be later.
    incident.opened_at = clock.now()
    incident.save(force_insert=True)
    book = IncidentJournal(incident=incident, actor=actors.user(author), at=incident.opened_at)
    book.add(
        events.IncidentOpened(
            incident_id=str(incident.pk),
            title=incident.title,
            severity=severity,
            lead=None if lead is None else actors.user(lead),
        )
    )
    for thing in found:
        book.link(thing)
    if text is not None:
        _note(book, author=author, text=text)
    ports.announce_incident(incident=incident, news="OPENED", at=book.at)
    book.write()
    return incident


@transactions.retried
def move(
    *, tenant: str, incident_id: UUID, to: IncidentState, reason: str, author: int
) -> Incident | Problem:
    """Move an incident to another state. The lead closes one of the two highest severities, and signs."""
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author), even_closed=True)
    if isinstance(book, Problem):
        return book
    incident, before = book.incident, IncidentState(book.incident.state)
    if not incident_moves.allows(before, to):
        detail = f"The incident is {before}; from there it cannot become {to}. Look at it again."
        return Problem(code=ProblemCode.INCIDENT_NOT_IN_THAT_STATE, detail=detail)
    if to is IncidentState.OPEN and (refused := _refuse_second(incident)) is not None:
        return refused
    if to is IncidentState.CLOSED:
        needs = incident.severity in NEEDS_POST_MORTEM
        refused = post_mortems.sign(book, author=author, is_needed=needs)
        if refused is not None:
            return refused
    _set_times(incident, to, book)
    incident.state = to
    incident.save(update_fields=["state", "mitigated_at", "resolved_at", "closed_at"])
    book.add(
        events.IncidentMoved(incident_id=str(incident.pk), from_state=before, to_state=to, reason=reason)
    )
    if to is IncidentState.CLOSED:
        ports.announce_incident(incident=incident, news="CLOSED", at=book.at)
    book.write()
    return incident


@transactions.retried
def edit(
    *,
    tenant: str,
    incident_id: UUID,
    title: str,
    severity: Severity,
    lead: int | None,
    reason: str,
    author: int,
) -> Incident | Problem:
    """Give it another title, severity or lead; what is as it was changes nothing."""
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author))
    if isinstance(book, Problem):
        return book
    incident, title = book.incident, title.strip()
    is_other_lead = lead != incident.lead_id
    if (refused := _refuse_title(title) or (_refuse_lead(lead) if is_other_lead else None)) is not None:
        return refused
    if (incident.title, incident.severity, incident.lead_id) == (title, severity, lead):
        return incident
    is_raised = not Severity(incident.severity).is_at_least(severity)
    incident.title, incident.severity, incident.lead_id = title, severity, lead
    incident.save(update_fields=["title", "severity", "lead"])
    book.add(
        events.IncidentEdited(
            incident_id=str(incident.pk),
            title=title,
            severity=severity,
            lead=None if lead is None else actors.user(lead),
            reason=reason,
        )
    )
    if is_raised:
        ports.announce_incident(incident=incident, news="RAISED", at=book.at)
    book.write()
    return incident


@transactions.retried
def link(*, tenant: str, incident_id: UUID, wanted: Wanted, author: int) -> Problem | None:
    """Link something else; what is linked already stays so."""
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author))
    if isinstance(book, Problem):
        return book
    found = linkable.find(tenant=tenant, kind=wanted.kind, given=wanted.given)
    if found is None:
        return _nothing_to_link(wanted)
    if book.incident.links.filter(removed_at=None).count() >= MOST_LINKS:
        detail = f"An incident links at most {MOST_LINKS} things."
        return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=detail)
    if book.link(found):
        book.write()
    return None


@transactions.retried
def unlink(*, tenant: str, incident_id: UUID, link_pk: int, reason: str, author: int) -> Problem | None:
    """Remove a link that was wrong: it counts no longer, and its entries stay."""
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author))
    if isinstance(book, Problem):
        return book
    row = IncidentLink.objects.filter(pk=link_pk, incident=book.incident, removed_at=None).first()
    if row is None:
        return Problem(code=ProblemCode.LINK_NOT_FOUND, detail="The incident does not link this any longer.")
    row.removed_at = book.at
    row.save(update_fields=["removed_at"])
    book.add(
        events.IncidentUnlinked(
            incident_id=str(book.incident.pk), link_kind=row.kind, ref=row.ref, reason=reason
        )
    )
    book.write()
    return None


@transactions.retried
def note(*, tenant: str, incident_id: UUID, text: str, author: int) -> Problem | None:
    """Write a note; also on a closed incident."""
    checked = texts.check(text, what="a note", longest=texts.LONGEST_NOTE)
    if isinstance(checked, Problem):
        return checked
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author), even_closed=True)
    if isinstance(book, Problem):
        return book
    _note(book, author=author, text=checked)
    book.write()
    return None


@transactions.retried
def add_action(
    *, tenant: str, incident_id: UUID, text: str, owner: int, due_on: date, author: int
) -> Problem | None:
    """Add something to do, with who does it until when."""
    checked = texts.check(text, what="what is to be done", longest=texts.LONGEST_ACTION)
    if isinstance(checked, Problem):
        return checked
    if (refused := _refuse_lead(owner)) is not None:
        return refused
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author))
    if isinstance(book, Problem):
        return book
    action = IncidentAction.objects.create(
        incident=book.incident,
        commitment=texts.keep(tenant=tenant, text=checked),
        owner_id=owner,
        due_on=due_on,
        added_at=book.at,
    )
    book.add(
        events.IncidentActionAdded(
            incident_id=str(book.incident.pk),
            action_id=str(action.pk),
            text_commitment=action.commitment,
            owner=actors.user(owner),
            due_on=due_on.isoformat(),
        )
    )
    book.write()
    return None


@transactions.retried
def finish_action(*, tenant: str, incident_id: UUID, action_id: UUID, author: int) -> Problem | None:
    """Note that an action is done, also after the incident was closed; a second time changes nothing."""
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author), even_closed=True)
    if isinstance(book, Problem):
        return book
    row = IncidentAction.objects.filter(pk=action_id, incident=book.incident).first()
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="The incident has no such action.")
    if row.done_at is not None:
        return None
    row.done_at, row.done_by = book.at, book.actor
    row.save(update_fields=["done_at", "done_by"])
    book.add(events.IncidentActionDone(incident_id=str(book.incident.pk), action_id=str(row.pk)))
    book.write()
    return None


def _note(book: IncidentJournal, *, author: int, text: str) -> None:
    row = IncidentNote.objects.create(
        incident=book.incident,
        author_id=author,
        commitment=texts.keep(tenant=book.incident.tenant, text=text),
        written_at=book.at,
    )
    book.add(
        events.IncidentNoted(
            incident_id=str(book.incident.pk), note_id=str(row.pk), text_commitment=row.commitment
        )
    )


def _set_times(incident: Incident, to: IncidentState, book: IncidentJournal) -> None:
    match to:
        case IncidentState.OPEN:
            incident.mitigated_at = incident.resolved_at = None
        case IncidentState.MITIGATED:
            incident.mitigated_at = book.at
        case IncidentState.RESOLVED:
            incident.resolved_at = book.at
        case IncidentState.CLOSED:
            incident.closed_at = book.at


def _refuse_second(incident: Incident) -> Problem | None:
    """A rule adds what it finds to one live incident: a second one beside it would get nothing."""
    if incident.rule_id is None or incident.state in LIVE:
        return None
    others = Incident.objects.of(incident.tenant).filter(
        rule_name=incident.rule_name, group_key=incident.group_key, state__in=LIVE
    )
    if not others.exists():
        return None
    detail = "Its rule has opened another incident since, which is still open. Work on that one."
    return Problem(code=ProblemCode.INCIDENT_NOT_IN_THAT_STATE, detail=detail)


def _refuse_title(title: str) -> Problem | None:
    text = title.strip()
    if text and len(text) <= LONGEST_TITLE and text.isprintable():
        return None
    detail = f"Enter a title of one line, of at most {LONGEST_TITLE} characters."
    return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=detail)


def _refuse_lead(pk: int | None) -> Problem | None:
    """Whoever leads an incident, or owes an action, must be able to work on it."""
    if pk is None:
        return None
    user = get_user_model().objects.filter(pk=pk, is_active=True).first()
    if user is not None and permissions.may(user, Permission.WORK_INCIDENTS):
        return None
    detail = "Choose a person who may work on incidents."
    return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=detail)


def _nothing_to_link(wanted: Wanted) -> Problem:
    detail = f"There is no {wanted.kind.value.lower()} {wanted.given[:80]!r}. Nothing was changed."
    return Problem(code=ProblemCode.LINK_NOT_FOUND, detail=detail)
