# ruff: noqa: RUF001
"""Names that are taken for one another: by their characters, their scripts, or a letter more or less."""

import itertools
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import lookalikes
from runtime.kernel.lookalikes import Lookalike, Why

NAMES = st.text(max_size=12)
CLOSE = st.text(alphabet="abcr1n", max_size=8)


@pytest.mark.parametrize(
    ("name", "other", "why"),
    [
        ("acrne-corp", "acme-corp", Why.LOOKS_THE_SAME),
        ("аcme-corp", "acme-corp", Why.LOOKS_THE_SAME),
        ("аcmе-corр", "acme-corp", Why.LOOKS_THE_SAME),
        ("ACME-C0RP", "acme-corp", Why.LOOKS_THE_SAME),
        ("paypaI", "paypal", Why.LOOKS_THE_SAME),
        ("ａｃｍｅ", "acme", Why.LOOKS_THE_SAME),
        ("vvest", "west", Why.LOOKS_THE_SAME),
        ("acme-corpp", "acme-corp", Why.FEW_EDITS),
        ("amce-corp", "acme-corp", Why.FEW_EDITS),
        ("settlement-main", "settlment-mian", Why.FEW_EDITS),
        ("acme-corp", "acme-corp", None),
        ("acme-corp", "zenith-inc", None),
        ("AAPL", "AMPL", None),
        ("invoice-1041", "invoice-1042", None),
        ("acme-corp", "acme-corpora", None),
        ("x" * 65, "x" * 64, None),
    ],
)
def test_why_one_is_taken_for_the_other(name: str, other: str, why: Why | None) -> None:
    assert lookalikes.compare(name, other) is why
    assert lookalikes.compare(other, name) is why


@given(NAMES, NAMES)
def test_comparing_is_symmetric_and_never_fails(first: str, second: str) -> None:
    assert lookalikes.compare(first, second) is lookalikes.compare(second, first)
    assert lookalikes.compare(first, first) is None


@given(NAMES)
def test_a_skeleton_of_plain_letters_is_its_own(name: str) -> None:
    once = lookalikes.skeleton(name)
    assert lookalikes.skeleton(once) == lookalikes.skeleton(lookalikes.skeleton(once))


def distance(first: str, second: str) -> int:
    """Optimal string alignment, as the books define it."""

    @cache
    def of(end: int, other: int) -> int:
        if not end or not other:
            return end + other
        found = min(
            of(end - 1, other) + 1,
            of(end, other - 1) + 1,
            of(end - 1, other - 1) + (first[end - 1] != second[other - 1]),
        )
        if end > 1 and other > 1 and first[end - 2 : end] == second[other - 2 : other][::-1]:
            found = min(found, of(end - 2, other - 2) + 1)
        return found

    return of(len(first), len(second))


@given(CLOSE, CLOSE, st.integers(0, 3))
def test_counts_edits_like_the_definition(first: str, second: str, most: int) -> None:
    assert lookalikes.edits_within(first, second, most) is (distance(first, second) <= most)


@pytest.mark.parametrize(
    ("name", "is_mixed"),
    [
        ("аcme", True),
        ("αcme", True),
        ("acme", False),
        ("акме", False),
        ("Zürich", False),
        ("東京 office", False),
    ],
)
def test_mixed_scripts(name: str, is_mixed: bool) -> None:
    assert lookalikes.is_mixed(name) is is_mixed


def test_finds_the_likest_of_the_often_used_first_and_only_a_few() -> None:
    known = {"acme-corp": 5, "acme-corpp": 9, "acme-c0rp": 2, "zenith": 50}
    assert lookalikes.find("acrne-corp", known)[0] == Lookalike("acme-corp", 5, Why.LOOKS_THE_SAME)
    assert [item.name for item in lookalikes.find("acme-c0rp", known)] == ["acme-corp", "acme-corpp"]
    many = {f"acme-corp{letter}": 3 for letter in "abcdefgh"}
    assert len(lookalikes.find("acme-corp", many)) == lookalikes.MOST_FOUND


def test_a_name_that_is_used_often_itself_and_one_that_is_not_trusted_say_nothing() -> None:
    for ours, theirs in itertools.product((0, 2, 3, 9), (0, 2, 3, 9)):
        found = lookalikes.find("acrne-corp", {"acrne-corp": ours, "acme-corp": theirs})
        assert bool(found) is (ours < lookalikes.OFTEN <= theirs)
