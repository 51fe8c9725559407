"""`make bench`: speed as ratios of figures of one run; only the ratios carry over to other machines.

Parts: `gate` (proposal to verdict over HTTP), `action` (CPU of an action in three calls and in one), `judge`
(the gate alone), `policies` (steps of workflows, a decision table), `stop` (the kill switch), `desk` (an
escalation's commit to its row in every browser), `pages` (server CPU of the queue and of decisions),
`ledger` (sealing under load, and verification), `profile` (Python calls of an action and of an attempt),
`storage` (bytes of an action). Only by their own names: `ledger_growth` (searches in a large ledger), `peers`
(the nearest peers in the same run; installs them).

`--keep` writes the ratios to `ratios.json` and docs/performance.md; `--gate` ends with 1 where one of them is
worse by more than 15 %.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from bench import (
    action,
    action_profile,
    desk,
    environment,
    gate,
    judge,
    kill_switch,
    ledger,
    ledger_growth,
    load,
    pages,
    peers,
    policies,
    ratios,
    storage,
)
from bench.environment import POSTGRES, Stand

REDIS = os.environ.get("DIR_BENCH_REDIS", "redis://127.0.0.1:6379/14")
DATABASES = ("sqlite", "postgresql")
PARTS = ("judge", "policies", "stop", "gate", "action", "desk", "pages", "ledger", "profile", "storage")
# What a part has found: ratios by name.
Found = dict[str, float]
# Takes many minutes or the network, so only where it is asked for.
LONG = ("ledger_growth", "peers")


def main() -> int:
    """Measure on SQLite and, where a server answers, on PostgreSQL; 1 where one was left out or got worse."""
    asked = _parser().parse_args()
    environment.end_with_what_was_started()
    print(f"Python {platform.python_version()} of {Path(sys.executable).resolve()}")
    found, whole = _measure(asked)
    if asked.keep:
        ratios.keep(found)
    worse = ratios.losses(found, ratios.kept()) if asked.gate else []
    for sentence in worse:
        print(sentence, file=sys.stderr)
    return 1 if worse or not whole else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", choices=(*PARTS, *LONG), help="one part alone")
    parser.add_argument("--calls", type=int, default=800, help="calls in a round of `gate` (default 800)")
    parser.add_argument(
        "--actions", type=int, default=200, help="actions in a round of `action` (default 200)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each ratio (default 3)")
    parser.add_argument("--stops", type=int, default=10, help="how often each switch is pressed (default 10)")
    parser.add_argument("--escalations", type=int, default=24, help="escalations of `desk` (default 24)")
    parser.add_argument("--browsers", type=int, default=50, help="browsers of `desk` (default 50)")
    parser.add_argument(
        "--entries", type=int, default=1_000_000, help="entries of `ledger_growth` (default a million)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the ratios of this run")
    parser.add_argument("--gate", action="store_true", help="1 where a kept ratio has become worse by 15 %%")
    parser.add_argument("--database", choices=DATABASES, help="one database alone")
    return parser


def _measure(asked: argparse.Namespace) -> tuple[Found, bool]:
    """The ratios of what is asked for, and whether it was measured on every database."""
    parts, found, whole = {asked.only} if asked.only else set(PARTS), Found(), True
    databases = {asked.database} if asked.database else set(DATABASES)

    def each(measure: Callable[[Stand], Found | None], *, redis: str = "") -> None:
        nonlocal whole
        whole &= _on_each(databases, lambda ground: found.update(measure(ground) or {}), redis=redis)

    if "judge" in parts:
        found |= judge.run(asked.rounds)
    if "policies" in parts:
        found |= policies.run(asked.rounds)
    if "stop" in parts:
        print(f"\nlast new effect after the stop's POST, {asked.stops} stops in a running burst")
        print(f"{'database':<12}{'what':<32}{'p50 ms':>10}{'max ms':>10}")
        each(lambda ground: kill_switch.run(ground, asked.stops), redis=REDIS)
    if "gate" in parts:
        rounds = f"{asked.rounds} rounds of {asked.calls} calls"
        print(f"\n{load.CLIENTS} closed-loop clients, {rounds}, median round")
        print(f"{'database':<12}{'what':<28}{'per second':>12}{'p50 ms':>9}{'p99 ms':>9}")
        each(lambda ground: gate.run(ground, asked.calls, asked.rounds))
    if "action" in parts:
        print(f"\nCPU of one action, median of {asked.rounds} rounds of {asked.actions}")
        print(f"{'database':<12}{'what':<28}{'server ms':>12}{'in db ms':>12}")
        each(lambda ground: action.run(ground, asked.actions, asked.rounds))
    if "desk" in parts:
        print(f"\ncommit of an escalation -> its row, {asked.browsers} browsers on the queue")
        print(f"{'database':<12}{'what':<32}{'times':>8}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
        each(lambda ground: desk.run(ground, asked.escalations, asked.browsers), redis=REDIS)
    if "pages" in parts:
        print(f"\nserver CPU of one request, median of {asked.rounds} rounds; ratio to the bare view")
        heads = f"{'CPU ms':>10}{'ratio':>8}{'in db ms':>10}{'SQL':>8}{'calls':>10}"
        print(f"{'database':<12}{'open':>5} {'what':<30}{heads}")
        each(lambda ground: pages.run(ground, asked.rounds))
    if "ledger" in parts:
        print(f"\n{load.CLIENTS} closed-loop clients, {asked.calls} calls")
        each(lambda ground: ledger.run(ground, asked.calls), redis=REDIS)
    if "profile" in parts:
        print("\nPython calls in process, and CPU beside a fixed piece of Python work")
        print(f"{'database':<12}{'what':<12}{'statements':>12}{'calls':>12}{'CPU ms':>10}{'ratio':>8}")
        each(action_profile.run)
    if "storage" in parts:
        print(f"\nbytes that an action leaves, with indexes, mean of {10 * asked.actions}")
        each(lambda ground: storage.run(ground, 10 * asked.actions))
    if "peers" in parts:
        print(f"\nbeside peers, median of {asked.rounds} rounds of {asked.actions}; {load.CLIENTS} clients")
        print(f"{'database':<12}{'what':<46}{'CPU ms':>10}{'per second':>12}{'p99 ms':>9}")
        each(lambda ground: peers.run(ground, asked.actions, asked.rounds))
    if "ledger_growth" in parts:
        print(f"\nsearches with {ledger_growth.SMALL} entries and with {asked.entries}")
        each(lambda ground: ledger_growth.run(ground, asked.entries))
    return found, whole


def _on_each(databases: Collection[str], measure: Callable[[Stand], object], *, redis: str) -> bool:
    if "sqlite" in databases:
        with environment.sqlite() as ground:
            measure(ground)
    if "postgresql" not in databases:
        return True
    with ExitStack() as stack:
        try:
            ground = stack.enter_context(_production(redis))
        except Exception as error:
            print(f"PostgreSQL was left out: {error}", file=sys.stderr)
            return False
        measure(ground)
    return True


def _production(redis: str) -> AbstractContextManager[Stand]:
    if redis:
        environment.ping(redis)
    return environment.postgres(POSTGRES, redis=redis)


if __name__ == "__main__":
    raise SystemExit(main())
