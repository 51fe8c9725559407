"""A replay beside a running server: what is written to the flow meanwhile is no difference."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from runtime.flows.models import Verdict
from runtime.proposals.queries import flow_replay, replay_chain
from runtime.proposals.queries.replay_results import ReplayEqual
from tests.support import factories

STEP_S = 30


def test_what_is_written_to_a_flow_while_it_is_replayed_is_no_difference(
    real_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = factories.desk()
    flow = desk.open()
    desk.propose(flow, params={})
    real = replay_chain.walk

    def propose_again() -> None:
        try:
            desk.propose(flow, params={})
        finally:
            connection.close()

    def walk_and_write(**known: Any) -> Any:
        walked = real(**known)
        with ThreadPoolExecutor(max_workers=1) as pool:
            pool.submit(propose_again).result(timeout=STEP_S)
        return walked

    with monkeypatch.context() as patch:
        patch.setattr(replay_chain, "walk", walk_and_write)
        found = flow_replay.replay(tenant=factories.TENANT, dfid=flow.dfid)
    assert isinstance(found, ReplayEqual), found
    assert found.verdicts == 1
    assert Verdict.objects.count() == 2
    found = flow_replay.replay(tenant=factories.TENANT, dfid=flow.dfid)
    assert isinstance(found, ReplayEqual), found
    assert found.verdicts == 2
