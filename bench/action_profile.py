"""What one governed action in one call does in process: statements, Python calls, and CPU of this thread.

Run as `python -m bench.action_profile --database sqlite` (or `postgresql`). With `--what attempt` it measures
the attempt that follows: claim, simulated call, record. The number of Python calls hardly changes with what
else the machine does; CPU is given beside a fixed piece of Python work of the same minute.
"""

import argparse
import cProfile
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

from bench import action, environment
from bench.__main__ import POSTGRES
from demo.client import PROTOCOL_VERSION

CALLS, ROUNDS, WARM = 60, 7, 20


def main() -> None:
    """Make a stand, and measure in a process of its environment."""
    parser = argparse.ArgumentParser(prog="bench.action_profile", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--what", choices=("action", "attempt"), default="action")
    parser.add_argument("--slowest", type=int, default=0, help="how many of the slowest functions to list")
    parser.add_argument("--key", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.key:
        _measure(asked.key, asked.what, asked.slowest)
        return
    with environment.sqlite() if asked.database == "sqlite" else environment.postgres(POSTGRES) as stand:
        action.load(stand)
        key = environment.manage(stand, "issue_key", action.AGENT)
        again = [sys.executable, "-m", "bench.action_profile", "--key", key, "--what", asked.what]
        again += ["--slowest", str(asked.slowest)]
        subprocess.run(again, cwd=environment.ROOT, env=stand.environ, check=True)


def _measure(key: str, what: str, slowest: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    act = _action(key) if what == "action" else _attempt(key)
    for _ in range(WARM):
        act()
    with CaptureQueriesContext(connection) as captured:
        act()
    print(f"statements, with BEGIN and COMMIT: {len(captured)}")
    costs, yards = [], []
    for _ in range(ROUNDS):
        yard, began = _yardstick_ms(), time.process_time()
        for _ in range(CALLS):
            act()
        costs.append((time.process_time() - began) * 1000 / CALLS)
        yards.append((yard + _yardstick_ms()) / 2)
    ratio = statistics.median(cost / yard for cost, yard in zip(costs, yards, strict=True))
    print(f"CPU: {statistics.median(costs):.1f} ms, {ratio:.3f} of the yardstick")
    profile = cProfile.Profile()
    with profile:
        for _ in range(CALLS):
            act()
    read = pstats.Stats(profile)
    print(f"Python calls: {sum(told[1] for told in read.stats.values()) / CALLS:,.0f}")  # type: ignore[attr-defined]
    if slowest:
        read.sort_stats("tottime").print_stats(slowest)


def _action(key: str) -> Callable[[], None]:
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1")
    hello = {"protocol_version": PROTOCOL_VERSION, "manifest_version": "1.0.0", "agent_id": action.AGENT}
    given = client.post(
        "/api/v1/handshake", hello, "application/json", headers={"Authorization": f"Bearer {key}"}
    )
    headers = {"Authorization": f"Bearer {given.json()['session_token']}"}
    body = json.dumps({**action.BODY, "context": "current", "trigger": "bench", "seen": action.SEEN})

    def act() -> None:
        once = {**headers, "Idempotency-Key": uuid.uuid4().hex}
        answer = client.post("/api/v1/proposals", body, "application/json", headers=once)
        if answer.status_code != 200 or answer.json()["verdict"] != "ACCEPT":
            raise RuntimeError(f"the bench's proposal was not accepted: {answer.content!r}")

    return act


def _attempt(key: str) -> Callable[[], None]:
    """One attempt of an intent that is ready: they are all made beforehand."""
    from runtime.execution.services import attempting
    from runtime.execution.services.attempting import AttemptStatus
    from runtime.flows.models import Intent

    act = _action(key)
    for _ in range(WARM + 1 + CALLS * (ROUNDS + 1)):
        act()
    waiting = iter(list(Intent.objects.values_list("pk", flat=True)))

    def attempt() -> None:
        found = attempting.attempt(next(waiting), owner="bench")
        if found.status is not AttemptStatus.SUCCEEDED:
            raise RuntimeError(f"the bench's attempt did not succeed: {found}")

    return attempt


def _yardstick_ms() -> float:
    """A fixed piece of Python work."""
    began, kept = time.process_time(), dict[int, str]()
    for number in range(200_000):
        kept[number & 1023] = str(number)
    return (time.process_time() - began) * 1000


if __name__ == "__main__":
    main()
