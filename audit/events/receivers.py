"""Receivers of events outside. What is sent to them is in no entry: it would be sent in its turn."""

from audit.events.base import Event, Id, Kind, Names, Text


class ReceiverAdded(Event):
    """It gets what is sealed from the leaf `next_leaf` on; `secret_env` names the variable of its secret."""

    kind = Kind.RECEIVER_ADDED
    receiver_id: Id
    name: Text
    receiver_kind: Text
    format: Text
    patterns: Names
    place: Text
    secret_env: Text
    next_leaf: int


class ReceiverChanged(Event):
    """The whole receiver as it is from then on, not what differs."""

    kind = Kind.RECEIVER_CHANGED
    receiver_id: Id
    name: Text
    format: Text
    patterns: Names
    place: Text
    secret_env: Text


class ReceiverPaused(Event):
    """By a person, or by the system where the receiver said that it is gone for good."""

    kind = Kind.RECEIVER_PAUSED
    receiver_id: Id
    name: Text
    reason: Text


class ReceiverResumed(Event):
    """It gets everything from its position on."""

    kind = Kind.RECEIVER_RESUMED
    receiver_id: Id
    name: Text
    reason: Text


class ReceiverMoved(Event):
    """A person moved its position: back, so that events come again, or ahead, past some it never gets."""

    kind = Kind.RECEIVER_MOVED
    receiver_id: Id
    name: Text
    from_leaf: int
    to_leaf: int
    reason: Text


class ReceiverTested(Event):
    """A test event was sent; `error` is empty where it was taken."""

    kind = Kind.RECEIVER_TESTED
    receiver_id: Id
    name: Text
    error: Text
