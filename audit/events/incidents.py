"""Incidents, in a stream of their own each (`incident:ID`), and the rules that open them (`system`)."""

from typing import Final

from audit.events.base import Event, Id, Kind, Text

INCIDENT_KINDS: Final = frozenset(
    {
        Kind.INCIDENT_OPENED,
        Kind.INCIDENT_JOINED,
        Kind.INCIDENT_LINKED,
        Kind.INCIDENT_UNLINKED,
        Kind.INCIDENT_MOVED,
        Kind.INCIDENT_EDITED,
        Kind.INCIDENT_NOTED,
        Kind.INCIDENT_ACTION_ADDED,
        Kind.INCIDENT_ACTION_DONE,
        Kind.POST_MORTEM_SAVED,
        Kind.POST_MORTEM_SIGNED,
        Kind.INCIDENT_RULE_DRAFTED,
        Kind.INCIDENT_RULE_ACTIVATED,
        Kind.INCIDENT_RULE_ENDED,
    }
)


class IncidentOpened(Event):
    """By a person, or by a version of a rule: `crossing` is the leaf of the entry that was one too many."""

    kind = Kind.INCIDENT_OPENED
    incident_id: Id
    title: Text
    severity: Text
    lead: Text | None = None
    rule: Text = ""
    rule_version: int | None = None
    group: Text = ""
    crossing: int | None = None
    sightings: int = 0


class IncidentJoined(Event):
    """Further entries matched the rule while the incident was open; `until_leaf` is the last of them."""

    kind = Kind.INCIDENT_JOINED
    incident_id: Id
    sightings: int
    until_leaf: int


class IncidentLinked(Event):
    """`dfid` is the flow of what is linked, where it has one."""

    kind = Kind.INCIDENT_LINKED
    incident_id: Id
    link_kind: Text
    ref: Text
    dfid: Id | None = None


class IncidentUnlinked(Event):
    kind = Kind.INCIDENT_UNLINKED
    incident_id: Id
    link_kind: Text
    ref: Text
    reason: Text


class IncidentMoved(Event):
    kind = Kind.INCIDENT_MOVED
    incident_id: Id
    from_state: Text
    to_state: Text
    reason: Text


class IncidentEdited(Event):
    """Title, severity and lead as they are from now on."""

    kind = Kind.INCIDENT_EDITED
    incident_id: Id
    title: Text
    severity: Text
    lead: Text | None
    reason: Text


class IncidentNoted(Event):
    kind = Kind.INCIDENT_NOTED
    incident_id: Id
    note_id: Id
    text_commitment: str


class IncidentActionAdded(Event):
    """Something to do because of the incident; `due_on` as YYYY-MM-DD."""

    kind = Kind.INCIDENT_ACTION_ADDED
    incident_id: Id
    action_id: Id
    text_commitment: str
    owner: Text
    due_on: Text


class IncidentActionDone(Event):
    kind = Kind.INCIDENT_ACTION_DONE
    incident_id: Id
    action_id: Id


class PostMortemSaved(Event):
    """A version of the post-mortem; the words are behind the commitment."""

    kind = Kind.POST_MORTEM_SAVED
    incident_id: Id
    version: int
    text_commitment: str


class PostMortemSigned(Event):
    """The lead signs off a version, as the incident is closed."""

    kind = Kind.POST_MORTEM_SIGNED
    incident_id: Id
    version: int
    text_commitment: str


class IncidentRuleDrafted(Event):
    kind = Kind.INCIDENT_RULE_DRAFTED
    name: Text
    version: int
    digest: str


class IncidentRuleActivated(Event):
    """It counts entries from the leaf `from_leaf` on. `solo`: by its author, the only admin."""

    kind = Kind.INCIDENT_RULE_ACTIVATED
    name: Text
    version: int
    digest: str
    from_leaf: int
    reason: Text = ""
    solo: bool = False


class IncidentRuleEnded(Event):
    """Switched off by a person, or because another version took its place."""

    kind = Kind.INCIDENT_RULE_ENDED
    name: Text
    version: int
    reason: Text
