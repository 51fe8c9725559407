"""Versions of the world that are not as they were made: each change is a finding."""

from collections.abc import Callable

import pytest

from audit.verification import findings
from runtime.maintenance.services import sealing
from runtime.state.models import FactVersion, WorldVersion
from tests.support import factories

pytestmark = pytest.mark.django_db


def _swapped() -> None:
    """Two writes change their places, rows of facts included: only the tree knows their order."""
    for given, taken in ((1, 900), (2, 1), (900, 2)):
        WorldVersion.objects.filter(version=given).update(version=taken)
        FactVersion.objects.filter(world_version=given).update(world_version=taken)


def _gone() -> None:
    WorldVersion.objects.filter(version=1).delete()


def _later() -> None:
    WorldVersion.objects.filter(version=3).update(version=9)
    FactVersion.objects.filter(world_version=3).update(world_version=9)


def _made_up() -> None:
    row = WorldVersion.objects.get(version=3)
    row.pk, row.write_id, row.version = None, "0" * 26, 4
    row.save()


def _of_another_write() -> None:
    first, second = WorldVersion.objects.filter(version__lte=2)
    FactVersion.objects.filter(write_id=first.write_id).update(
        write_id=second.write_id, world_version=second.version
    )


def _of_another_writer() -> None:
    WorldVersion.objects.filter(version=2).update(writer="feed:other")


@pytest.mark.parametrize(
    "change",
    [_swapped, _gone, _later, _made_up, _of_another_write, _of_another_writer],
    ids=lambda it: it.__name__,
)
def test_what_was_changed_is_found(change: Callable[[], None]) -> None:
    for path in ("price.A", "price.B", "price.C"):
        factories.write(path, 1)
    sealing.seal_now()
    assert findings.verify_all().findings == []
    change()
    assert findings.verify_all().findings != []
