import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core import ids

MOMENT = st.integers(0, 2**48 - 1)
NOISE = st.binary(min_size=10, max_size=10)


@given(now_ms=MOMENT, noise=NOISE)
def test_an_id_is_a_uuid_of_version_7_that_holds_its_time(now_ms: int, noise: bytes) -> None:
    made = ids.uuid7(now_ms, noise)
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == now_ms


@given(first=MOMENT, second=MOMENT, noise=st.tuples(NOISE, NOISE))
def test_ids_sort_by_their_time(first: int, second: int, noise: tuple[bytes, bytes]) -> None:
    if first < second:
        assert str(ids.uuid7(first, noise[0])) < str(ids.uuid7(second, noise[1]))


@given(now_ms=MOMENT, one=NOISE, other=NOISE)
def test_at_least_74_bits_of_chance_tell_ids_apart(now_ms: int, one: bytes, other: bytes) -> None:
    kept = 2**74 - 1
    same = int.from_bytes(one) & kept == int.from_bytes(other) & kept
    assert (ids.uuid7(now_ms, one) == ids.uuid7(now_ms, other)) == same


@pytest.mark.parametrize("noise", [b"", bytes(9), bytes(11)])
def test_refuses_another_number_of_random_bytes(noise: bytes) -> None:
    with pytest.raises(ValueError, match="ten random bytes"):
        ids.uuid7(0, noise)
