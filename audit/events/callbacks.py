"""Entries about results that targets report later."""

from audit.events.base import At, Event, Id, Kind, Text


class CallbackOpened(Event):
    """An attempt has an address for its result; `token_hash` is the SHA-256 of the secret in it.

    Where the result is asked for instead, nobody has the secret.
    """

    kind = Kind.CALLBACK_OPENED
    intent_id: Id
    number: int
    target: str
    token_hash: str
    deadline_at: At


class CallbackAwaited(Event):
    """The target has taken the call on with 202, and reports the result later.

    `location_hash` is the SHA-256 of the path where the target is asked for the result; null if it reports.
    """

    kind = Kind.CALLBACK_AWAITED
    intent_id: Id
    number: int
    location_hash: str | None = None


class CallbackProgressed(Event):
    """The target is at work; its words, where it has any, are behind `note_commitment`."""

    kind = Kind.CALLBACK_PROGRESSED
    intent_id: Id
    number: int
    report: int
    percent: int | None = None
    note_commitment: str | None = None


class CallbackReported(Event):
    """The result is reported, `succeeded` or `failed`; `is_late`: nothing waited for it any more."""

    kind = Kind.CALLBACK_REPORTED
    intent_id: Id
    number: int
    status: Text
    note_commitment: str | None = None
    is_late: bool


class CallbackOverdue(Event):
    """No result came in time, or a restored database does not say whether one did."""

    kind = Kind.CALLBACK_OVERDUE
    intent_id: Id
    number: int


class CallbackClosed(Event):
    """The call itself came to an end: no result comes later."""

    kind = Kind.CALLBACK_CLOSED
    intent_id: Id
    number: int
