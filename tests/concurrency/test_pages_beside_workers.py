"""A page that compares rows with entries, beside a worker that writes both: what moved on is no mismatch."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from runtime.contracts.states import IntentState
from runtime.execution.services import attempting
from runtime.flows.queries import recorded_flow
from tests.support import misbehaving_targets, trading_desk
from tests.web.test_pages import sign_in, text_of


def work_elsewhere(intent_id: UUID) -> None:
    """Carry the intent out on another connection, and commit, while this one reads."""

    def done() -> None:
        try:
            attempting.attempt(intent_id, owner=trading_desk.OWNER)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(done).result()


def test_an_intent_that_is_carried_out_meanwhile_is_no_mismatch(
    real_db: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as target:
        intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
        client = sign_in(Role.AUDITOR)
        real, waiting = recorded_flow.of_flow, [intent_id]

        def then_worked(**where: Any) -> recorded_flow.RecordedFlow:
            known = real(**where)
            if waiting:
                work_elsewhere(waiting.pop())
            return known

        monkeypatch.setattr("runtime.flows.views.flow_pages.recorded_flow.of_flow", then_worked)
        page = text_of(client, f"/flows/{trading_desk.flow_of(intent_id).dfid}/")
    assert waiting == []
    assert trading_desk.intent(intent_id).state == IntentState.DONE
    assert "does not match the ledger" not in page
