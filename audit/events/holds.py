"""Legal holds, each in a stream of its own (`hold:ID`). Why it was placed or released is not in the entry."""

from audit.events.base import Event, Id, Kind, Text


class HoldPlaced(Event):
    """`target` is FLOW with its `dfid`, or SUBJECT with the `subject` as decision records name it."""

    kind = Kind.HOLD_PLACED
    hold_id: Id
    name: Text
    target: Text
    dfid: Id | None
    subject: Text
    text_commitment: str


class HoldReleased(Event):
    kind = Kind.HOLD_RELEASED
    hold_id: Id
    name: Text
    text_commitment: str
