"""Where people are told of escalations and incidents.

The URL of a route may hold secrets: only its digest is recorded.
"""

from audit.events.base import Event, Id, Kind, Names, Text


class NotificationRouteAdded(Event):
    """`url_digest` is keyed: nobody without the key of the installation can try guesses against it.

    Entries from before there were notices of incidents have no severities: such a route is told of none. The
    same goes for the group of tasks.
    """

    kind = Kind.NOTIFICATION_ROUTE_ADDED
    route_id: Id
    name: Text
    scheme: Text
    host: Text
    url_digest: str
    audience: Text
    occasions: Names
    families: Names
    least_impact: Text
    agent_id: Text
    policy_kind: Text
    quiet_hours: Text
    quiet_exempt: Text
    least_severity: Text | None = None
    quiet_exempt_severity: Text | None = None
    task_group: Text | None = None


class NotificationRouteChanged(Event):
    """The whole route as it is from then on, not what differs."""

    kind = Kind.NOTIFICATION_ROUTE_CHANGED
    route_id: Id
    name: Text
    scheme: Text
    host: Text
    url_digest: str
    audience: Text
    occasions: Names
    families: Names
    least_impact: Text
    agent_id: Text
    policy_kind: Text
    quiet_hours: Text
    quiet_exempt: Text
    least_severity: Text | None = None
    quiet_exempt_severity: Text | None = None
    task_group: Text | None = None


class NotificationRouteSwitched(Event):
    kind = Kind.NOTIFICATION_ROUTE_SWITCHED
    route_id: Id
    name: Text
    enabled: bool


class NotificationRouteDeleted(Event):
    kind = Kind.NOTIFICATION_ROUTE_DELETED
    route_id: Id
    name: Text


class NotificationRouteTested(Event):
    """A test notice was asked for; what became of it is with the notice."""

    kind = Kind.NOTIFICATION_ROUTE_TESTED
    route_id: Id
    name: Text
