"""`state:changed`: which facts each version of the world changed, of those that a reader may read.

Nothing is queued for anybody: versions are rows, and a reader has a number. Who is further behind than
MOST_BEHIND gets no events but the version to start from again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Exists, OuterRef, QuerySet

from runtime.state.models import FactVersion, WorldVersion
from runtime.state.queries import world
from runtime.state.queries.sight import Sight

# How many versions are looked through for one reader.
MOST_BEHIND: Final = 10_000
# Of one answer.
MOST_EVENTS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A version that changed facts in sight, with the new version of each, by path."""

    version: WorldVersion
    facts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """Changes in order, and the version up to which there are no others in sight.

    With `is_resync` there are no changes: the world is to be read at `following`, and changes from there on.
    """

    changes: Sequence[StateChange]
    following: int
    is_resync: bool = False


def must_resync(*, after: int, last: int) -> bool:
    """Whether a reader at version `after` is too far behind the last one, or ahead of all that there are.

    It is ahead where a backup was restored, which lost the versions that it has seen.
    """
    return after > last or last - after > MOST_BEHIND


def has_news(*, sight: Sight, after: int) -> bool:
    """Whether there is a change in sight, or the reader has to start again."""
    last = world.last_version(sight.tenant)
    return must_resync(after=after, last=last) or _in_sight(sight, after, last).exists()


def read(*, sight: Sight, after: int) -> ChangePage:
    """The next changes in sight past a version, at most MOST_EVENTS."""
    last = world.last_version(sight.tenant)
    if must_resync(after=after, last=last):
        return ChangePage(changes=(), following=last, is_resync=True)
    rows = list(_in_sight(sight, after, last).order_by("version")[: MOST_EVENTS + 1])
    page = rows[:MOST_EVENTS]
    written = world.list_written(sight, [row.write_id for row in page])
    changes = tuple(
        StateChange(version=row, facts=written[row.write_id]) for row in page if row.write_id in written
    )
    following = (page[-1].version or last) if len(rows) > MOST_EVENTS else last
    return ChangePage(changes=changes, following=following)


def _in_sight(sight: Sight, after: int, last: int) -> QuerySet[WorldVersion]:
    facts = FactVersion.objects.of(sight.tenant).filter(sight.where(), write_id=OuterRef("write_id"))
    rows = WorldVersion.objects.of(sight.tenant).filter(version__gt=after, version__lte=last)
    return rows.filter(Exists(facts))
