"""When the registry stops naming a provider: failures in a row, then a quarantine, then its end.

What a person decided comes first; nothing here takes it back.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from runtime.contracts.states import Choice

# So many failures in a row lead to a quarantine, so many quarantines to the end.
FAILURES = 3
QUARANTINES = 3
QUARANTINE_S = 300
# A provider that sends heartbeats and then none for so long is not named.
SILENT_S = 600
# Who promises no time is asked for an answer within so long before its silence is a failure.
PATIENCE_S = 10


class ListingState(Choice):
    """Whether the registry names a provider: LISTED, held back for a time, or no longer."""

    LISTED = "LISTED"
    QUARANTINED = "QUARANTINED"
    DELISTED = "DELISTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of a provider of one capability. `failures` are those in a row."""

    state: ListingState = ListingState.LISTED
    failures: int = 0
    quarantines: int = 0
    until: datetime | None = None


def after_success(known: Health) -> Health:
    """It is well: later failures are no longer in a row with those before, and nothing else changes."""
    return replace(known, failures=0)


def after_failure(known: Health, *, at: datetime) -> Health:
    """It said that it cannot, or was silent: one of too many leads to a quarantine, or to the end."""
    if state_at(known, at) is not ListingState.LISTED:
        return known
    failures = known.failures + 1
    if failures < FAILURES:
        return replace(known, state=ListingState.LISTED, failures=failures, until=None)
    if known.quarantines + 1 >= QUARANTINES:
        return Health(state=ListingState.DELISTED, quarantines=known.quarantines + 1)
    return Health(
        state=ListingState.QUARANTINED,
        quarantines=known.quarantines + 1,
        until=at + timedelta(seconds=QUARANTINE_S),
    )


def had_time(given: timedelta, *, promised_ms: float | None) -> bool:
    """Whether a provider was given the time in which it says that it answers.

    Otherwise whoever asks for the impossible could have it taken from the list.
    """
    promised = timedelta(seconds=PATIENCE_S) if promised_ms is None else timedelta(milliseconds=promised_ms)
    return given >= promised


def state_at(known: Health, at: datetime) -> ListingState:
    """The state at a moment: a quarantine ends by itself."""
    if known.state is ListingState.QUARANTINED and known.until is not None and known.until <= at:
        return ListingState.LISTED
    return known.state


def is_named(
    known: Health,
    *,
    at: datetime,
    overridden: ListingState | None,
    is_available: bool,
    heard_at: datetime | None,
) -> bool:
    """Whether the registry names it at a moment.

    `overridden` is what a person decided, `is_available` what it last said of itself, and `heard_at` when it
    last sent a heartbeat; None where it never did.
    """
    if overridden is not None:
        return overridden is ListingState.LISTED
    is_silent = heard_at is not None and at - heard_at > timedelta(seconds=SILENT_S)
    return is_available and not is_silent and state_at(known, at) is ListingState.LISTED
