"""The kill switch: how long after its POST the last new effect arrives at the target, in a running burst.

The stop is committed between the sending of its POST and the answer to it, so the figure lies between the
two that are printed. A call whose claim was looked at before the commit may still leave the house.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from bench import environment, load, target
from bench.browser_client import Person
from bench.environment import Stand
from bench.target import Target

AGENT = "bench-agent"
QUEUE = 320
# Effects that show that the burst runs; then the switch is pressed. Nothing comes after this much quiet.
RUNNING, QUIET_S, PATIENCE_S = 8, 0.5, 60
SWITCHES = {"stop everything": "/stop/", "stop one agent": f"/agents/{AGENT}/stop/"}


def run(ground: Stand, rounds: int) -> None:
    """Measure both switches on one database, and print p50 and the longest."""
    with target.running() as counting, _console(ground, counting) as base_url:
        person = Person(ground, base_url)
        person.post("/stop/", reason="bench")
        load.proposals(base_url, environment.manage(ground, "issue_key", AGENT), QUEUE)
        for name, stop in SWITCHES.items():
            sent, answered = [], []
            for _ in range(rounds):
                began_at, answered_at, last_at = _press(person, counting, stop=stop)
                sent.append(max(0.0, last_at - began_at) * 1000)
                answered.append(max(0.0, last_at - answered_at) * 1000)
                person.post("/stop/", reason="bench")
                person.post(f"/agents/{AGENT}/resume/")
            _print(ground, name, "sent", sent)
            _print(ground, name, "answered", answered)
        if len(counting.arrivals) >= QUEUE:
            raise RuntimeError("the burst had ended before the last stop: the figures say nothing")


def _press(person: Person, counting: Target, *, stop: str) -> tuple[float, float, float]:
    """Let the queue run, press the switch; when it was sent, when answered, and the last new effect."""
    before = len(counting.arrivals)
    person.post("/resume/")
    _wait(lambda: len(counting.arrivals) >= before + RUNNING)
    began_at = time.time()
    person.press(stop, reason="bench")
    answered_at = time.time()
    _wait(lambda: time.time() - max(answered_at, counting.last_at()) > QUIET_S)
    return began_at, answered_at, counting.last_at()


def _wait(reached: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > ends_at:
            raise TimeoutError("the burst does not run, or does not end")
        time.sleep(0.002)


@contextmanager
def _console(ground: Stand, counting: Target) -> Iterator[str]:
    """The product as its users start it, with the bench's step sent to the counting target."""
    environment.load(ground, base_url=counting.base_url)
    with ExitStack() as stack:
        if ground.redis:
            for number in (1, 2):
                worker = ("worker", "--concurrency", "2", "--hostname", f"bench-{number}@%h")
                stack.enter_context(environment.spawned(ground, "-m", "celery", "-A", "dir_console", *worker))
            yield stack.enter_context(environment.served(ground, "dir_console.asgi:application"))
        else:
            yield stack.enter_context(environment.embedded(ground))


def _print(ground: Stand, name: str, since: str, took_ms: list[float]) -> None:
    what = f"{name}, since {since}"
    print(f"{ground.name:<12}{what:<32}{statistics.median(took_ms):>10.1f}{max(took_ms):>10.1f}")
