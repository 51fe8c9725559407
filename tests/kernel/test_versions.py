"""Semantic versions: the same major, and not older."""

import pytest

from runtime.kernel import versions


@pytest.mark.parametrize(
    ("asked", "active"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2.3", "1.2.4"),
        ("1.2.3", "1.10.0"),
        ("1.2", "1.2.0"),
        ("1", "1.0.0"),
        ("1.2.0-rc.1", "1.2.0"),
        ("1.2.0+build.5", "1.2.0"),
        ("0.1.0", "0.9.0"),
    ],
)
def test_serves_what_is_of_its_major_and_not_newer(asked: str, active: str) -> None:
    assert versions.compatible(asked=asked, active=active)


@pytest.mark.parametrize(
    ("asked", "active"),
    [
        ("1.2.4", "1.2.3"),
        ("2.0.0", "1.9.9"),
        ("1.0.0", "2.0.0"),
        ("1.2.0", "1.2.0-rc.1"),
        ("", "1.0.0"),
        ("latest", "1.0.0"),
        ("1.0.0", "latest"),
        ("1.0.0.0", "1.0.0"),
        ("v1.0.0", "1.0.0"),
        ("01.0.0", "1.0.0"),
        ("1.0.0\n", "1.0.0"),
        ("\u0661.0.0", "1.0.0"),
    ],
)
def test_serves_nothing_else(asked: str, active: str) -> None:
    assert not versions.compatible(asked=asked, active=active)


def test_the_highest_leaves_out_what_is_no_version() -> None:
    assert versions.highest(["1.2.0", "1.10.0", "not one", "1.10.0-rc.1"]) == "1.10.0"
    assert versions.highest(["not one"]) is None


def test_later_is_higher_and_a_build_is_not() -> None:
    assert versions.is_later("1.2.1", "1.2.0")
    assert versions.is_later("0.0.1", None)
    assert not versions.is_later("1.2.0+build.2", "1.2.0")
    assert not versions.is_later("not one", None)


def test_the_next_minor_version_drops_what_came_before_it() -> None:
    assert versions.next_minor("1.2.3-rc.1+build.5") == "1.3.0"
