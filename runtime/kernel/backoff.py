"""When to try again: exponential, with jitter from a random number that the caller gives.

After a failed call its intent waits (`delay_s`); a target that fails often is left alone (`doubled_s`).
"""

# Three waits come to some five seconds: a target that restarts is waited for, and a person is not called.
FIRST_S = 1.0
LONGEST_S = 60.0


def delay_s(*, failures: int, jitter: float, retry_after_s: float | None = None) -> float:
    """Seconds to wait after the `failures`-th failure (1 or more), at most LONGEST_S.

    `jitter` is in [0, 1) and spreads the wait over its upper half, so that many intents that failed together
    do not come back together. A target's own `retry_after_s` is kept as the least wait, within the cap.
    """
    if failures < 1 or not 0.0 <= jitter < 1.0:
        raise ValueError("a delay follows at least one failure, and jitter lies in [0, 1)")
    full_s = doubled_s(times=failures, first_s=FIRST_S, longest_s=LONGEST_S)
    waited_s = full_s * (0.5 + jitter / 2)
    return waited_s if retry_after_s is None else min(max(waited_s, retry_after_s), LONGEST_S)


def doubled_s(*, times: int, first_s: float, longest_s: float) -> float:
    """Seconds of the `times`-th wait in a row (1 or more): `first_s`, and twice as long each time."""
    # The exponent is bounded as well: 2.0 ** 2000 is an OverflowError, not a long wait.
    return min(first_s * 2.0 ** min(times - 1, 30), longest_s)
