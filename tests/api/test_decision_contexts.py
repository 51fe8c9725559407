"""`GET /decisions/{id}/context`: the exact inputs of a decision, as far as the caller may see them."""

import json
import uuid
from typing import Any

import pytest

from audit import canonical
from runtime.advice.models import DecisionPackageRow
from runtime.flows.models import Verdict
from runtime.maintenance.services import erasure, sealing
from runtime.proposals.queries import verdict_replay
from runtime.registry.models import Bundle
from tests.support import advised_desk, api_client, factories

Caller = api_client.Caller


@pytest.fixture
def auditor(desk: None) -> Caller:
    """A caller with an auditor's key."""
    return Caller(api_client.auditor_key())


def decided(trader: Caller, **changes: Any) -> str:
    """The id of a proposal that was judged."""
    dfid = trader.open_flow()
    answer = trader.propose(dfid, api_client.proposal(trader.context(dfid), **changes)).ok()
    return str(answer["proposal_id"])


def test_an_auditor_gets_what_was_judged_byte_for_byte(trader: Caller, auditor: Caller) -> None:
    sealing.seal_now()
    decision = decided(trader)
    seen = auditor.get(f"/decisions/{decision}/context").ok()
    row = Verdict.objects.select_related("bundle").get()
    assert canonical.encode(seen["input"]) == bytes(row.input)
    assert canonical.digest(canonical.encode(seen["input"])) == seen["digests"]["input_digest"]
    assert canonical.digest(canonical.encode(seen["rules"])) == seen["digests"]["policy_bundle_hash"]
    assert (seen["decided_by"], seen["decision"], seen["action_name"]) == (
        "gate",
        "ACCEPT",
        api_client.KIND,
    )
    assert seen["left_out"] == []
    facts = seen["input"]["facts"]
    assert facts["world_versions"] == dict.fromkeys(facts["world"], 1)
    assert seen["world_version_id"] == facts["world_version_id"] == 1
    assert verdict_replay.replay() == verdict_replay.Equal(1)


def test_the_agent_sees_its_own_without_the_rules(trader: Caller) -> None:
    decision = decided(trader)
    seen = trader.get(f"/decisions/{decision}/context").ok()
    assert seen["rules"] is None
    assert seen["left_out"] == ["/proposal/salt"]
    assert set(seen["input"]["facts"]["world"]) == {"market.state", "price.AAPL"}
    assert seen["input"]["facts"]["snapshot"]["facts"]["price.AAPL"] == 18950


def test_no_fact_outside_the_agents_sight_is_told_not_even_its_path(trader: Caller) -> None:
    factories.change_manifest("trader", subscribes=["price."])
    decision = decided(trader)
    heard = trader.get(f"/decisions/{decision}/context")
    seen = heard.ok()
    assert set(seen["input"]["facts"]["world"]) == {"price.AAPL"}
    assert "/facts/world" in seen["left_out"]
    assert "market.state" not in json.dumps(seen)
    whole = Caller(api_client.auditor_key()).get(f"/decisions/{decision}/context").ok()
    assert "market.state" in whole["input"]["facts"]["world"]


def test_nobody_else_is_told_of_a_decision(trader: Caller, stranger: Caller) -> None:
    decision = decided(trader)
    for caller in (stranger, Caller(api_client.feed_key())):
        caller.get(f"/decisions/{decision}/context").problem(404, "NOT_FOUND")
    trader.get(f"/decisions/{uuid.uuid4()}/context").problem(404, "NOT_FOUND")
    Caller().get(f"/decisions/{decision}/context").problem(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("changed", ["input", "bundle", "body", "proposal"])
def test_what_differs_from_the_ledger_is_not_shown(trader: Caller, auditor: Caller, changed: str) -> None:
    decision = decided(trader)
    row = Verdict.objects.select_related("proposal").get()
    if changed == "bundle":
        Bundle.objects.filter(pk=row.bundle_id).update(body=b"{}")
    elif changed == "proposal":
        type(row.proposal).objects.filter(pk=row.pk).update(body=b"{}")
    else:
        Verdict.objects.filter(pk=row.pk).update(**{changed: b"{}"})
    for caller in (trader, auditor):
        caller.get(f"/decisions/{decision}/context").problem(409, "TAMPERED")


def test_what_was_erased_is_gone(trader: Caller, auditor: Caller) -> None:
    dfid = trader.open_flow()
    rejected = api_client.proposal(trader.context(dfid), policy_kind="NO_SUCH_KIND")
    decision = trader.propose(dfid, rejected).ok()["proposal_id"]
    trader.post(f"/flows/{dfid}/close", {"reason": "done"}).ok()
    erased = erasure.erase(tenant=factories.TENANT, dfids=[uuid.UUID(dfid)], reason="asked", actor="user:1")
    assert isinstance(erased, erasure.Erased)
    assert not erased.kept
    for caller in (trader, auditor):
        caller.get(f"/decisions/{decision}/context").problem(410, "FLOW_ERASED")


def test_a_recommendation_is_a_decision_too(db: None) -> None:
    story = advised_desk.build()
    auditor = Caller(api_client.auditor_key())
    decision = story.package["decision_id"]
    path = f"/decisions/{decision}/context"
    seen = auditor.get(path).ok()
    row = DecisionPackageRow.objects.get(pk=decision)
    assert canonical.encode(seen["input"]) == bytes(row.input)
    assert (seen["decided_by"], seen["action_name"]) == (
        "recommender",
        story.package["selected_action"]["name"],
    )
    assert seen["digests"]["input_digest"] == canonical.digest(bytes(row.input))
    DecisionPackageRow.objects.filter(pk=decision).update(input=b"{}")
    auditor.get(path).problem(409, "TAMPERED")
    assert auditor.get(f"/decisions/{story.proposal}/context").ok()["decided_by"] == "gate"
