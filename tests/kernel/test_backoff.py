import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import backoff

JITTER = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(failures=st.integers(1, 10_000), jitter=JITTER, retry_after_s=st.none() | st.floats(0, 1e9))
def test_a_delay_is_positive_and_capped(failures: int, jitter: float, retry_after_s: float | None) -> None:
    delay_s = backoff.delay_s(failures=failures, jitter=jitter, retry_after_s=retry_after_s)
    assert 0 < delay_s <= backoff.LONGEST_S


def test_delays_double() -> None:
    delays = [backoff.delay_s(failures=failures, jitter=0.0) for failures in (1, 2, 3)]
    assert delays == [0.5, 1.0, 2.0]


def test_jitter_spreads_the_upper_half() -> None:
    assert backoff.delay_s(failures=1, jitter=0.0) == backoff.FIRST_S / 2
    assert backoff.delay_s(failures=1, jitter=0.999) == pytest.approx(backoff.FIRST_S, rel=0.01)


def test_the_targets_own_wait_is_kept() -> None:
    assert backoff.delay_s(failures=1, jitter=0.0, retry_after_s=7.0) == 7.0
    assert backoff.delay_s(failures=1, jitter=0.0, retry_after_s=0.0) == 0.5


@pytest.mark.parametrize(("failures", "jitter"), [(0, 0.5), (1, 1.0), (1, -0.1)])
def test_refuses_what_is_no_delay(failures: int, jitter: float) -> None:
    with pytest.raises(ValueError, match="jitter"):
        backoff.delay_s(failures=failures, jitter=jitter)
