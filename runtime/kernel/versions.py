"""Semantic versions: may something made for one version work under another? (DIR paper, 2.3)"""

from collections.abc import Iterable
from typing import Final

import semver

FIRST: Final = "1.0.0"


def compatible(*, asked: str, active: str) -> bool:
    """Whether `active` serves what asks for `asked`: the same major version, and not older.

    Short forms (`1.2`) count as `1.2.0`. Text that is no version is compatible with nothing.
    """
    try:
        wanted = semver.Version.parse(asked, optional_minor_and_patch=True)
        there = semver.Version.parse(active, optional_minor_and_patch=True)
    except ValueError:
        return False
    return wanted.major == there.major and wanted <= there


def highest(given: Iterable[str]) -> str | None:
    """The highest of some versions; what is no version is left out, and None where nothing remains."""
    known = [version for text in given if (version := _parsed(text)) is not None]
    return str(max(known)) if known else None


def is_later(version: str, than: str | None) -> bool:
    """Whether `version` comes after `than`, or is any version at all where that is None."""
    new, old = _parsed(version), None if than is None else _parsed(than)
    return new is not None and (old is None or new > old)


def next_minor(version: str) -> str:
    """The next minor version: what asks for an earlier one of the same major version is still served."""
    return str(semver.Version.parse(version).bump_minor())


def following(taken: Iterable[str]) -> str:
    """The next minor version after the highest that is taken; the first one where none is."""
    latest = highest(taken)
    return FIRST if latest is None else next_minor(latest)


def _parsed(text: str) -> semver.Version | None:
    try:
        return semver.Version.parse(text)
    except ValueError:
        return None
