"""Post-mortems: saved in versions, and one of them signed off by the lead as the incident is closed."""

from uuid import UUID

from audit import actors, events, ledger, queries
from audit.payload_keys import PayloadClass
from runtime.contracts.post_mortem import PostMortemBody
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions
from runtime.incidents.models import PostMortem
from runtime.incidents.services import journal
from runtime.incidents.services.journal import IncidentJournal


@transactions.retried
def save(
    *, tenant: str, incident_id: UUID, body: PostMortemBody, after_version: int, author: int
) -> PostMortem | Problem:
    """Save the next version; 409 where there is a later one than the author has seen."""
    book = journal.lock(tenant=tenant, incident_id=incident_id, actor=actors.user(author))
    if isinstance(book, Problem):
        return book
    newest = PostMortem.objects.filter(incident=book.incident).first()
    held = 0 if newest is None else newest.version
    if held != after_version:
        detail = (
            f"Version {held} was saved since you opened the form. Your words are still in it: look at the "
            "new version beside, and save again."
        )
        return Problem(code=ProblemCode.POST_MORTEM_CHANGED, detail=detail)
    row = PostMortem.objects.create(
        incident=book.incident,
        version=held + 1,
        author_id=author,
        commitment=ledger.commit_payload(tenant=tenant, data_class=PayloadClass.PEOPLE, body=body.to_bytes()),
        saved_at=book.at,
    )
    book.add(
        events.PostMortemSaved(
            incident_id=str(book.incident.pk), version=row.version, text_commitment=row.commitment
        )
    )
    book.write()
    return row


def sign(book: IncidentJournal, *, author: int, is_needed: bool) -> Problem | None:
    """Sign off the newest version by the lead; where one is needed, refuse anybody else and anything less.

    Where none is needed, a version is signed only if the lead closes the incident.
    """
    row = PostMortem.objects.filter(incident=book.incident).first()
    is_lead = book.incident.lead_id == author
    if is_needed and not is_lead:
        detail = f"Only its lead closes an incident of {book.incident.severity}, and signs the post-mortem."
        return Problem(code=ProblemCode.POST_MORTEM_REQUIRED, detail=detail)
    if row is None:
        detail = f"An incident of {book.incident.severity} needs a post-mortem. Write it first."
        return Problem(code=ProblemCode.POST_MORTEM_REQUIRED, detail=detail) if is_needed else None
    if is_needed and (missing := _missing(book.incident.tenant, row)):
        detail = f"The post-mortem says nothing of: {', '.join(missing)}. Complete it first."
        return Problem(code=ProblemCode.POST_MORTEM_REQUIRED, detail=detail)
    if not is_lead:
        return None
    row.signed_at, row.signed_by = book.at, book.actor
    row.save(update_fields=["signed_at", "signed_by"])
    book.add(
        events.PostMortemSigned(
            incident_id=str(book.incident.pk), version=row.version, text_commitment=row.commitment
        )
    )
    return None


def _missing(tenant: str, row: PostMortem) -> tuple[str, ...]:
    held = queries.list_bodies(tenant=tenant, commitments=[row.commitment]).get(row.commitment)
    if not held:
        return ("everything: its words were erased, or are not what was recorded",)
    return PostMortemBody.from_bytes(held).missing
