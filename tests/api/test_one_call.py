"""One governed action in one call: its context, its flow, its tries across flows, and its repeats."""

import uuid
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from audit import canonical
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from runtime.contexts.models import Snapshot
from runtime.contracts.policy_kind import KindDocument
from runtime.core import clock
from runtime.core.models import Answer
from runtime.epochs.models import Epoch
from runtime.flows.models import Flow, Proposal, Verdict
from runtime.kernel import versions
from runtime.maintenance.services import erasure
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import ReplayEqual
from runtime.registry.models import Agent, PolicyKind, Session
from runtime.registry.services import agents, credentials
from tests.support import api_client, factories

SEEN = {"price.AAPL": 1, "market.state": 1}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def one_call(caller: api_client.Caller, key: str = "k", **changes: Any) -> api_client.Heard:
    """One call that is accepted, but for `changes`; a change to None takes the member out."""
    body = api_client.proposal(**{"context": "current", "seen": SEEN, **changes})
    return caller.post("/proposals", body, {"Idempotency-Key": key})


def kind_with(**fields: Any) -> None:
    """The kind's next version, in force, with these fields."""
    held = canonical.decode(bytes(PolicyKind.objects.get(kind=api_client.KIND, active=True).body))
    changed = held | fields | {"version": versions.next_minor(held["version"])}
    factories.policy_kind(KindDocument.from_bytes(canonical.encode(changed)))


def nothing_is_stored() -> bool:
    return not (Flow.objects.exists() or Proposal.objects.exists() or Answer.objects.exists())


def test_opens_a_flow_compiles_its_context_and_judges(trader: api_client.Caller) -> None:
    verdict = one_call(trader, trigger={"type": "tick"}, expected_effects={"x": 1}).ok()
    flow = Flow.objects.get(dfid=verdict["dfid"])
    assert (verdict["verdict"], verdict["state"], flow.state) == ("ACCEPT", "ACCEPTED", "ACCEPTED")
    assert bytes(flow.trigger) == b'{"type":"tick"}'
    snapshot = Snapshot.objects.get(flow=flow)
    submitted = LedgerEntry.objects.get(kind="proposal:submitted").payload
    assert submitted["context_ref"] == snapshot.context_ref
    assert isinstance(verify_database(), Whole)


def test_current_is_the_context_that_asking_gives(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    asked = trader.context(dfid)
    one_call(trader, dfid=dfid).ok()
    assert Snapshot.objects.get().context_ref == asked


def test_a_context_names_the_artifacts_of_its_agent(trader: api_client.Caller) -> None:
    size = {
        "digest": "cd" * 32,
        "media_type": "text/csv",
        "size_bytes": 5,
        "location": "s3://a",
        "title": "A",
    }
    one_call(trader, "k1").ok()
    trader.post("/artifacts", size).ok(201)
    one_call(trader, "k2").ok()
    bodies = Snapshot.objects.order_by("created_at").values_list("body", flat=True)
    assert [canonical.decode(bytes(body))["artifacts"] for body in bodies] == [[], [size]]


def test_what_the_gate_reads_is_not_what_the_agent_may_see(trader: api_client.Caller) -> None:
    factories.change_manifest(api_client.TRADER, subscribes=["price."])
    assert one_call(trader, seen={"price.AAPL": 1}).ok()["verdict"] == "REJECT"  # on what it has not seen
    shown = canonical.decode(bytes(Snapshot.objects.get().body))["facts"]
    judged = canonical.decode(bytes(Verdict.objects.get().input))["facts"]["world"]
    assert set(shown) == {"price"}
    assert "market.state" in judged


@pytest.mark.parametrize("three", [False, True])
def test_a_key_that_is_revoked_while_its_call_waits_has_no_session(
    trader: api_client.Caller, monkeypatch: pytest.MonkeyPatch, *, three: bool
) -> None:
    dfid = trader.open_flow()
    body, lock_of = api_client.proposal(trader.context(dfid)), agents.lock_of

    def after_it_was_revoked(session: Session) -> Agent:
        credentials.revoke_key(key_id=session.key.key_id, actor="system")
        return lock_of(session)

    monkeypatch.setattr(agents, "lock_of", after_it_was_revoked)
    answer = (trader.propose(dfid, body) if three else one_call(trader)).ok()
    assert [reason["code"] for reason in answer["reasons"]] == ["UNAUTHORIZED"]


def test_says_what_it_was_opened_for_where_the_body_does_not(trader: api_client.Caller) -> None:
    headers = {"Idempotency-Key": "k", "traceparent": TRACE}
    body = api_client.proposal(context="current", seen=SEEN)
    flow = Flow.objects.get(dfid=trader.post("/proposals", body, headers).ok()["dfid"])
    assert (bytes(flow.trigger), flow.traceparent) == (b'"proposed in one call"', TRACE)


def test_a_further_try_names_the_flow(trader: api_client.Caller) -> None:
    first = one_call(trader, params={"symbol": "AAPL"}).ok()
    assert (first["verdict"], first["state"], first["attempts_left"]) == ("REJECT", "ACTIVE", 2)
    again = one_call(trader, "k2", dfid=first["dfid"].upper()).ok()
    assert (again["verdict"], again["dfid"]) == ("ACCEPT", first["dfid"])
    assert Flow.objects.count() == 1


def test_stands_on_a_context_that_was_asked_for(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    given: dict[str, Any] = {"context_ref": trader.context(dfid), "context": None, "seen": None}
    assert one_call(trader, dfid=dfid, **given).ok()["verdict"] == "ACCEPT"
    # Another flow's context is none of a new flow.
    stranger = one_call(trader, "k2", **given).ok()
    assert [reason["code"] for reason in stranger["reasons"]] == ["CONTEXT_UNKNOWN"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("fields", "changes", "allowed"),
    [
        ({}, {"seen": None}, False),
        ({}, {"context": None, "seen": None}, False),
        ({}, {}, True),
        ({"context_current": "allowed"}, {"seen": None}, True),
        ({"requires_context": True}, {}, False),
        ({"depends_on": [], "rules": [], "constraints": []}, {"seen": None}, True),
    ],
)
def test_asks_for_a_context_that_was_seen(
    trader: api_client.Caller, fields: dict[str, Any], changes: dict[str, Any], allowed: bool
) -> None:
    kind_with(**fields)
    answer = one_call(trader, **changes)
    if allowed:
        assert answer.ok()["verdict"] == "ACCEPT"
    else:
        answer.problem(422, "CONTEXT_REQUIRED")
        assert nothing_is_stored()


@pytest.mark.once
@pytest.mark.parametrize(
    ("seen", "price", "codes"),
    [
        (SEEN, None, []),
        (SEEN, 30_000, ["STALE_CONTEXT"]),
        ({**SEEN, "price.AAPL": 2}, 30_000, []),
        ({"market.state": 1}, None, ["STALE_CONTEXT"]),
        ({**SEEN, "price.AAPL": 9}, None, ["STALE_CONTEXT"]),
        ({**SEEN, "cash.main": 1}, None, []),
    ],
)
def test_what_was_seen_is_judged_as_a_context(
    trader: api_client.Caller, seen: dict[str, int], price: int | None, codes: list[str]
) -> None:
    if price is not None:
        factories.write("price.AAPL", price)
    verdict = one_call(trader, seen=seen).ok()
    assert [reason["code"] for reason in verdict["reasons"]] == codes
    assert isinstance(verify_database(), Whole)
    replayed = flow_replay.replay(tenant="default", dfid=UUID(verdict["dfid"]))
    assert isinstance(replayed, ReplayEqual), replayed


def test_what_was_seen_long_ago_has_expired(trader: api_client.Caller, settings: Any) -> None:
    factories.write("price.AAPL", 18_951)
    settings.DIR_CONTEXT_TTL_S = -1
    codes = [reason["code"] for reason in one_call(trader).ok()["reasons"]]
    assert "CONTEXT_EXPIRED" in codes


@pytest.mark.once
@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"context": "newest"}, 422, "INVALID_REQUEST"),
        ({"seen": {"price": 1}}, 422, "INVALID_REQUEST"),
        ({"seen": {"price.AAPL": 0}}, 422, "INVALID_REQUEST"),
        ({"seen": {f"price.A{number}": 1 for number in range(101)}}, 422, "INVALID_REQUEST"),
        ({"trigger": ""}, 422, "INVALID_REQUEST"),
        ({"parent_dfid": "x"}, 422, "INVALID_REQUEST"),
        ({"surprise": 1}, 422, "INVALID_REQUEST"),
        ({"execution_constraints": {}}, 422, "INVALID_REQUEST"),
        ({"agent_id": api_client.OTHER}, 403, "UNAUTHORIZED"),
        ({"dfid": "x"}, 404, "FLOW_NOT_FOUND"),
        ({"dfid": "01890000-0000-7000-8000-000000000000"}, 404, "FLOW_NOT_FOUND"),
        ({"parent_dfid": "01890000-0000-7000-8000-000000000000"}, 404, "FLOW_NOT_FOUND"),
    ],
)
def test_a_refused_call_stores_nothing(
    trader: api_client.Caller, changes: dict[str, Any], status: int, code: str
) -> None:
    one_call(trader, **changes).problem(status, code)
    assert nothing_is_stored()


def test_asks_for_a_key_and_a_session(trader: api_client.Caller) -> None:
    trader.post("/proposals", api_client.proposal()).problem(400, "IDEMPOTENCY_KEY_MISSING")
    one_call(api_client.Caller("")).problem(401, "UNAUTHENTICATED")
    assert nothing_is_stored()


def test_another_agents_flow_and_one_that_has_ended_take_no_try(
    trader: api_client.Caller, stranger: api_client.Caller
) -> None:
    one_call(trader, dfid=stranger.open_flow()).problem(404, "FLOW_NOT_FOUND")
    accepted = one_call(trader).ok()["dfid"]
    problem = one_call(trader, "k2", dfid=accepted).problem(409, "FLOW_NOT_OPEN")
    assert problem["dfid"] == accepted


def test_a_repeat_gets_the_stored_answer_and_another_body_is_refused(trader: api_client.Caller) -> None:
    first = one_call(trader)
    assert one_call(trader).content == first.content
    one_call(trader, confidence=0.8).problem(422, "IDEMPOTENCY_KEY_REUSED")
    assert Flow.objects.count() == Proposal.objects.count() == Answer.objects.count() == 1


def test_a_child_is_opened_under_its_parent(trader: api_client.Caller) -> None:
    parent = trader.open_flow()
    child = one_call(trader, parent_dfid=parent).ok()["dfid"]
    assert trader.get(f"/flows/{parent}").ok()["children"] == [child]
    assert isinstance(verify_database(), Whole)


def reject(caller: api_client.Caller, number: int, symbol: str = "AAPL", **changes: Any) -> dict[str, Any]:
    """A try in a flow of its own that a rule of the kind rejects."""
    params = {"symbol": symbol, "action": "BUY", "quantity": 1, "notional_cents": -number}
    answer: dict[str, Any] = one_call(caller, f"{symbol}{number}", params=params, **changes).ok()
    return answer


def test_rejected_tries_are_counted_across_flows(trader: api_client.Caller) -> None:
    told = [reject(trader, number) for number in (1, 2, 3)]
    assert [(each["state"], each["attempts_left"]) for each in told] == [
        ("ACTIVE", 2),
        ("ACTIVE", 1),
        ("ABORTED", 0),
    ]
    assert "REASONING_EXHAUSTION" in {reason["code"] for reason in told[2]["reasons"]}
    assert Flow.objects.get(dfid=told[2]["dfid"]).reason == "REASONING_EXHAUSTION"
    # In the window nothing about the same comes through in a new flow, and that is no further try.
    blocked = one_call(trader, "good").ok()
    assert [reason["code"] for reason in blocked["reasons"]] == ["REASONING_EXHAUSTION"]
    assert blocked["state"] == "ABORTED"
    assert Proposal.objects.exclude(retry_key="").count() == 3
    # An open flow keeps its own count.
    assert one_call(trader, "own", dfid=told[0]["dfid"]).ok()["verdict"] == "ACCEPT"
    assert isinstance(verify_database(), Whole)


def test_tries_at_other_subjects_of_other_agents_and_of_long_ago_count_apart(
    trader: api_client.Caller, stranger: api_client.Caller
) -> None:
    kind_with(subjects=["symbol:${params.symbol}"])
    factories.write("market.state", "CLOSED")

    def closed(caller: api_client.Caller, symbol: str) -> int:
        params = {"symbol": symbol, "action": "BUY", "quantity": 1}
        seen = {f"price.{symbol}": 1, "market.state": 2}
        verdict = one_call(caller, uuid.uuid4().hex, params=params, seen=seen).ok()
        assert [reason["code"] for reason in verdict["reasons"]] == ["R_MARKET_OPEN"]
        left: int = verdict["attempts_left"]
        return left

    assert [closed(trader, symbol) for symbol in ("AAPL", "AAPL", "MSFT")] == [2, 1, 2]
    assert closed(stranger, "AAPL") == 2
    Proposal.objects.update(received_at=clock.now() - timedelta(seconds=601))
    assert closed(trader, "AAPL") == 2


def test_the_window_is_the_manifests(trader: api_client.Caller) -> None:
    factories.change_manifest(api_client.TRADER, retry_window_s=3600)
    reject(trader, 1)
    Proposal.objects.update(received_at=clock.now() - timedelta(seconds=3500))
    assert reject(trader, 2)["attempts_left"] == 1


def test_the_words_of_the_answer_are_erased_with_its_flow(trader: api_client.Caller) -> None:
    first = one_call(trader, params={"symbol": "AAPL"}).ok()["dfid"]
    trader.post(f"/flows/{first}/cancel", {"reason": "no more"}).ok()
    erased = erasure.erase(tenant="default", dfids=[UUID(first)], reason="asked for", actor="system")
    assert isinstance(erased, erasure.Erased), erased
    assert len(erased.flows) == 1
    one_call(trader, params={"symbol": "AAPL"}).problem(410, "FLOW_ERASED")


def test_waiting_for_the_rate_limit_costs_no_try(trader: api_client.Caller) -> None:
    factories.change_manifest(api_client.TRADER, proposals_per_minute=1)
    one_call(trader).ok()
    told = one_call(trader, "k2").ok()
    assert [reason["code"] for reason in told["reasons"]] == ["RATE_LIMITED"]
    assert (told["state"], told["attempts_left"], told["retry_after_s"] > 0) == ("ACTIVE", 3, True)
    assert not Proposal.objects.exclude(retry_key="").exists()


def test_spends_tokens_and_opens_budgets_as_ever(trader: api_client.Caller) -> None:
    factories.change_manifest(api_client.TRADER, escalations_per_hour=1, compute={"tokens": 10})
    large = {"symbol": "AAPL", "action": "BUY", "quantity": 1, "notional_cents": 200_000}
    told = one_call(trader, params=large).ok()
    assert (told["verdict"], told["state"], bool(told["escalation_id"])) == ("ESCALATE", "ESCALATED", True)
    assert trader.get(f"/flows/{told['dfid']}").ok()["budget"]["tokens_left"] == 10
    empty = one_call(trader, "k2", params=large).ok()
    assert (empty["verdict"], empty["state"]) == ("REJECT", "ABORTED")
    barred = one_call(trader, "k3").ok()
    assert [reason["code"] for reason in barred["reasons"]] == ["AGENT_PASSIVE"]
    assert isinstance(verify_database(), Whole)


def test_waits_while_a_restored_backup_is_looked_at(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    Epoch.objects.update(restored_at=clock.now(), missing=b"{}")
    one_call(trader).problem(503, "RECOVERY")
    one_call(trader, dfid=dfid).problem(503, "RECOVERY")
    assert not Proposal.objects.exists()
