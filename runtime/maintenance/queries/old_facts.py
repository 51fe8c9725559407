"""Which versions of facts are over their time: those that were followed by another one long enough ago.

A version that a flow may still read stays: one that was current when any flow that has not ended, or has a
call in doubt, was opened, or later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Max, Min, OuterRef, Subquery

from runtime.contracts.retention import EVERY_FACT, FactClass
from runtime.contracts.states import ENDED, FlowState
from runtime.flows.models import Flow
from runtime.flows.queries import calls_in_doubt
from runtime.kernel.rules import templates
from runtime.state.models import Fact, FactVersion

# How many facts one look asks for, and how many versions of one fact go at a time.
FACTS_AT_ONCE: Final = 200
VERSIONS_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class OldVersions:
    """Versions of one fact that are over their time, `first` to `through`, and the class that says so."""

    path: str
    of: FactClass
    first: int
    through: int

    @property
    def count(self) -> int:
        """How many there are."""
        return self.through - self.first + 1


def list_classes() -> Sequence[FactClass]:
    """The classes in force, the narrowest first; none where all versions are kept."""
    classes: Sequence[FactClass] = settings.DIR_FACT_RETENTION
    return classes


def class_of(path: str, classes: Sequence[FactClass]) -> FactClass | None:
    """The narrowest class of a fact; `classes` are as `read_fact_classes` gives them."""
    of_path = (of for of in classes if of.selector == EVERY_FACT or templates.selects(of.selector, path))
    return next(of_path, None)


def list_old(*, tenant: str, at: datetime, after: str) -> tuple[list[OldVersions], str | None]:
    """What is over its time among the next facts by path; the last path, or None where there is no further.

    Each fact costs two reads of an index, unless something of it is due.
    """
    classes, still_read = list_classes(), _read_since(tenant)
    versions = FactVersion.objects.filter(tenant=OuterRef("tenant"), path=OuterRef("path")).order_by(
        "version"
    )
    rows = Fact.objects.of(tenant).filter(path__gt=after, version__gt=1).order_by("path")
    facts = rows.annotate(
        first=Subquery(versions.values("version")[:1]),
        followed_at=Subquery(versions.values("written_at")[1:2]),
    ).values_list("path", "first", "followed_at")[:FACTS_AT_ONCE]
    found, last = list[OldVersions](), None
    for path, first, followed_at in facts:
        last = path
        of = class_of(path, classes)
        if of is None or not of.days or followed_at is None:
            continue
        before = at - timedelta(days=of.days)
        before = before if still_read is None else min(before, still_read)
        if followed_at < before:
            through = _newest_before(before, tenant=tenant, path=path, first=first) - 1
            found.append(OldVersions(path, of, first, through))
    return found, last


def _newest_before(before: datetime, *, tenant: str, path: str, first: int) -> int:
    """The newest of the next versions that was there by then: those before it had been followed."""
    rows = FactVersion.objects.of(tenant).filter(
        path=path, version__lte=first + VERSIONS_AT_ONCE, written_at__lt=before
    )
    newest: int = rows.aggregate(newest=Max("version"))["newest"]
    return newest


def _read_since(tenant: str) -> datetime | None:
    """When the oldest flow was opened that may still read what it saw; ids rise with the time."""
    opened = list[datetime]()
    for state in FlowState:
        if state not in ENDED:
            rows = Flow.objects.of(tenant).filter(state=state).order_by("dfid")
            opened += rows.values_list("opened_at", flat=True)[:1]
    doubted = calls_in_doubt.left_in_doubt(tenant).aggregate(opened=Min("intent__flow__opened_at"))["opened"]
    return min([*opened, *([doubted] if doubted else [])], default=None)
