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
from bench.environment import POSTGRES, Stand
from demo.client import PROTOCOL_VERSION

CALLS, ROUNDS, WARM = 60, 7, 20
WHAT = ("action", "attempt")


def main() -> None:
    """Make a stand, and measure in a process of its environment."""
    parser = argparse.ArgumentParser(prog="bench.action_profile", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--what", choices=WHAT, default="action")
    parser.add_argument("--slowest", type=int, default=0, help="how many of the slowest functions to list")
    parser.add_argument("--key", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.key:
        print(json.dumps(_measure(asked.key, asked.what, asked.slowest)))
        return
    with environment.sqlite() if asked.database == "sqlite" else environment.postgres(POSTGRES) as stand:
        _print(stand, asked.what, _prepare(stand), asked.slowest)


def run(stand: Stand) -> dict[str, float]:
    """Measure both on one database; its Python calls, and its CPU beside the fixed piece of work."""
    key, ratios = _prepare(stand), {}
    for what in WHAT:
        measured = _print(stand, what, key, 0)
        ratios[f"{stand.name}: Python calls of an {what}, in process"] = measured["calls"]
        ratios[f"{stand.name}: CPU of an {what} / of a fixed piece of Python work"] = measured["ratio"]
    return ratios


def _prepare(stand: Stand) -> str:
    action.load(stand)
    return environment.manage(stand, "issue_key", action.AGENT)


def _print(stand: Stand, what: str, key: str, slowest: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.action_profile", "--key", key, "--what", what]
    command += ["--slowest", str(slowest)]
    pipe = subprocess.PIPE
    done = subprocess.run(
        command, cwd=environment.ROOT, env=stand.environ, check=True, stdout=pipe, text=True
    )
    *listed, last = done.stdout.splitlines()
    print(*listed, sep="\n", end="\n" if listed else "")
    measured: dict[str, float] = json.loads(last)
    print(
        f"{stand.name:<12}{what:<12}{measured['statements']:>12}{measured['calls']:>12,.0f}"
        f"{measured['ms']:>10.1f}{measured['ratio']:>8.3f}"
    )
    return measured


def _measure(key: str, what: str, slowest: int) -> dict[str, float]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    import django

    django.setup()
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    act = acting(key) if what == "action" else _attempt(key)
    for _ in range(WARM):
        act()
    with CaptureQueriesContext(connection) as captured:
        act()
        statements = len(captured)  # with BEGIN and COMMIT
    costs, yards = [], []
    for _ in range(ROUNDS):
        yard, began = _yardstick_ms(), time.process_time()
        for _ in range(CALLS):
            act()
        costs.append((time.process_time() - began) * 1000 / CALLS)
        yards.append((yard + _yardstick_ms()) / 2)
    profile = cProfile.Profile()
    with profile:
        for _ in range(CALLS):
            act()
    read = pstats.Stats(profile)
    if slowest:
        read.sort_stats("tottime").print_stats(slowest)
    return {
        "statements": statements,
        "calls": sum(told[1] for told in read.stats.values()) / CALLS,  # type: ignore[attr-defined]
        "ms": statistics.median(costs),
        "ratio": statistics.median(cost / yard for cost, yard in zip(costs, yards, strict=True)),
    }


def acting(key: str) -> Callable[[], None]:
    """What acts once in this process: a session is opened, and the request goes through the whole console."""
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

    act = acting(key)
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
