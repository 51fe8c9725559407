"""`python -m tests.faults.saga_worker DATABASE INTENT POINT PATH`: a worker that kills itself with SIGKILL.

It walks the intent to its end, as a server does that has just been started. Where it calls PATH it dies at
POINT: `claimed` (nothing is sent yet), `called` (answered, not recorded) or `recorded`.
"""

import os
import signal
import sys
from typing import Any
from uuid import UUID

import django
from django.conf import settings

ENDS = {"NOT_DUE", "ENDED", "HELD"}


class Worker:
    """One life: `path` is where the last call went."""

    def __init__(self, *, point: str, path: str, call: Any) -> None:
        self.point, self.fatal, self.call = point, path, call
        self.path = ""

    def calling(self, claim: Any, *, lease_left_s: float) -> Any:
        self.path = claim.step.path if claim.purpose == "CALL" else ""
        self.pass_by("claimed")
        result = self.call(claim, lease_left_s=lease_left_s)
        self.pass_by("called")
        return result

    def pass_by(self, point: str) -> None:
        if (point, self.path) == (self.point, self.fatal):
            os.kill(os.getpid(), signal.SIGKILL)


def main(database: str, intent_id: str, point: str, path: str) -> None:
    settings.DATABASES["default"]["NAME"] = database
    django.setup()

    from runtime.execution.services import calling
    from runtime.maintenance.services import sweeper
    from tests.support import fake_target

    worker = Worker(point=point, path=path, call=calling.call)
    calling.call = worker.calling  # the only way to die between two lines
    sweeper.expire_all_leases()
    status = ""
    while status not in ENDS:
        # The waits between two tries are not what is tried here.
        status = fake_target.attempt(UUID(intent_id), owner=f"worker-{os.getpid()}").status
        worker.pass_by("recorded")


if __name__ == "__main__":
    main(*sys.argv[1:])
