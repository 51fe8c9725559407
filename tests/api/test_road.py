"""The walking path: handshake, flow, context, proposal, feedback."""

import pytest

from tests.api import ground

pytestmark = pytest.mark.django_db


def test_an_agent_walks_from_handshake_to_verdict(trader: ground.Caller) -> None:
    dfid = trader.open_flow()
    context_ref = trader.context(dfid)
    verdict = trader.propose(dfid, ground.proposal(context_ref)).ok()
    assert verdict["verdict"] == "ACCEPT"
    assert verdict["state"] == "ACCEPTED"
    assert verdict["intent_id"]
    events = trader.get(f"/flows/{dfid}/feedback").ok()
    assert [event["event_type"] for event in events["events"]] == ["VALIDATION_FEEDBACK"]
    assert trader.get(f"/flows/{dfid}").ok()["state"] == "ACCEPTED"
