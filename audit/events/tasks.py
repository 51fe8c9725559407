"""Tasks: steps of an intent that a person carries out."""

from audit.events.base import At, Event, Id, Kind, Text


class TaskOpened(Event):
    """The group is asked to carry out a step, or to undo one. `task_hash` is that of all that it is shown."""

    kind = Kind.TASK_OPENED
    task_id: Id
    intent_id: Id
    number: int
    step: str
    direction: Text
    group: str
    task_hash: str
    deadline_at: At


class TaskAnswered(Event):
    """A person of the group has done it, and signed what was found. The answer is the receipt."""

    kind = Kind.TASK_ANSWERED
    task_id: Id
    intent_id: Id
    number: int
    task_hash: str
    receipt_commitment: str
    statement_digest: str
    signature: str
    key_id: str


class TaskRefused(Event):
    """An answer was not taken, with the problem's code."""

    kind = Kind.TASK_REFUSED
    task_id: Id
    intent_id: Id
    code: Text


class TaskOverdue(Event):
    """Nobody answered in time, or a restored database does not say whether somebody did: people are asked."""

    kind = Kind.TASK_OVERDUE
    task_id: Id
    intent_id: Id
    number: int
