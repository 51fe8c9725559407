"""A backup that is restored, as the mark shows it, and the new epoch that an admin begins after it."""

import json
from pathlib import Path

import pytest
from django.conf import settings

from runtime.epochs.models import Epoch
from runtime.epochs.services import epochs, marks
from runtime.maintenance.services import restores
from tests.support import trading_desk


def keep_mark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the ledger leave its mark in this folder; where it lies."""
    monkeypatch.setattr(settings, "DIR_MARK", str(folder / "mark"))
    monkeypatch.setattr(marks, "_looked_at_s", float("-inf"))
    return folder / "mark"


def restore(place: Path) -> None:
    """What a restored backup looks like: the mark names an entry that is not here."""
    assert not epochs.compare_with_mark()
    kept = json.loads(place.read_text())
    place.write_text(json.dumps({**kept, "entry_id": kept["entry_id"] + 7}))
    marks._looked_at_s = float("-inf")


def begin_next() -> Epoch:
    """An admin has understood it."""
    begun = restores.begin_next(tenant=trading_desk.TENANT, actor="user:1", reason="understood")
    assert isinstance(begun, Epoch), begun
    marks._looked_at_s = float("-inf")
    return begun
