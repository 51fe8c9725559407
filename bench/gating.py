"""The gate over HTTP beside a bare view that inserts the same rows.

The two are measured in turns, so that a machine that slows down slows both.
"""

import statistics

from bench import racing, stand
from bench.racing import Figure
from bench.stand import Stand


def run(ground: Stand, calls: int, rounds: int) -> None:
    """Measure on one database, and print calls a second, p50, p99 and the ratio."""
    stand.load(ground)
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
