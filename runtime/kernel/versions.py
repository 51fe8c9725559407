"""Semantic versions: may something made for one version work under another? (DIR paper, 2.3)"""

import semver


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
