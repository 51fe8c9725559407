"""One round of the sweeper, and since when every round has failed somewhere.

That time is in the cache, which all processes share where there are several.
"""

import time
from contextlib import suppress
from datetime import datetime
from typing import Final

from django.core.cache import cache
from django.db import DatabaseError

from runtime.core import clock
from runtime.maintenance.services import sweeper

FAILING: Final = "runtime.workers.sweep_rounds.failing_since"
# Rounds come every second; so often one of a process looks for what may be some seconds late, too.
THOROUGH_S: Final = 5.0

_thorough_at_s = float("-inf")


def run() -> None:
    """Sweep once, and note whether something could not be repaired."""
    global _thorough_at_s  # of this process: where there are several, each takes its turn
    is_thorough = time.monotonic() - _thorough_at_s >= THOROUGH_S
    if is_thorough:
        _thorough_at_s = time.monotonic()
    swept = sweeper.sweep(is_thorough=is_thorough)
    # The cache is a table of its own, which an installation may lack: it must not cost the round.
    with suppress(DatabaseError):
        if swept.failed:
            cache.add(FAILING, clock.now().isoformat(), timeout=None)
        elif is_thorough and cache.get(FAILING) is not None:
            cache.delete(FAILING)


def failing_since() -> datetime | None:
    """Since when each round has failed somewhere; None where the last one did not."""
    with suppress(DatabaseError):
        since = cache.get(FAILING)
        return None if since is None else datetime.fromisoformat(since)
    return None
