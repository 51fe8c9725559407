"""The walking path: handshake, flow, context, proposal, feedback."""

import pytest

from tests.support import api_client

pytestmark = pytest.mark.django_db


def test_an_agent_walks_from_handshake_to_verdict(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    context_ref = trader.context(dfid)
    verdict = trader.propose(dfid, api_client.proposal(context_ref)).ok()
    assert verdict["verdict"] == "ACCEPT"
    assert verdict["state"] == "ACCEPTED"
    assert verdict["intent_id"]
    events = trader.get(f"/flows/{dfid}/feedback").ok()
    assert [event["event_type"] for event in events["events"]] == ["VALIDATION_FEEDBACK"]
    assert trader.get(f"/flows/{dfid}").ok()["state"] == "ACCEPTED"
