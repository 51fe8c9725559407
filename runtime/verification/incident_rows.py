"""Incidents with all that belongs to them, and their rules, against their entries, for `verify_ledger`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from audit import actors
from audit.events import INCIDENT_KINDS, Kind
from audit.verification.row_checks import Entry, Found, LastingRows, NotProved
from runtime.contracts.incident import IncidentState, RuleState
from runtime.incidents.models import (
    Incident,
    IncidentAction,
    IncidentLink,
    IncidentNote,
    IncidentRuleRow,
    PostMortem,
)

_RULES = frozenset({Kind.INCIDENT_RULE_DRAFTED, Kind.INCIDENT_RULE_ACTIVATED, Kind.INCIDENT_RULE_ENDED})
_DERIVED = "which entries a rule has counted so far follows from the entries"


class IncidentRowCheck(LastingRows):
    """Every row, and none that no entry records. Incidents are few, so their entries are kept."""

    kinds = INCIDENT_KINDS
    not_proved = (
        NotProved("runtime_rulecursor", (), _DERIVED),
        NotProved("runtime_rulesighting", (), _DERIVED),
    )

    def __init__(self) -> None:
        self._entries: dict[Kind, list[Entry]] = defaultdict(list)

    def take(self, entry: Entry) -> None:
        """Keep the entry by its kind, in the order of its stream."""
        self._entries[Kind(entry.kind)].append(entry)

    def comparisons(self) -> Mapping[str, Callable[[Found], None]]:
        """Every table."""
        return {
            "incidents": self._incidents,
            "links": self._links,
            "incident notes": self._notes,
            "incident actions": self._actions,
            "post-mortems": self._post_mortems,
            "incident rules": self._rules,
        }

    def _of(self, *kinds: Kind) -> list[Entry]:
        return sorted(
            (entry for kind in kinds for entry in self._entries[kind]),
            key=lambda entry: (entry.tenant, entry.stream, entry.seq),
        )

    def _grouped(self, field: str, *kinds: Kind) -> dict[str, list[Entry]]:
        grouped: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._of(*kinds):
            grouped[entry.payload[field]].append(entry)
        return grouped

    def _incidents(self, found: Found) -> None:
        rows = {str(row.pk): row for row in Incident.objects.select_related("rule")}
        moves = self._grouped("incident_id", Kind.INCIDENT_MOVED)
        edits = self._grouped("incident_id", Kind.INCIDENT_EDITED)
        joins = self._grouped("incident_id", Kind.INCIDENT_JOINED)
        opened = self._of(Kind.INCIDENT_OPENED)
        for entry, row in found.rows_of(opened, rows, lambda told: told["incident_id"], "incident {title}"):
            key, told = entry.payload["incident_id"], entry.payload
            last = (edits.get(key) or [entry])[-1]
            for name in ("title", "severity", "lead"):
                found.same(last, f"incident.{name}", last.payload[name], _held(row, name))
            _compare_moves(found, entry, row, moves.get(key, []))
            found.same(entry, "incident.tenant", entry.tenant, row.tenant)
            found.same(entry, "incident.stream", entry.stream, actors.incident(key))
            found.same(entry, "incident.opened_by", entry.actor, row.opened_by)
            found.by_then(entry, entry, "incident.opened_at", row.opened_at)
            found.same(entry, "incident.rule", told["rule"], row.rule.name if row.rule else "")
            found.same(entry, "incident.rule_name", told["rule"], row.rule_name)
            version = row.rule.version if row.rule else None
            found.same(entry, "incident.rule version", told["rule_version"], version)
            found.same(entry, "incident.group_key", told["group"], row.group_key)
            found.same(entry, "incident.crossing", told["crossing"], row.crossing)
            counted = told["sightings"] + sum(each.payload["sightings"] for each in joins.get(key, ()))
            found.same(entry, "incident.sightings", counted, row.sightings)
        _left(found, rows.values(), "the incident")

    def _links(self, found: Found) -> None:
        """A link that was removed may be made again: each time it is another row."""
        rows: dict[tuple[str, str, str], list[IncidentLink]] = defaultdict(list)
        for row in IncidentLink.objects.order_by("pk"):
            rows[str(row.incident_id), row.kind, row.ref].append(row)
        standing: dict[tuple[str, str, str], IncidentLink] = {}
        for entry in self._of(Kind.INCIDENT_LINKED, Kind.INCIDENT_UNLINKED):
            told = entry.payload
            key = (told["incident_id"], told["link_kind"], told["ref"])
            if entry.kind == Kind.INCIDENT_UNLINKED:
                if (ended := standing.pop(key, None)) is not None:
                    found.by_then(entry, entry, "link.removed_at", ended.removed_at)
                continue
            if not rows.get(key):
                found.missing(entry, f"the link to {told['link_kind']} {told['ref']}")
                continue
            row = standing[key] = rows[key].pop(0)
            flow = None if row.flow_id is None else str(row.flow_id)
            found.same(entry, "link.flow", told["dfid"], flow)
            found.same(entry, "link.linked_by", entry.actor, row.linked_by)
            found.by_then(entry, entry, "link.linked_at", row.linked_at)
        for row in standing.values():
            if row.removed_at is not None:
                what = f"that the link to {row.kind} {row.ref} was removed"
                found.without_entry("", actors.incident(row.incident_id), what)
        for left in rows.values():
            for row in left:
                what = f"the link to {row.kind} {row.ref}"
                found.without_entry("", actors.incident(row.incident_id), what)

    def _notes(self, found: Found) -> None:
        rows = {str(row.pk): row for row in IncidentNote.objects.all()}
        entries = self._of(Kind.INCIDENT_NOTED)
        for entry, row in found.rows_of(entries, rows, lambda told: told["note_id"], "note {note_id}"):
            _compare_text(found, entry, row, "note")
            found.same(entry, "note.author", entry.actor, actors.user(row.author_id))
            found.by_then(entry, entry, "note.written_at", row.written_at)
        _left(found, rows.values(), "the note")

    def _actions(self, found: Found) -> None:
        rows = {str(row.pk): row for row in IncidentAction.objects.all()}
        done = self._grouped("action_id", Kind.INCIDENT_ACTION_DONE)
        entries = self._of(Kind.INCIDENT_ACTION_ADDED)
        for entry, row in found.rows_of(entries, rows, lambda told: told["action_id"], "action {action_id}"):
            _compare_text(found, entry, row, "action")
            found.same(entry, "action.owner", entry.payload["owner"], actors.user(row.owner_id))
            found.same(entry, "action.due_on", entry.payload["due_on"], str(row.due_on))
            found.by_then(entry, entry, "action.added_at", row.added_at)
            last = next(reversed(done.get(str(row.pk), ())), None)
            found.by_then(last, last or entry, "action.done_at", row.done_at)
            found.same(last or entry, "action.done_by", last.actor if last else "", row.done_by)
        _left(found, rows.values(), "the action")

    def _post_mortems(self, found: Found) -> None:
        rows = {(str(row.incident_id), row.version): row for row in PostMortem.objects.all()}
        signed = self._grouped("text_commitment", Kind.POST_MORTEM_SIGNED)
        entries = self._of(Kind.POST_MORTEM_SAVED)
        for entry, row in found.rows_of(
            entries, rows, lambda told: (told["incident_id"], told["version"]), "post-mortem {version}"
        ):
            _compare_text(found, entry, row, "post-mortem")
            found.same(entry, "post-mortem.author", entry.actor, actors.user(row.author_id))
            found.by_then(entry, entry, "post-mortem.saved_at", row.saved_at)
            last = next(reversed(signed.get(entry.payload["text_commitment"], ())), None)
            found.by_then(last, last or entry, "post-mortem.signed_at", row.signed_at)
            found.same(last or entry, "post-mortem.signed_by", last.actor if last else "", row.signed_by)
        _left(found, rows.values(), "the post-mortem")

    def _rules(self, found: Found) -> None:
        rows = {(row.tenant, row.name, row.version): row for row in IncidentRuleRow.objects.all()}
        told: dict[tuple[str, str, int], list[Entry]] = defaultdict(list)
        for entry in self._of(*_RULES):
            told[entry.tenant, entry.payload["name"], entry.payload["version"]].append(entry)
        for key, entries in told.items():
            row = rows.pop(key, None)
            if row is None:
                found.missing(entries[0], f"the incident rule {key[1]} {key[2]}")
            else:
                _compare_rule(found, row, entries)
        for row in rows.values():
            found.without_entry(row.tenant, actors.SYSTEM, f"the incident rule {row}")


def _held(row: Incident, name: str) -> Any:
    if name == "lead":
        return None if row.lead_id is None else actors.user(row.lead_id)
    return getattr(row, name)


def _compare_moves(found: Found, opened: Entry, row: Incident, moves: Sequence[Entry]) -> None:
    """The state and when it was reached: a time of a state ends where the incident is opened again."""
    at: dict[str, Entry] = {}
    for entry in moves:
        to = entry.payload["to_state"]
        if to == IncidentState.OPEN:
            at.clear()
        at[to] = entry
    last = moves[-1] if moves else opened
    state = last.payload["to_state"] if moves else IncidentState.OPEN.value
    found.same(last, "incident.state", state, row.state)
    for of, stored in (
        (IncidentState.MITIGATED, row.mitigated_at),
        (IncidentState.RESOLVED, row.resolved_at),
        (IncidentState.CLOSED, row.closed_at),
    ):
        found.by_then(at.get(of), last, f"incident.{of.value.lower()}_at", stored)


def _compare_text(found: Found, entry: Entry, row: Any, what: str) -> None:
    found.same(entry, f"{what}.incident", entry.payload["incident_id"], str(row.incident_id))
    found.same(entry, f"{what}.commitment", entry.payload["text_commitment"], row.commitment)


def _compare_rule(found: Found, row: IncidentRuleRow, entries: Sequence[Entry]) -> None:
    drafted, last = entries[0], entries[-1]
    activated = next((each for each in reversed(entries) if each.kind == Kind.INCIDENT_RULE_ACTIVATED), None)
    found.bytes(drafted, f"the incident rule {row}", drafted.payload["digest"], row.body)
    found.same(drafted, "rule.digest", drafted.payload["digest"], row.digest)
    found.same(drafted, "rule.drafted_by", drafted.actor, row.drafted_by)
    found.by_then(drafted, drafted, "rule.drafted_at", row.drafted_at)
    place = activated or drafted
    found.same(place, "rule.activated_by", activated.actor if activated else "", row.activated_by)
    found.same(place, "rule.from_leaf", activated.payload["from_leaf"] if activated else None, row.from_leaf)
    found.by_then(activated, place, "rule.activated_at", row.activated_at)
    state = {Kind.INCIDENT_RULE_ACTIVATED: RuleState.ACTIVE, Kind.INCIDENT_RULE_ENDED: RuleState.OFF}.get(
        Kind(last.kind), RuleState.DRAFT
    )
    found.same(last, "rule.state", state.value, row.state)
    found.by_then(last if state is RuleState.OFF else None, last, "rule.ended_at", row.ended_at)


def _left(found: Found, rows: Iterable[Any], what: str) -> None:
    for row in rows:
        pk = row.pk if isinstance(row, Incident) else row.incident_id
        tenant = row.tenant if isinstance(row, Incident) else ""
        found.without_entry(tenant, actors.incident(pk), f"{what} {row.pk}")
