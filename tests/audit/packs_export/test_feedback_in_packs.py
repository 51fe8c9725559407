"""Packs of flows on which people gave feedback after their end: whole, with the reason or without it."""

import base64
from pathlib import Path

import pytest

from audit import canonical
from audit.models import RecordFeedback
from runtime.maintenance.services import payloads, sealing
from tests.support import exported_packs, finished_history, worlds
from tests.support.finished_history import History

pytestmark = pytest.mark.django_db
WHY = "The trend had turned."

history = worlds.opened(finished_history.opened)


def test_a_stranger_finds_the_reason_and_the_pack_whole(history: History, tmp_path: Path) -> None:
    pack = exported_packs.make(history.accepted)
    code, report = exported_packs.verified(pack, tmp_path)
    assert (code, report["findings"]) == (0, [])
    (entry,) = pack.entries("record:feedback_given")
    commitment = entry["payload"]["reason_commitment"]
    (row,) = [row for row in pack.lines("payloads.jsonl") if row["commitment"] == commitment]
    assert base64.b64decode(row["body"]) == canonical.encode(WHY)
    assert WHY in pack.report()


def test_an_erased_reason_leaves_the_pack_whole(history: History, tmp_path: Path) -> None:
    commitment = RecordFeedback.objects.get().commitment
    assert payloads.erase(tenant="default", commitment=commitment, actor="user:1", reason="asked for it")
    sealing.seal_now()
    pack = exported_packs.make(history.accepted)
    code, report = exported_packs.verified(pack, tmp_path)
    assert (code, report["findings"]) == (0, [])
    assert WHY not in pack.report()
