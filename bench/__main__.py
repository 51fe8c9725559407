"""`make bench`: speed as ratios of figures of one run; only the ratios carry over to other machines.

Parts: `gate` (proposal to verdict over HTTP), `judge` (the gate alone), `stop` (the kill switch).
"""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from bench import environment, gate, judge, kill_switch, load
from bench.environment import Stand

POSTGRES = os.environ.get("DIR_BENCH_POSTGRES", "postgres://root@127.0.0.1:5432/postgres")
REDIS = os.environ.get("DIR_BENCH_REDIS", "redis://127.0.0.1:6379/14")
PARTS = ("judge", "stop", "gate")


def main() -> int:
    """Measure on SQLite and, where a server answers, on PostgreSQL; 1 where one was left out."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--calls", type=int, default=800, help="calls in a round of `gate` (default 800)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each ratio (default 3)")
    parser.add_argument("--stops", type=int, default=10, help="how often each switch is pressed (default 10)")
    asked = parser.parse_args()
    parts, whole = {asked.only} if asked.only else set(PARTS), True
    if "judge" in parts:
        judge.run(asked.rounds)
    if "stop" in parts:
        print(f"\nlast new effect after the stop's POST, {asked.stops} stops in a running burst")
        print(f"{'database':<12}{'what':<32}{'p50 ms':>10}{'max ms':>10}")
        whole &= _on_both(lambda ground: kill_switch.run(ground, asked.stops), redis=REDIS)
    if "gate" in parts:
        rounds = f"{asked.rounds} rounds of {asked.calls} calls"
        print(f"\n{load.CLIENTS} closed-loop clients, {rounds}, median round")
        print(f"{'database':<12}{'what':<28}{'per second':>12}{'p50 ms':>9}{'p99 ms':>9}")
        whole &= _on_both(lambda ground: gate.run(ground, asked.calls, asked.rounds))
    return 0 if whole else 1


def _on_both(measure: Callable[[Stand], None], *, redis: str = "") -> bool:
    with environment.sqlite() as ground:
        measure(ground)
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
