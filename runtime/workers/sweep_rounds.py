"""One round of the sweeper, and since when every round has failed somewhere.

That time is in the cache, which all processes share where there are several.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

from django.core.cache import cache
from django.db import DatabaseError

from runtime.core import clock
from runtime.maintenance.services import sweeper

FAILING: Final = "runtime.workers.sweep_rounds.failing_since"


def run() -> None:
    """Sweep once, and note whether something could not be repaired."""
    swept = sweeper.sweep()
    # The cache is a table of its own, which an installation may lack: it must not cost the round.
    with suppress(DatabaseError):
        if swept.failed:
            cache.add(FAILING, clock.now().isoformat(), timeout=None)
        elif cache.get(FAILING) is not None:
            cache.delete(FAILING)


def failing_since() -> datetime | None:
    """Since when each round has failed somewhere; None where the last one did not."""
    with suppress(DatabaseError):
        since = cache.get(FAILING)
        return None if since is None else datetime.fromisoformat(since)
    return None
