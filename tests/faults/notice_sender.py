"""`python -m tests.faults.notice_sender DATABASE POINT`: a sender of notices that kills itself with SIGKILL.

It dies at POINT: `claimed` (nothing is sent yet) or `sent` (taken by the receiver, not recorded); with any
other word it lives and sends what is due.
"""

import os
import signal
import sys
from typing import Any

import django
from django.conf import settings


def main(database: str, point: str) -> None:
    settings.DATABASES["default"]["NAME"] = database
    django.setup()

    from escalations.services.notices import sending
    from runtime.execution.services import notice_delivery

    deliver = notice_delivery.deliver

    def delivering(**given: Any) -> str | None:
        if point == "claimed":
            os.kill(os.getpid(), signal.SIGKILL)
        why = deliver(**given)
        if point == "sent":
            os.kill(os.getpid(), signal.SIGKILL)
        return why

    notice_delivery.deliver = delivering  # the only way to die between two lines
    print(sending.send_due())


if __name__ == "__main__":
    main(*sys.argv[1:])
