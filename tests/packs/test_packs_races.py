"""Two people load the same pack at the same moment: one of them does it, the other finds it done."""

import threading
from pathlib import Path

import pytest
from django.db import connection

from audit.models import LedgerEntry
from runtime.packs.services import packs
from runtime.packs.services.packs import Loaded
from runtime.registry.models import Agent, Manifest, Pack, PolicyKind

DEMO = Path(__file__).parents[2] / "demo" / "paper-brokerage.yaml"


@pytest.mark.usefixtures("real_db")
def test_a_pack_loaded_by_several_at_once_is_loaded_once() -> None:
    text = DEMO.read_text()
    start = threading.Barrier(4)
    found: list[object] = []

    def one() -> None:
        try:
            start.wait(timeout=60)
            found.append(packs.load(text=text, source="demo", activate=True, actor="system"))
        except Exception as error:  # shown by the assertion below
            found.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert all(isinstance(one, Loaded) for one in found), found
    assert sorted(one.changed for one in found if isinstance(one, Loaded)) == [False, False, False, True]
    counts = [rows.objects.count() for rows in (PolicyKind, Agent, Manifest, Pack)]
    kinds, agents = text.count("- kind:"), text.count("- agent_id:")
    assert counts == [kinds, agents, agents, 1]
    assert LedgerEntry.objects.filter(kind="kind:registered").count() == kinds
