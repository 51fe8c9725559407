"""Commit to row: how long after an escalation's commit the row has reached every browser on the queue.

The commit is stamped in the process that writes (`commit_clock`). A browser has the row when the answer to
its own refresh contains it; the hint before it, and the pages of a real Chromium, are measured beside. All
processes, the browsers too, run on one machine and read one clock.
"""

import contextlib
import multiprocessing
import queue
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import commit_clock, environment, escalating, queue_clients, real_pages, signed_in
from bench.environment import Stand
from bench.escalating import Desk, Ready

REAL_PAGES = 2
OPEN_BEFORE = 30
# Nobody asks any more: longer than the least gap between two refreshes of one region.
QUIET_S, PATIENCE_S = 1.2, 60.0
SETTINGS = "bench.clocked_settings"
WORKERS = {"celery": 4, "guards": 2, "notices": 2}


@dataclass
class Arrivals:
    """When what reached which browser, in Unix seconds; `failed` says what did not work."""

    hints: dict[str, dict[int, float]] = field(default_factory=dict)
    rows: dict[str, dict[int, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    is_ready: bool = False

    def take(self, report: tuple[Any, ...]) -> None:
        """Take in one report of `queue_clients`; the first of a kind counts."""
        match report:
            case ("ready",):
                self.is_ready = True
            case ("failed", str(why)):
                self.failed.append(why)
            case ("hint", int(browser), str(stream), float(at)):
                self.hints.setdefault(stream, {}).setdefault(browser, at)
            case ("row", int(browser), str(row), float(at)):
                self.rows.setdefault(row, {})[browser] = at


def run(stand: Stand, escalations: int, browsers: int) -> None:
    """Measure on one database, and print p50, p99 and the longest in milliseconds."""
    with TemporaryDirectory(prefix="dir-bench-") as folder, ExitStack() as stack:
        stamps = Path(folder) / "stamps"
        environ = {"DJANGO_SETTINGS_MODULE": SETTINGS, commit_clock.FILE: str(stamps)}
        clocked = replace(stand, environ=stand.environ | environ)
        escalating.load(stand)
        base_url = stack.enter_context(_console(clocked, folder))
        desk = Desk(stand, base_url)
        desk.open(OPEN_BEFORE)
        waiting = [desk.ready(cents=escalating.LOW_CENTS) for _ in range(escalations)]
        keys = signed_in.sessions(stand, browsers + REAL_PAGES, role="operator")
        try:
            pages = stack.enter_context(real_pages.opened(base_url, keys[browsers:]))
        except real_pages.MissingBrowserError as error:
            print(f"{stand.name:<12}Chromium was left out: {error}")
            pages = real_pages.Pages([])
        crowd = stack.enter_context(_crowd(base_url, keys[:browsers]))
        sent = [(ready.dfid, *crowd.follow(ready)) for ready in waiting]
        _print(stand.name, sent, crowd.arrivals, _commits(stamps, sent), pages)


class Crowd:
    """Browsers in a process of their own."""

    def __init__(self, count: int) -> None:
        # Not forked: threads of Playwright run in this process.
        spawning = multiprocessing.get_context("spawn")
        self.count, self.arrivals = count, Arrivals()
        self.reports: Any = spawning.Queue()
        self.active_at: Any = spawning.Value("d", 0.0)
        self.ends = spawning.Event()
        self.spawning = spawning

    def follow(self, ready: Ready) -> tuple[str, float, float]:
        """Escalate, and wait until every browser has the row and none asks any more.

        Returns the row, when the proposal was sent and when it was answered.
        """
        self.wait_quiet()
        began_at = time.time()
        row = ready.send()
        answered_at = time.time()
        self.hear(lambda: len(self.arrivals.rows.get(row, ())) == self.count)
        return row, began_at, answered_at

    def wait_quiet(self) -> None:
        """Wait until no browser has asked, or was about to, for `QUIET_S`."""
        self.hear(lambda: time.time() - self.active_at.value > QUIET_S)

    def hear(self, reached: Callable[[], bool]) -> None:
        """Take reports until the condition holds."""
        ends_at = time.monotonic() + PATIENCE_S
        while not reached():
            with contextlib.suppress(queue.Empty):
                while True:
                    self.arrivals.take(self.reports.get(timeout=0.02))
            if time.monotonic() > ends_at:
                raise TimeoutError(f"the browsers do not get what they wait for: {self.arrivals.failed[-3:]}")


@contextmanager
def _crowd(base_url: str, session_keys: Sequence[str]) -> Iterator[Crowd]:
    crowd = Crowd(len(session_keys))
    cookies = [f"sessionid={key}" for key in session_keys]
    given = (base_url, cookies, crowd.reports, crowd.active_at, crowd.ends)
    process = crowd.spawning.Process(target=queue_clients.run, args=given)
    process.start()
    try:
        crowd.hear(lambda: crowd.arrivals.is_ready)
        yield crowd
    finally:
        crowd.ends.set()
        process.join(environment.STARTUP_S)


@contextmanager
def _console(stand: Stand, folder: str) -> Iterator[str]:
    """The product as its users start it: `up`, or the processes of docker-compose.yml."""
    with ExitStack() as stack:
        if not stand.redis:
            yield stack.enter_context(environment.embedded(stand))
            return
        flags = ("--no-proxy-headers", "--http", "dir_console.connections:PatientProtocol")
        server = stack.enter_context(environment.serving(stand, "dir_console.asgi:application", *flags))
        celery = ("-m", "celery", "-A", "dir_console")
        for name, count in WORKERS.items():
            options = ("--queues", name, "--hostname", f"bench-{name}@%h", "--concurrency", str(count))
            stack.enter_context(environment.spawned(stand, *celery, "worker", *options))
        schedule = ("--schedule", f"{folder}/schedule", "--pidfile", "")
        stack.enter_context(environment.spawned(stand, *celery, "beat", *schedule))
        yield server.base_url


def _commits(stamps: Path, sent: Sequence[tuple[str, str, float, float]]) -> dict[str, float]:
    """The commit of each escalation: the stamp of its flow between the sending and the answer."""
    found = commit_clock.read(stamps)
    commits = {}
    for dfid, row, began_at, answered_at in sent:
        commits[row] = next(at for stream, at in found if stream == dfid and began_at <= at <= answered_at)
    return commits


def _print(
    name: str,
    sent: Sequence[tuple[str, str, float, float]],
    arrivals: Arrivals,
    commits: dict[str, float],
    pages: real_pages.Pages,
) -> None:
    hints = [at - commits[row] for dfid, row, *_ in sent for at in arrivals.hints.get(dfid, {}).values()]
    rows = [at - commits[row] for _, row, *_ in sent for at in arrivals.rows[row].values()]
    last = [max(arrivals.rows[row].values()) - commits[row] for _, row, *_ in sent]
    shown = [
        at - commits[row]
        for number, (_, row, *_) in enumerate(sent, start=1)
        for at in pages.shown_at(number)
    ]
    _line(name, "hint on the socket", hints)
    _line(name, "row in a browser", rows)
    _line(name, "row in the last browser", last)
    if shown:
        _line(name, f"row in {len(pages)} Chromium pages", shown)
    if arrivals.failed:
        print(f"{name:<12}{len(arrivals.failed)} requests failed, e.g. {arrivals.failed[0]}")


def _line(name: str, what: str, took_s: Sequence[float]) -> None:
    times = sorted(s * 1000 for s in took_s)
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    print(
        f"{name:<12}{what:<32}{len(times):>8}{statistics.median(times):>10.0f}{p99:>10.0f}{times[-1]:>10.0f}"
    )
