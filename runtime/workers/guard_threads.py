"""Soft guards off the request: threads of the embedded mode that let the due ones look.

They are apart from the threads that execute, so that a slow guard holds back no intent.
"""

import logging
import threading
from collections.abc import Sequence

from django.db import connection

from runtime.core import clock, transactions
from runtime.guards.queries import due_runs
from runtime.guards.services import guard_runs

THREADS = 2
POLL_S = 1.0
_LOOK_AHEAD = 20

_log = logging.getLogger(__name__)
_bell = threading.Event()


def ring(run_ids: Sequence[int]) -> None:
    """Wake a thread of this process, where it has one."""
    _bell.set()


def serve(stopping: threading.Event) -> None:
    """Run due guards until stopped; between two rounds at most POLL_S pass."""
    while not stopping.is_set():
        _bell.wait(POLL_S)
        _bell.clear()
        try:
            due = due_runs.list_due(at=clock.now(), limit=_LOOK_AHEAD)
        except Exception:
            _log.exception("the guards that are due could not be found")
            connection.close()
            due = []
        for run_id, _ in due:
            if stopping.is_set():
                return
            run_quietly(run_id)
        transactions.give_back_connection()


def run_quietly(run_id: int) -> None:
    """Let one guard look; what goes wrong is logged, and its row waits for a next round."""
    try:
        guard_runs.run(run_id)
    except transactions.BusyError:
        _log.info("guard run %s is contended; it waits for the next round", run_id)
    except Exception:
        _log.exception("guard run %s failed", run_id)
        connection.close()
    finally:
        transactions.give_back_connection()
