"""`python -m bench.soak`: steady load for an hour with a burst in the middle, on the console as it is used.

Actions come at `--share` of what the machine was just measured to carry out, whether or not earlier ones were
answered, and for `--burst` seconds in the middle ten times as many. It prints a line for each tenth, and at
last what grew from the first third to the last one, and what was lost or doubled: every action that was
accepted must arrive at the target once. Ends with 1 where one did not, or where memory, files or p99 have
grown by more than a fifth.
"""

import argparse
import contextlib
import os
import queue
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from bench import action, environment, ledger, load, process_cpu, target
from bench.__main__ import REDIS
from bench.environment import POSTGRES
from bench.target import Target
from demo.http_client import CallRefused, Unreachable

CLIENTS: Final = 48
TIMES_BURST: Final = 10
LINES: Final = 10
NO_ANSWER: Final = "no answer came"
SETTLES_S: Final = 60.0
# What no client was free for until then is not sent: a burst ends with its minute.
MOST_LATE_S: Final = 2.0
MOST_GROWTH: Final = 0.2
# Of short runs a third is a few seconds, of which nothing can be said.
LEAST_S: Final = 600.0


@dataclass
class _Tally:
    """What clients saw; appended to from their threads."""

    took_ms: list[tuple[float, float]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Sample:
    """What the servers have together: resident megabytes and open files."""

    rss_mb: float
    files: int


def main() -> int:
    """Measure the limit, then soak."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--share", type=float, default=0.7, help="of the measured limit (default 0.7)")
    parser.add_argument("--burst", type=float, default=60, help="seconds of ten times as much (default 60)")
    asked = parser.parse_args()
    environment.end_with_what_was_started()
    with ExitStack() as stack:
        stand = stack.enter_context(
            environment.sqlite()
            if asked.database == "sqlite"
            else environment.postgres(POSTGRES, redis=REDIS)
        )
        counting = stack.enter_context(target.running())
        action.load(stand, base_url=counting.base_url)
        key = environment.manage(stand, "issue_key", action.AGENT)
        base_url = stack.enter_context(ledger.console(stand))
        client = partial(action.acting, base_url, key)
        limit = _limit(client, counting)
        if limit is None:
            print(f"{stand.name}: not all that was accepted was carried out within {SETTLES_S:.0f} s")
            return 1
        rate = limit * asked.share
        print(f"{stand.name}: {limit:.1f} actions a second at most; now {rate:.1f} a second", flush=True)
        return _soak(client, counting, _Plan(rate, asked.minutes * 60, asked.burst))


def _limit(client: Callable[[], Callable[[], None]], counting: Target) -> float | None:
    """Actions a second that are carried out, not only accepted; None where some were not."""
    load.race([client] * load.CLIENTS, 5)
    earlier, calls = 5 * load.CLIENTS, 60 * load.CLIENTS
    _wait(lambda: len(counting.arrivals) == earlier)
    began = time.time()
    load.race([client] * load.CLIENTS, 60)
    _wait(lambda: len(counting.arrivals) == earlier + calls)
    return calls / (counting.last_at() - began) if len(counting.arrivals) == earlier + calls else None


@dataclass(frozen=True)
class _Plan:
    """So many actions a second for so long, and in the middle ten times as many."""

    rate: float
    length_s: float
    burst_s: float

    def due_at(self) -> Iterator[float]:
        """The seconds from the start at which an action is due."""
        at, burst_from = 0.0, (self.length_s - self.burst_s) / 2
        while at < self.length_s:
            yield at
            bursting = burst_from <= at < burst_from + self.burst_s
            at += 1 / (self.rate * (TIMES_BURST if bursting else 1))


def _soak(client: Callable[[], Callable[[], None]], counting: Target, plan: _Plan) -> int:
    earlier, tally, samples = len(counting.arrivals), _Tally(), list[_Sample]()
    due: queue.SimpleQueue[float | None] = queue.SimpleQueue()
    clients = [threading.Thread(target=_act, args=(client, due, tally), daemon=True) for _ in range(CLIENTS)]
    for each in clients:
        each.start()
    began, printed = time.monotonic(), 0
    heads = ("accepted", "waiting", "refused", "p50 ms", "p99 ms", "RSS MB", "files")
    print("  minute" + "".join(f"{head:>10}" for head in heads))
    for at in plan.due_at():
        time.sleep(max(0.0, began + at - time.monotonic()))
        due.put(began + at)
        if at * LINES / plan.length_s >= printed + 1:
            printed += 1
            samples.append(_sample())
            waiting = len(tally.took_ms) - (len(counting.arrivals) - earlier)
            _print(tally, samples[-1], waiting, since=began, tenth_s=plan.length_s / LINES)
    for _ in clients:
        due.put(None)
    for each in clients:
        each.join()
    samples.append(_sample())
    accepted = len(tally.took_ms)
    _wait(lambda: len(counting.arrivals) - earlier >= accepted)
    arrived = len(counting.arrivals) - earlier
    print(f"accepted {accepted}, not taken {dict(tally.refused)}")
    print(f"at the target {arrived}, of these again {len(counting.repeats)}")
    grew = _growth(tally, samples, began=began, plan=plan)
    print("last third / first third: " + ", ".join(f"{name} {part:.2f}" for name, part in grew.items()))
    # What was taken although its answer never came is carried out too.
    exact = accepted <= arrived <= accepted + tally.refused[NO_ANSWER] and not counting.repeats
    flat = plan.length_s < LEAST_S or all(part <= 1 + MOST_GROWTH for part in grew.values())
    return 0 if exact and flat else 1


def _act(
    client: Callable[[], Callable[[], None]], due: queue.SimpleQueue[float | None], tally: _Tally
) -> None:
    """Act when it is due; the time counts from then.

    The client waits as long as a server with too much to do tells it to, and gives up after half a minute.
    """
    act = client()
    while (at := due.get()) is not None:
        if time.monotonic() - at > MOST_LATE_S:
            tally.refused["not sent, all clients were waiting"] += 1
            continue
        try:
            act()
        except CallRefused as refusal:
            tally.refused[refusal.code] += 1
        except Unreachable:
            tally.refused[NO_ANSWER] += 1
        else:
            tally.took_ms.append((at, (time.monotonic() - at) * 1000))


def _sample() -> _Sample:
    pids = process_cpu.descendants(os.getpid())
    files, pages = 0, 0
    for pid in pids:
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            files += len(os.listdir(f"/proc/{pid}/fd"))
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return _Sample(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, files)


def _print(tally: _Tally, sample: _Sample, waiting: int, *, since: float, tenth_s: float) -> None:
    now = time.monotonic()
    took = sorted(ms for at, ms in tally.took_ms.copy() if at >= now - tenth_s)
    figures = (
        len(tally.took_ms),
        max(waiting, 0),
        sum(tally.refused.values()),
        round(_quantile(took, 0.5)),
        round(_quantile(took, 0.99)),
        round(sample.rss_mb),
        sample.files,
    )
    print(f"{(now - since) / 60:>8.1f}" + "".join(f"{figure:>10}" for figure in figures), flush=True)


def _growth(tally: _Tally, samples: Sequence[_Sample], *, began: float, plan: _Plan) -> dict[str, float]:
    """How much more there was of each in the last third than in the first."""
    third_s, third = plan.length_s / 3, max(len(samples) // 3, 1)
    first = sorted(ms for at, ms in tally.took_ms if at - began < third_s)
    last = sorted(ms for at, ms in tally.took_ms if at - began >= 2 * third_s)
    return {
        "memory": _mean(each.rss_mb for each in samples[-third:])
        / _mean(each.rss_mb for each in samples[:third]),
        "files": _mean(each.files for each in samples[-third:])
        / _mean(each.files for each in samples[:third]),
        "p99": _quantile(last, 0.99) / max(_quantile(first, 0.99), 1),
    }


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def _wait(reached: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + SETTLES_S
    while not reached() and time.monotonic() < ends_at:
        time.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(main())
