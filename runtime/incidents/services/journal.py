"""An incident under its lock: what changes in it, and the entries that record it, in one transaction."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from audit import actors, events, ledger
from runtime.contracts.incident import IncidentState, LinkKind
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock
from runtime.incidents.models import Incident, IncidentLink
from runtime.incidents.queries.linkable import Linkable


@dataclass(kw_only=True)
class IncidentJournal:
    """What happens to one incident at one time; `write` appends it to the incident's stream."""

    incident: Incident
    actor: str
    at: datetime
    _events: list[events.Event] = field(default_factory=list)

    def add(self, *given: events.Event) -> None:
        """Record these when it is written, in this order."""
        self._events += given

    def link(self, found: Linkable) -> bool:
        """Link something; False where it is linked already."""
        rows = IncidentLink.objects.filter(incident=self.incident, kind=found.kind, ref=found.ref)
        if rows.filter(removed_at=None).exists():
            return False
        IncidentLink.objects.create(
            incident=self.incident,
            kind=found.kind,
            ref=found.ref,
            flow_id=found.dfid,
            linked_by=self.actor,
            linked_at=self.at,
        )
        self.add(
            events.IncidentLinked(
                incident_id=str(self.incident.pk),
                link_kind=found.kind,
                ref=found.ref,
                dfid=None if found.dfid is None else str(found.dfid),
            )
        )
        return True

    def write(self) -> None:
        """Append what was added; the last lock of the transaction is the stream's head."""
        ledger.append_to(
            tenant=self.incident.tenant,
            stream=actors.incident(self.incident.pk),
            actor=self.actor,
            at=self.at,
            events=self._events,
        )


def begin(*, incident: Incident, actor: str) -> IncidentJournal:
    """A journal whose time is that of its entries. The caller holds the incident's lock, or has made it."""
    at = ledger.time_of_next(tenant=incident.tenant, stream=actors.incident(incident.pk), at=clock.now())
    return IncidentJournal(incident=incident, actor=actor, at=at)


def lock(
    *, tenant: str, incident_id: UUID, actor: str, even_closed: bool = False
) -> IncidentJournal | Problem:
    """Lock an incident; 404 for none, 409 for one that is closed."""
    rows = Incident.objects.of(tenant).select_for_update(of=("self",))
    incident = rows.filter(pk=incident_id).first()
    if incident is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No incident has this id.")
    if incident.state == IncidentState.CLOSED and not even_closed:
        detail = "This incident is closed. A note can still be added to it."
        return Problem(code=ProblemCode.INCIDENT_NOT_IN_THAT_STATE, detail=detail)
    return begin(incident=incident, actor=actor)


def link_of(kind: LinkKind, ref: str, dfid: UUID | None = None) -> Linkable:
    """What a service has found itself."""
    return Linkable(kind, ref, dfid)
