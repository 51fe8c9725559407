"""`GET /executions/{id}`: the life of an intent, for its agent and for auditors."""

import uuid

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from runtime.contracts.problem import Problem
from runtime.execution.services import attempting
from runtime.maintenance.services import sealing
from runtime.state.queries import world
from runtime.state.services import facts
from tests.support import api_client, misbehaving_targets, trading_desk


@pytest.mark.parametrize(
    ("status", "state", "ended"), [(200, "DONE", "SUCCEEDED"), (422, "FAILED", "FAILED")]
)
def test_an_execution_is_told_to_its_agent(
    desk: None, settings: Settings, monkeypatch: pytest.MonkeyPatch, status: int, state: str, ended: str
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with misbehaving_targets.stand_in(misbehaving_targets.answer(status, b'{"id":"o1"}')) as target:
        monkeypatch.setattr(
            api_client, "PACK", api_client.PACK.replace("http://127.0.0.1:9", target.base_url)
        )
        api_client.load_pack()
        trader = api_client.session()
        dfid = trader.open_flow()
        accepted = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
        path = f"/executions/{accepted['intent_id']}"
        before = trader.get(path).ok()
        assert (before["state"], before["attempts"], before["status"]) == ("PENDING", [], None)
        assert (before["world_version_id_before"], before["world_version_id_after"]) == (None, None)
        sealing.seal_now()
        attempting.attempt(uuid.UUID(accepted["intent_id"]), owner="worker")
    told = trader.get(path).ok()
    assert (told["task_id"], told["action_name"], told["step"], told["steps"]) == (
        dfid,
        api_client.KIND,
        1,
        1,
    )
    assert (told["state"], told["status"]) == (state, ended)
    last = world.last_version("default")
    assert (told["world_version_id_before"], told["world_version_id_after"]) == (last, last)
    assert [(row["number"], row["step"], row["status_code"]) for row in told["attempts"]] == [
        (1, "order", status)
    ]
    assert api_client.Caller(api_client.auditor_key()).get(path).ok() == told
    for other in (api_client.session(api_client.OTHER), api_client.Caller(api_client.feed_key())):
        other.get(path).problem(404, "NOT_FOUND")
    trader.get(f"/executions/{uuid.uuid4()}").problem(404, "NOT_FOUND")


def test_an_execution_that_wrote_facts_names_the_versions_around_them(
    desk: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    trader = api_client.session()
    dfid = trader.open_flow()
    accepted = trader.propose(dfid, api_client.proposal(trader.context(dfid))).ok()
    sealing.seal_now()
    with misbehaving_targets.stand_in(misbehaving_targets.answer(422, b"{}")) as target:
        trading_desk.place_target(target.base_url)
        attempting.attempt(uuid.UUID(accepted["intent_id"]), owner="worker")
    before = world.last_version("default")
    for value in (1, 2):
        written = facts.write(
            tenant="default",
            path="price.AAPL",
            value=value,
            writer=f"intent:{accepted['intent_id']}",
            expected_version=None,
        )
        assert not isinstance(written, Problem)
    path = f"/executions/{accepted['intent_id']}"
    numbered = connection.vendor == "sqlite"
    told = trader.get(path).ok()
    around = (told["world_version_id_before"], told["world_version_id_after"])
    assert around == ((before, before + 2) if numbered else (None, None))
    sealing.seal_now()
    told = trader.get(path).ok()
    assert (told["world_version_id_before"], told["world_version_id_after"]) == (before, before + 2)
