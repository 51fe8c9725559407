"""`make bench`: the gate over HTTP beside a bare view that inserts the same rows, in one run.

Only the ratio carries over to other machines. The two are measured in turns, so that a machine that slows
down slows both.
"""

import argparse
import contextlib
import os
import statistics
import sys

from bench import racing, stand
from bench.racing import Figure

POSTGRES = os.environ.get("DIR_BENCH_POSTGRES", "postgres://root@127.0.0.1:5432/postgres")


def main() -> int:
    """Measure on SQLite and, where a server answers, on PostgreSQL."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--calls", type=int, default=800, help="calls in a round (default 800)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each (default 3)")
    wanted = parser.parse_args()
    print(
        f"{racing.CLIENTS} closed-loop clients, {wanted.rounds} rounds of {wanted.calls} calls, median round"
    )
    print(f"{'database':<12}{'what':<28}{'per second':>12}{'p50 ms':>9}{'p99 ms':>9}")
    with stand.sqlite() as ground:
        _measure(ground, wanted.calls, wanted.rounds)
    with contextlib.ExitStack() as stack:
        try:
            ground = stack.enter_context(stand.postgres(POSTGRES))
        except Exception as error:
            print(f"PostgreSQL was left out: {error}", file=sys.stderr)
            return 1
        _measure(ground, wanted.calls, wanted.rounds)
    return 0


def _measure(ground: stand.Stand, calls: int, rounds: int) -> None:
    key = stand.manage(ground, "issue_key", "bench-agent")
    ours, bare = [], []
    with stand.served(ground, "dir_console.asgi:application") as base_url:
        racing.proposals(base_url, key, racing.CLIENTS * 5)  # the first calls compile rules and warm pools
        with stand.served(ground, "bench.bare_asgi:application") as bare_url:
            racing.bare(bare_url, racing.CLIENTS * 5)
            for _ in range(rounds):
                ours.append(racing.proposals(base_url, key, calls))
                bare.append(racing.bare(bare_url, calls))
    full, floor = _median(ours), _median(bare)
    _print(ground.name, "proposal -> verdict", full)
    _print(ground.name, "bare view, same rows", floor)
    print(f"{ground.name:<12}{'ratio ours / bare':<28}{full.per_second / floor.per_second:>12.2f}")


def _median(figures: list[Figure]) -> Figure:
    middle = statistics.median_low(figure.per_second for figure in figures)
    return next(figure for figure in figures if figure.per_second == middle)


def _print(database: str, what: str, figure: Figure) -> None:
    print(f"{database:<12}{what:<28}{figure.per_second:>12.1f}{figure.p50_ms:>9.1f}{figure.p99_ms:>9.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
