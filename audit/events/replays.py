"""Runs that replay every flow of a period: when one began, over what, and what came out."""

from audit.events.base import At, Event, Id, Kind, Text


class ReplayRunStarted(Event):
    """All flows opened from `since` until `until`, as far as `last_dfid`; null: from the first one on.

    `flows` is how many there were.
    """

    kind = Kind.REPLAY_RUN_STARTED
    run_id: Id
    since: At | None
    until: At | None
    last_dfid: Id
    flows: int


class ReplayRunEnded(Event):
    """How many flows came out equal, differed, had erased words, or could not be read.

    `results_digest` chains the result of every flow in the order of their ids, `findings_digest` is over what
    is kept of those that differ (`findings` of them). Neither is over the values that differ.
    """

    kind = Kind.REPLAY_RUN_ENDED
    run_id: Id
    state: Text
    equal: int
    different: int
    erased: int
    failed: int
    results_digest: str
    findings: int
    findings_digest: str
