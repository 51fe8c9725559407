"""`python -m tests.faults.topic_worker DATABASE BROKER POINT`: a topic intake that kills itself with SIGKILL.

It dies at POINT: `taken` (nothing is judged yet), `committed` (judged, nothing published) or `settled`
(published and acknowledged). With any other word it lives until nothing is left to answer.
"""

import os
import signal
import sys
from typing import Any

import django
from django.conf import settings


def main(database: str, broker_url: str, point: str) -> None:
    settings.DATABASES["default"]["NAME"] = database
    settings.DIR_TOPIC_URL = broker_url
    settings.DIR_LEASE_S = 0
    django.setup()

    from dir_console.topics import broker, intake, names

    def pass_by(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    class Mortal(intake.TopicIntake):
        def _answer(self, received: broker.Received) -> Any:
            pass_by("taken")
            answer = super()._answer(received)
            pass_by("committed")
            return answer

        def _handle(self, received: broker.Received, *, busy: int) -> int:
            answered = super()._handle(received, busy=busy)
            pass_by("settled")
            return answered

    with broker.connect() as client:
        working = Mortal(client)
        agents = working.broker.list_agents()
        answered = 0
        while any(client.xlen(names.intake_of(agent_id)) for agent_id in agents):
            working._upkeep_at_s = 0.0
            answered += working.work_round()
    print(answered)


if __name__ == "__main__":
    main(*sys.argv[1:])
