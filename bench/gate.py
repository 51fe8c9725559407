"""The gate over HTTP beside a bare view that inserts the same rows.

The two are measured in turns, so that a machine that slows down slows both.
"""

import statistics

from bench import action, environment, load
from bench.environment import Stand
from bench.load import Figure


def run(ground: Stand, calls: int, rounds: int) -> dict[str, float]:
    """Measure on one database, and print calls a second, p50, p99 and the ratio."""
    environment.load(ground)
    key = environment.manage(ground, "issue_key", "bench-agent")
    ours, bare = [], []
    with environment.served(ground, "dir_console.asgi:application") as base_url:
        load.proposals(base_url, key, load.CLIENTS * 5)  # the first calls compile rules and warm pools
        with environment.served(ground, "bench.bare_asgi:application") as bare_url:
            post = load.Post(bare_url, "/bare", {"params": action.BODY["params"]})
            load.posts(post, load.CLIENTS * 5)
            for _ in range(rounds):
                ours.append(load.proposals(base_url, key, calls))
                bare.append(load.posts(post, calls))
    full, floor = _median(ours), _median(bare)
    _print(ground.name, "proposal -> verdict", full)
    _print(ground.name, "bare view, same rows", floor)
    ratio = floor.per_second / full.per_second
    print(f"{ground.name:<12}{'ratio bare / ours':<28}{ratio:>12.2f}")
    return {f"{ground.name}: bare views / proposals, each as many a second as there can be": ratio}


def _median(figures: list[Figure]) -> Figure:
    middle = statistics.median_low(figure.per_second for figure in figures)
    return next(figure for figure in figures if figure.per_second == middle)


def _print(database: str, what: str, figure: Figure) -> None:
    print(f"{database:<12}{what:<28}{figure.per_second:>12.1f}{figure.p50_ms:>9.1f}{figure.p99_ms:>9.1f}")
