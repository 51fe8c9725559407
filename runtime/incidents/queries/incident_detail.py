"""One incident with all that its page shows; only words that are what the ledger committed to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError

from audit import actors, canonical, queries
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.contracts.incident import IncidentState, LinkKind
from runtime.contracts.post_mortem import PostMortemBody
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.incidents.models import Incident, IncidentAction, IncidentLink, IncidentNote, PostMortem

MOST_ENTRIES: Final = 300
MOST_NOTES: Final = 200
ERASED: Final = "The words were erased."
UNTRUSTED: Final = "What is stored here is not what the ledger recorded."
# What a reader of an incident looks for in a flow.
_KEYS_OF_FLOWS: Final = (
    Kind.FLOW_OPENED,
    Kind.VERDICT_GIVEN,
    Kind.ESCALATION_OPENED,
    Kind.ESCALATION_DECIDED,
    Kind.ESCALATION_EXPIRED,
    Kind.INTENT_CREATED,
    Kind.INTENT_BLOCKED,
    Kind.INTENT_IN_DOUBT,
    Kind.INTENT_CANCELLED,
    Kind.ATTEMPT_FINISHED,
    Kind.ATTEMPT_REPORTED_LATE,
    Kind.EFFECT_STATED,
    Kind.SAGA_DIRTIED,
    Kind.SAGA_COMPENSATED,
    Kind.OUTCOME_RECORDED,
    Kind.REVIEW_FLAGGED,
    Kind.ROW_MISMATCHED,
)
_KEYS_OF_AGENTS: Final = (Kind.AGENT_STATUS_CHANGED, Kind.AGENT_STOPPED, Kind.AGENT_RESUMED)
_BEFORE: Final = timedelta(days=1)  # what happened to a linked agent before the incident


@dataclass(frozen=True, slots=True)
class Worded:
    """A row whose words are in a payload."""

    row: Any
    words: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class PostMortemShown:
    """A version; without a body its words were erased, or are not what was recorded."""

    row: PostMortem
    body: PostMortemBody | None


def get(*, tenant: str, incident_id: UUID) -> Incident | None:
    """The incident, or None."""
    return Incident.objects.of(tenant).select_related("lead", "rule").filter(pk=incident_id).first()


def compare(incident: Incident) -> list[Mismatch]:
    """Where the row differs from the last entries about it, in one query."""
    kinds = (Kind.INCIDENT_OPENED, Kind.INCIDENT_EDITED, Kind.INCIDENT_MOVED)
    told = queries.list_payloads(tenant=incident.tenant, stream=actors.incident(incident.pk), kinds=kinds)
    recorded: dict[str, Any] = {}
    for kind, payload in told:
        if kind is Kind.INCIDENT_MOVED:
            recorded["state"] = payload["to_state"]
        else:
            recorded |= {name: payload[name] for name in ("title", "severity", "lead")}
            recorded.setdefault("state", IncidentState.OPEN.value)
    lead = None if incident.lead_id is None else actors.user(incident.lead_id)
    held = {
        "title": incident.title,
        "severity": incident.severity,
        "lead": lead,
        "state": incident.state,
    }
    return [
        mismatches.of_values(f"incident.{name}", str(incident.pk), recorded.get(name), value)
        for name, value in held.items()
        if recorded.get(name, mismatches.NOT_RECORDED) != value
    ]


def list_links(incident: Incident) -> Sequence[IncidentLink]:
    """What it links now, by kind and in the order in which it was linked."""
    order = {kind.value: place for place, kind in enumerate(LinkKind)}
    return sorted(incident.links.filter(removed_at=None).order_by("pk"), key=lambda row: order[row.kind])


def list_notes(incident: Incident) -> Sequence[Worded]:
    """The newest notes, the newest first."""
    rows = IncidentNote.objects.filter(incident=incident).select_related("author")
    return _worded(incident.tenant, list(rows.order_by("-note_id")[:MOST_NOTES]))


def list_actions(incident: Incident) -> Sequence[Worded]:
    """What is to be done, the next due date first."""
    rows = IncidentAction.objects.filter(incident=incident).select_related("owner")
    return _worded(incident.tenant, list(rows))


def list_post_mortems(incident: Incident) -> Sequence[PostMortem]:
    """Every version, the newest first."""
    return list(PostMortem.objects.filter(incident=incident).select_related("author"))


def get_post_mortem(incident: Incident, *, version: int | None = None) -> PostMortemShown | None:
    """A version of the post-mortem: the signed one, else the newest; None where there is none."""
    rows = list_post_mortems(incident)
    if version is not None:
        rows = [row for row in rows if row.version == version]
    if not rows:
        return None
    row = next((each for each in rows if each.signed_at is not None), rows[0])
    held = queries.list_bodies(tenant=incident.tenant, commitments=[row.commitment]).get(row.commitment)
    try:
        return PostMortemShown(row, PostMortemBody.from_bytes(held) if held else None)
    except (ValidationError, canonical.CanonicalError):
        return PostMortemShown(row, None)


def list_entries(incident: Incident, links: Sequence[IncidentLink]) -> tuple[list[LedgerEntry], bool]:
    """Its entries and the key entries of what it links, oldest first; and whether some are left out.

    Each part is asked for by stream and kind, so no query reads the ledger for them.
    """
    flows = {str(row.flow_id) for row in links if row.flow_id is not None}
    agents = {actors.agent(row.ref) for row in links if row.kind == LinkKind.AGENT}
    entries = LedgerEntry.objects.filter(tenant=incident.tenant).order_by()
    found = list(entries.filter(stream=actors.incident(incident.pk)))
    if flows:
        found += entries.filter(stream__in=sorted(flows), kind__in=_KEYS_OF_FLOWS)
    if agents:
        since = incident.opened_at - _BEFORE
        found += entries.filter(stream__in=sorted(agents), kind__in=_KEYS_OF_AGENTS, at__gte=since)
    found.sort(key=lambda entry: (entry.at, entry.pk))
    return found[-MOST_ENTRIES:], len(found) > MOST_ENTRIES


def _worded(tenant: str, rows: Sequence[Any]) -> Sequence[Worded]:
    bodies = queries.list_bodies(tenant=tenant, commitments=[row.commitment for row in rows])
    return [_with_words(row, bodies) for row in rows]


def _with_words(row: Any, bodies: Mapping[str, bytes | None]) -> Worded:
    held = bodies.get(row.commitment)
    if held == b"":
        return Worded(row, ERASED, is_whole=False)
    try:
        text = canonical.decode(held) if held else None
    except canonical.CanonicalError:
        text = None
    return (
        Worded(row, text, is_whole=True) if isinstance(text, str) else Worded(row, UNTRUSTED, is_whole=False)
    )
