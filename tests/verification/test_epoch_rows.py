"""verify_ledger on the lives of the database and on keys: each column with the entry that states it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from audit.verification import findings
from runtime.contracts.problem import Problem
from runtime.epochs.models import Epoch
from runtime.epochs.services import epochs
from runtime.maintenance.services import sweeper
from runtime.registry.models import Key
from runtime.registry.services import credentials
from tests.support import restored_backup, trading_desk
from tests.support.restored_backup import begin_next, restore

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return restored_backup.keep_mark(tmp_path, monkeypatch)


def found() -> list[str]:
    return [item.detail for item in findings.verify_all().findings]


def test_a_restore_that_its_row_denies_is_found(place: Path) -> None:
    trading_desk.open_desk()
    restore(place)
    assert epochs.compare_with_mark()
    assert found() == []
    row = Epoch.objects.get()
    Epoch.objects.update(missing=bytes(row.missing) + b" ")
    assert found() == ["epoch.missing does not match the ledger"]
    Epoch.objects.update(missing=row.missing, restored_at=None)
    assert found() == [f"epoch.restored_at is None, but the ledger recorded {row.restored_at}"]


@pytest.mark.parametrize(
    ("number", "columns"),
    [
        (1, {"ended_at": datetime(2040, 1, 1, tzinfo=UTC)}),
        (2, {"began_at": datetime(2020, 1, 1, tzinfo=UTC)}),
        (2, {"restored_at": datetime(2040, 1, 1, tzinfo=UTC)}),
        (2, {"missing": b"{}"}),
        (2, {"database_id": uuid4()}),
        (1, {"number": 7}),
        (2, {"number": 7}),
    ],
)
def test_each_life_is_as_it_was_begun(place: Path, number: int, columns: dict[str, Any]) -> None:
    trading_desk.open_desk()
    restore(place)
    sweeper.sweep()
    begun = begin_next()
    assert not isinstance(begun, Problem), begun
    assert found() == []
    Epoch.objects.filter(number=number if number == 1 else begun.number).update(**columns)
    assert found()


def test_the_first_life_is_there() -> None:
    assert found() == []
    Epoch.objects.update(number=7)
    assert found() == ["the first epoch is missing", "no entry records the epoch 7"]


@pytest.mark.parametrize(("column", "value"), [("secret_hash", "a" * 64), ("fact_prefix", "order.")])
def test_the_secret_and_the_facts_of_a_key_are_those_that_were_issued(column: str, value: str) -> None:
    issued = credentials.issue_feed_key(tenant="default", feed="prices", prefix="price.", actor="user:1")
    assert isinstance(issued, credentials.IssuedKey)
    assert found() == []
    Key.objects.update(**{column: value})
    assert [detail.split(" is ")[0] for detail in found()] == [f"key.{column}"]
