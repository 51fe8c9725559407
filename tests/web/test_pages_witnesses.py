"""What people and monitoring see of the witnesses: the ledger's page, `/readyz` and `/metrics`."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from audit.models import WitnessState
from audit.sealing import witnesses
from dir_console import health
from runtime.core import clock
from runtime.epochs.models import Epoch
from runtime.epochs.services import witnessed
from runtime.maintenance.services import sealing, watchdog, witnessing
from tests.support import witness_places
from tests.support.witness_places import grow, make_due, place_of
from tests.web.test_health import failing, gauges
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
PAGE = "/ledger/"


@pytest.fixture(autouse=True)
def _up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_began_s", float("-inf"))
    monkeypatch.setattr(witnessed, "_first_look", None)


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    made = witness_places.make(tmp_path / "witness")
    witness_places.configure(settings, made)
    watchdog.keep_round(at=clock.now())
    sealing.seal_now()
    return made


def age(place: Path) -> float:
    return gauges()[f'dir_witness_age_seconds{{witness="{place}"}}']


def finding(place: Path) -> float:
    return gauges()[f'dir_witness_finding{{witness="{place}"}}']


def long_ago(**columns: Any) -> None:
    """As if all of it had been an hour earlier."""
    WitnessState.objects.update(signed_at=clock.now() - timedelta(hours=1), **columns)


def test_without_a_witness_nothing_is_reported_of_them() -> None:
    watchdog.keep_round(at=clock.now())
    sealing.seal_now()
    assert failing() == {}
    assert not [name for name in gauges() if "witness" in name]
    assert "No witness gets it" in text_of(sign_in(Role.AUDITOR), PAGE)


def test_the_page_says_what_a_witness_holds_and_since_when(folder: Path) -> None:
    newest = grow()
    reader = sign_in(Role.AUDITOR)
    page = text_of(reader, PAGE)
    assert "holds nothing yet" in page
    assert age(folder) == -1
    witnessing.send_due()
    page = text_of(reader, PAGE)
    assert f"{folder}" in page
    assert f"holds {newest.checkpoint.size} entries" in page
    assert "No witness gets it" not in page
    for word in ("Late</span>", "Not sent", "Not as signed"):
        assert word not in page
    assert 0 <= age(folder) < 60
    assert finding(folder) == 0
    assert failing() == {}
    assert gauges()['dir_ready{part="witness"}'] == 1


def test_why_a_witness_did_not_take_it_is_shown(folder: Path) -> None:
    grow()
    witnessing.send_due()
    folder.rename(folder.with_name("elsewhere"))
    grow()
    make_due()
    witnessing.send_due()
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    assert "Not sent" in page
    assert "the folder does not exist" in page
    assert failing() == {}, "one failure is not late yet"


@pytest.mark.parametrize(
    ("every_s", "age_s", "is_late"),
    [(60, 14 * 60, False), (60, 16 * 60, True), (600, 90 * 60, False), (600, 110 * 60, True)],
)
def test_late_is_ten_intervals_or_a_quarter_of_an_hour(
    folder: Path, settings: Settings, every_s: int, age_s: int, is_late: bool
) -> None:
    settings.DIR_WITNESS_EVERY_S = every_s
    grow()
    witnessing.send_due()
    WitnessState.objects.update(signed_at=clock.now() - timedelta(seconds=age_s), error="it is full")
    assert failing() == ({"witness": f"{folder} has no new checkpoint: it is full"} if is_late else {})
    assert ("Late</span>" in text_of(sign_in(Role.AUDITOR), PAGE)) is is_late
    assert age(folder) > age_s - 1


def test_a_witness_that_never_took_anything_is_late_in_the_end(folder: Path) -> None:
    grow()
    folder.rmdir()
    witnessing.send_due()
    assert failing() == {}
    WitnessState.objects.update(added_at=clock.now() - timedelta(hours=1))
    assert failing() == {"witness": f"{folder} has no new checkpoint: the folder does not exist"}
    assert age(folder) == -1


def test_a_server_that_has_just_begun_sends_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow()
    witnessing.send_due()
    long_ago()
    assert "witness" in failing()
    monkeypatch.setattr(health, "_began_s", float("inf"))
    assert failing() == {}


def test_a_file_that_was_changed_is_named_until_it_is_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow()
    witnessing.send_due()
    file = place_of(folder) / "latest.txt"
    file.write_text("something else")
    monkeypatch.setattr(health, "_began_s", float("inf"))
    grow()
    make_due()
    witnessing.send_due()
    assert failing() == {"witness": f"{folder}: latest.txt is not what this ledger signed"}
    assert finding(folder) == 1
    page = text_of(sign_in(Role.AUDITOR), PAGE)
    assert "Not as signed" in page
    assert "It is not overwritten" in page
    file.unlink()
    grow()
    make_due()
    witnessing.send_due()
    assert failing() == {}
    assert finding(folder) == 0


def test_each_of_several_is_named(tmp_path: Path, settings: Settings, folder: Path) -> None:
    other = witness_places.make(tmp_path / "other")
    hook = "https://hooks.example.com/dir/T0pSecretToken"
    witness_places.configure(settings, folder, other, hook, "https://plain.example")
    names = [witness.name for witness in witnesses.configured()]
    assert names[:2] == [str(folder), str(other)]
    assert names[2].startswith("https://hooks.example.com #")
    assert names[3] == "https://plain.example"
    for name in names:
        WitnessState.objects.create(name=name, added_at=clock.now(), next_at=clock.now())
    long_ago(size=1, sent_at=clock.now())
    why = failing()["witness"]
    assert all(name in why for name in names)
    texts = (text_of(sign_in(Role.AUDITOR), PAGE), why, Client().get("/metrics").content.decode())
    assert not [text for text in texts if "T0pSecretToken" in text]


def test_nothing_is_late_while_a_restored_backup_waits(folder: Path) -> None:
    grow()
    witnessing.send_due()
    long_ago()
    assert "witness" in failing()
    Epoch.objects.update(restored_at=clock.now(), missing=b"{}")
    assert set(failing()) == {"recovery"}
