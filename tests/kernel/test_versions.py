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
