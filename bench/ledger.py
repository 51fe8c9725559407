"""The ledger: how soon an entry is under a signed checkpoint, and what verifying and appending cost.

Run as `python -m bench.ledger SINCE UNTIL` in the environment of a stand, it prints as JSON what the database
says of entries up to UNTIL, and how long those since SINCE waited for a checkpoint; both in Unix seconds.
"""

import bisect
import hashlib
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Any

from bench import append_cost, environment, load
from bench.environment import ROOT, Stand

# So long the console still runs: what was recorded under load is sealed meanwhile.
SETTLED_S = 5.0
# The sealer works once a second.
INTERVAL_MS = 1000
# What takes less is done again and again, and the mean is taken: SHA-256 of so few bytes takes milliseconds.
LEAST_S = 0.2
WORKERS = {"celery": 2, "sealer": 1}


def run(stand: Stand, calls: int) -> dict[str, float]:
    """Measure on one database, and print it."""
    environment.load(stand)
    key = environment.manage(stand, "issue_key", "bench-agent")
    with ExitStack() as stack:
        base_url = stack.enter_context(console(stand))
        load.proposals(base_url, key, load.CLIENTS * 5)
        since = time.time()
        figure = load.proposals(base_url, key, calls)
        until = time.time()
        time.sleep(SETTLED_S)
    command = [sys.executable, "-m", "bench.ledger", str(since), str(until)]
    done = subprocess.run(command, cwd=ROOT, env=stand.environ, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{stand.name:<12}{'proposals a second meanwhile':<44}{figure.per_second:>12.1f}")
    print(f"{stand.name:<12}{'entries, and those missed':<44}{found['entries']:>12} {found['missed']:>6}")
    for name in ("p50", "p99", "max"):
        print(f"{stand.name:<12}{f'entry -> checkpoint, {name}, ms':<44}{found[name]:>12.0f}")
    for what, ms in found["cpu_ms"].items():
        ratio = ms / found["cpu_ms"]["SHA-256 over the same bytes"]
        print(f"{stand.name:<12}{f'{what}, CPU ms, ratio':<44}{ms:>12.0f} {ratio:>6.1f}")
    for what, ms in found["wall_ms"].items():
        bare = found["wall_ms"][f"SHA-256, {what.rpartition(', ')[2]}"]
        print(f"{stand.name:<12}{f'{what}, ms, ratio':<44}{ms:>12.0f} {ms / bare:>6.1f}")
    cost = found["append"]
    print(f"{stand.name:<12}{'intake of a proposal, CPU ms':<44}{cost['intake_ms']:>12.2f}")
    print(
        f"{stand.name:<12}{'its appends, CPU ms, share':<44}{cost['append_ms']:>12.2f} {cost['share']:>6.1%}"
    )
    return ratios_of(stand.name, found)


def ratios_of(name: str, found: Mapping[str, Any]) -> dict[str, float]:
    """What of the figures of a database carries over to other runs."""
    bare, *of_cpu = found["cpu_ms"]
    processes = ("one process", "two processes")
    return {
        **{
            f"{name}: CPU of {what} / of SHA-256 over the same": found["cpu_ms"][what] / found["cpu_ms"][bare]
            for what in of_cpu
        },
        **{
            f"{name}: time of verify_ledger / of SHA-256 over the same, {each}": found["wall_ms"][
                f"verify_ledger, {each}"
            ]
            / found["wall_ms"][f"SHA-256, {each}"]
            for each in processes
        },
        f"{name}: entry to checkpoint under load, p99 / the interval of the sealer": found["p99"]
        / INTERVAL_MS,
        f"{name}: entries under load that no checkpoint covers": float(found["missed"]),
        f"{name}: CPU of the appends of an intake / of the whole intake": found["append"]["share"],
    }


@contextmanager
def console(stand: Stand) -> Iterator[str]:
    """The console with what seals: itself, or a worker and its clock."""
    if not stand.redis:
        with environment.embedded(stand) as base_url:
            yield base_url
        return
    celery = ("-m", "celery", "-A", "dir_console", "--quiet")
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="dir-bench-"))
        for name, count in WORKERS.items():
            options = ("--queues", name, "--hostname", f"bench-{name}@%h", "--concurrency", str(count))
            stack.enter_context(environment.spawned(stand, *celery, "worker", *options))
        schedule = ("--schedule", f"{folder}/schedule", "--pidfile", "")
        stack.enter_context(environment.spawned(stand, *celery, "beat", *schedule))
        yield stack.enter_context(environment.served(stand, "dir_console.asgi:application"))


def _figures(since: float, until: float) -> dict[str, Any]:
    from audit.models import Checkpoint, Leaf, LedgerEntry
    from audit.verification import findings, verify

    signed = list(Checkpoint.objects.order_by("id").values_list("size", "at"))
    sizes = [size for size, _ in signed]
    places = dict(Leaf.objects.values_list("entry_id", "index"))
    recorded = LedgerEntry.objects.filter(at__lte=datetime.fromtimestamp(until, UTC))
    entries = list(recorded.values_list("id", "at"))
    lags, missed = [], 0
    for pk, at in entries:
        first = bisect.bisect_right(sizes, places.get(pk, sizes[-1]))
        if first == len(signed):
            missed += 1
        elif at.timestamp() >= since:  # what is older waited for the server to start
            lags.append((signed[first][1] - at).total_seconds() * 1000)
    lags.sort()
    bodies = [
        (bytes(prev), bytes(body)) for prev, body in LedgerEntry.objects.values_list("prev_hash", "body")
    ]
    halves = [bodies[0::2], bodies[1::2]]
    work: dict[str, Callable[[], object]] = {
        "SHA-256 over the same bytes": lambda: _hash(bodies),
        "chains and heads (verify_database)": verify.verify_database,
        "everything (verify_ledger)": findings.verify_all,
    }
    return {
        "entries": len(entries),
        "missed": missed,
        "p50": statistics.median(lags),
        "p99": lags[int(len(lags) * 0.99)],
        "max": lags[-1],
        "cpu_ms": {what: _cpu_ms(each) for what, each in work.items()},
        "wall_ms": {
            "SHA-256, one process": _wall_ms(lambda: _hash(bodies)),
            "SHA-256, two processes": _wall_ms(lambda: _hash_apart(halves)),
            "verify_ledger, one process": _wall_ms(findings.verify_all),
            "verify_ledger, two processes": _wall_ms(lambda: findings.verify_all(processes=2)),
        },
        # Last: it adds to the ledger.
        "append": append_cost.share(),
    }


def _hash(bodies: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    return [hashlib.sha256(prev + body).digest() for prev, body in bodies]


def _hash_apart(halves: Sequence[Sequence[tuple[bytes, bytes]]]) -> None:
    """Each half in a process of its own, which has the bytes already: it is a fork of this one."""
    forks = multiprocessing.get_context("fork")
    racers = [forks.Process(target=_hash, args=(half,)) for half in halves]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()


def _wall_ms(work: Callable[[], object]) -> float:
    return _mean_ms(work, time.perf_counter)


def _cpu_ms(work: Callable[[], object]) -> float:
    return _mean_ms(work, time.process_time)


def _mean_ms(work: Callable[[], object], clock: Callable[[], float]) -> float:
    work()  # what is read or compiled at its first use is not measured
    times, began = 0, clock()
    while True:
        work()
        times += 1
        if (taken := clock() - began) >= LEAST_S:
            return taken / times * 1000


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    django.setup()
    print(json.dumps(_figures(*map(float, sys.argv[1:3]))))
