"""Packs that are made beside writers, with real commits: each is of one state of the database."""

import threading
from pathlib import Path

import pytest
from django.db import connections

from audit.packs import export
from audit.sealing import proofs
from runtime.core import clock
from runtime.maintenance.services import sealing
from tests.support import exported_packs, factories


def test_a_pack_is_of_one_state_whatever_is_committed_meanwhile(
    real_db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = factories.desk()
    flow = desk.open()
    sealing.seal_now(with_heads=True)
    before = flow.entries()
    latest = proofs.latest

    def write_between() -> object:
        """The entries of the flow are read; now somebody writes and seals, and the checkpoint is read."""
        thread = threading.Thread(target=propose_and_seal)
        thread.start()
        thread.join()
        return latest()

    def propose_and_seal() -> None:
        try:
            desk.propose(flow)
            sealing.seal_now(with_heads=True)
        finally:
            connections.close_all()

    monkeypatch.setattr(proofs, "latest", write_between)
    made = export.evidence_pack(tenant="default", dfid=flow.dfid, at=clock.now())
    monkeypatch.undo()
    assert len(flow.entries()) > len(before)
    pack = exported_packs.read(made or b"")
    assert [body["kind"] for body in pack.flow()] == before
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    assert len(exported_packs.make(flow.dfid).flow()) == len(flow.entries())
