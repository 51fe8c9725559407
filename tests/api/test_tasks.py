"""Tasks: flows in the words of IAE, with a context that the agent keeps."""

import uuid
from typing import Any

import pytest

from audit.models import LedgerEntry, Payload
from audit.verification import findings
from runtime.contracts import task_schemas
from runtime.flows.models import Flow, Verdict
from runtime.maintenance.services import erasure, sealing
from runtime.proposals.queries import verdict_replay
from runtime.state.models import WorldVersion
from tests.support import api_client, factories, ledger_tampering

Caller = api_client.Caller


def opened(caller: Caller, **changes: Any) -> str:
    """The id of a new task."""
    return str(caller.post("/tasks", {"trigger": "a price moved", **changes}).ok(201)["task_id"])


def patched(caller: Caller, task: str, context: dict[str, Any], **headers: str) -> api_client.Heard:
    """The answer to a merge patch of the context."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return caller.call("PATCH", f"/tasks/{task}", {"context": context}, headers=sent)


def test_a_task_is_a_flow(trader: Caller) -> None:
    answer = trader.post("/tasks", {"trigger": "a price moved", "seed_context": {"objective": "sell"}})
    body = answer.ok(201)
    assert body == {
        "task_id": body["task_id"],
        "state": "CREATED",
        "context_version": 1,
        "etag": '"1"',
        "event_id": None,
    }
    assert answer.headers["ETag"] == '"1"'
    task = body["task_id"]
    assert trader.get(f"/flows/{task}").ok()["dfid"] == task
    seen = trader.get(f"/tasks/{task}").ok()
    assert (seen["context"], seen["state"], seen["agent_id"]) == ({"objective": "sell"}, "CREATED", "trader")
    assert Flow.objects.count() == 1


def test_a_flow_that_was_opened_as_one_is_a_task_with_an_empty_context(trader: Caller) -> None:
    dfid = trader.open_flow()
    seen = trader.get(f"/tasks/{dfid}").ok()
    assert (seen["context"], seen["context_version"], seen["events"], seen["links"]) == ({}, 1, [], [])
    assert patched(trader, dfid, {"status": "begun"}).ok()["context_version"] == 2
    assert trader.get(f"/tasks/{dfid}").ok()["context"] == {"status": "begun"}


def test_a_task_belongs_to_another_by_the_rules_of_flows(trader: Caller, stranger: Caller) -> None:
    parent = opened(trader)
    child = opened(trader, parent_task_id=parent)
    assert trader.get(f"/tasks/{child}").ok()["parent_task_id"] == parent
    stranger.post("/tasks", {"trigger": "x", "parent_task_id": parent}).problem(404, "FLOW_NOT_FOUND")


def test_a_patch_merges_and_each_change_is_a_version(trader: Caller) -> None:
    task = opened(trader, seed_context={"objective": "sell", "notes": {"a": 1, "b": 2}})
    answer = patched(trader, task, {"notes": {"a": None, "c": 3}, "status": "working"})
    assert answer.ok()["context_version"] == 2
    assert answer.headers["ETag"] == '"2"'
    now = trader.get(f"/tasks/{task}")
    assert now.headers["ETag"] == '"2"'
    assert now.ok()["context"] == {"objective": "sell", "notes": {"b": 2, "c": 3}, "status": "working"}
    first = trader.get(f"/tasks/{task}?at_context_version=1").ok()
    assert (first["context"], first["context_version"]) == (
        {"objective": "sell", "notes": {"a": 1, "b": 2}},
        1,
    )
    trader.get(f"/tasks/{task}?at_context_version=3").problem(404, "FLOW_NOT_FOUND")
    body = b'{"context": {"status": null}}'
    merge = {"Content-Type": "application/merge-patch+json"}
    assert trader.call("PATCH", f"/tasks/{task}", raw=body, headers=merge).ok()["context_version"] == 3


def test_a_lost_if_match_changes_nothing(trader: Caller) -> None:
    task = opened(trader)
    assert patched(trader, task, {"a": 1}, If_Match='"1"').ok()["etag"] == '"2"'
    patched(trader, task, {"a": 2}, If_Match='"1"').problem(412, "VERSION_MISMATCH")
    patched(trader, task, {"a": 2}, If_Match='W/"2"').problem(412, "VERSION_MISMATCH")
    assert patched(trader, task, {"a": 2}, If_Match='"1", "2"').ok()["etag"] == '"3"'
    assert patched(trader, task, {"a": 3}, If_Match="*").ok()["etag"] == '"4"'
    event = {"event_type": "seen"}
    stale = trader.post(f"/tasks/{task}/events", event, {"If-Match": '"1"'})
    stale.problem(412, "VERSION_MISMATCH")
    assert trader.get(f"/tasks/{task}").ok()["context"] == {"a": 3}


def test_a_call_sent_again_changes_nothing_again(trader: Caller) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {"trigger": "x", "seed_context": {"a": 1}}
    first = trader.post("/tasks", body, key).ok(201)
    assert trader.post("/tasks", body, key).ok(201) == first
    trader.post("/tasks", {"trigger": "y"}, key).problem(422, "IDEMPOTENCY_KEY_REUSED")
    task = first["task_id"]
    once = patched(trader, task, {"a": 2}, Idempotency_Key="k2").ok()
    assert patched(trader, task, {"a": 2}, Idempotency_Key="k2").ok() == once
    patched(trader, task, {"a": 3}, Idempotency_Key="k2").problem(422, "IDEMPOTENCY_KEY_REUSED")
    event = {"event_type": "seen", "data": [1]}
    added = trader.post(f"/tasks/{task}/events", event, {"Idempotency-Key": "k3"}).ok(201)
    assert trader.post(f"/tasks/{task}/events", event, {"Idempotency-Key": "k3"}).ok(201) == added
    assert trader.get(f"/tasks/{task}").ok()["context_version"] == 3


def test_events_and_links_are_kept_in_their_order(trader: Caller) -> None:
    task, other = opened(trader), opened(trader)
    added = trader.post(f"/tasks/{task}/events", {"event_type": "seen", "data": {"bid": 3}}).ok(201)
    digest = "ab" * 32
    reference = {
        "digest": digest,
        "media_type": "text/plain",
        "size_bytes": 3,
        "location": "s3://x/y",
        "title": "notes",
    }
    trader.post("/artifacts", reference).ok(201)
    for link in (
        {"to": "FACT", "ref": "price.AAPL"},
        {"to": "FACT", "ref": "price.AAPL", "version": 1},
        {"to": "ARTIFACT", "ref": f"sha256:{digest}"},
        {"to": "TASK", "ref": other},
    ):
        trader.post(f"/tasks/{task}/links", link).ok(201)
    sealing.seal_now()
    trader.post(f"/tasks/{task}/links", {"to": "WORLD_VERSION", "ref": "1"}).ok(201)
    seen = trader.get(f"/tasks/{task}").ok()
    (event,) = seen["events"]
    assert (event["event_id"], event["event_type"], event["data"]) == (
        added["event_id"],
        "seen",
        {"bid": 3},
    )
    assert [(link["to"], link["ref"], link["version"]) for link in seen["links"]] == [
        ("FACT", "price.AAPL", 1),
        ("FACT", "price.AAPL", 1),
        ("ARTIFACT", f"sha256:{digest}", None),
        ("TASK", other, None),
        ("WORLD_VERSION", "1", None),
    ]


def test_nothing_outside_the_agents_sight_is_linked(trader: Caller, stranger: Caller) -> None:
    task, foreign = opened(trader), opened(stranger)
    links = f"/tasks/{task}/links"
    trader.post(links, {"to": "FACT", "ref": "cash.main"}).problem(404, "FACT_NOT_FOUND")
    trader.post(links, {"to": "FACT", "ref": "price.NONE"}).problem(404, "FACT_NOT_FOUND")
    trader.post(links, {"to": "FACT", "ref": "price.AAPL", "version": 9}).problem(404, "FACT_NOT_FOUND")
    for to, ref in (
        ("TASK", foreign),
        ("TASK", "none"),
        ("ARTIFACT", "ab" * 32),
        ("WORLD_VERSION", "999999"),
        ("WORLD_VERSION", "9" * 60),
        ("WORLD_VERSION", "last"),
    ):
        trader.post(links, {"to": to, "ref": ref}).problem(404, "NOT_FOUND")
    trader.post(links, {"to": "PERSON", "ref": "x"}).problem(422, "INVALID_REQUEST")
    assert trader.get(f"/tasks/{task}").ok()["context_version"] == 1


def test_a_task_is_read_by_its_agent_and_auditors_alone(trader: Caller, stranger: Caller) -> None:
    task = opened(trader, seed_context={"a": 1})
    for caller in (stranger, Caller(api_client.feed_key())):
        caller.get(f"/tasks/{task}").problem(404, "FLOW_NOT_FOUND")
    patched(stranger, task, {"a": 2}).problem(404, "FLOW_NOT_FOUND")
    stranger.post(f"/tasks/{task}/events", {"event_type": "x"}).problem(404, "FLOW_NOT_FOUND")
    auditor = Caller(api_client.auditor_key())
    assert auditor.get(f"/tasks/{task}").ok()["context"] == {"a": 1}
    patched(auditor, task, {"a": 2}).problem(403, "UNAUTHORIZED")


def test_the_context_is_bounded(trader: Caller) -> None:
    big = {"notes": "x" * task_schemas.MAX_CONTEXT_BYTES}
    trader.post("/tasks", {"trigger": "x", "seed_context": big}).problem(422, "INVALID_REQUEST")
    task = opened(trader)
    half = "x" * (task_schemas.MAX_CONTEXT_BYTES // 2)
    patched(trader, task, {"a": half}).ok()
    patched(trader, task, {"b": half}).problem(422, "INVALID_REQUEST")
    event = {"event_type": "x", "data": "x" * task_schemas.MAX_EVENT_BYTES}
    trader.post(f"/tasks/{task}/events", event).problem(422, "INVALID_REQUEST")


def test_a_context_has_a_bounded_number_of_versions(trader: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_schemas, "MAX_VERSIONS", 2)
    task = opened(trader)
    patched(trader, task, {"a": 1}).ok()
    patched(trader, task, {"a": 2}).problem(409, "TOO_MANY_TASK_CHANGES")


def test_a_task_that_has_ended_no_longer_changes(trader: Caller) -> None:
    task = opened(trader)
    done = patched(trader, task, {"a": 1}, Idempotency_Key="k").ok()
    trader.context(task)
    trader.post(f"/flows/{task}/close", {"reason": "done"}).ok()
    patched(trader, task, {"a": 2}).problem(409, "FLOW_NOT_OPEN")
    # A repeat gets what the first call got.
    assert patched(trader, task, {"a": 1}, Idempotency_Key="k").ok() == done
    seen = trader.get(f"/tasks/{task}").ok()
    assert (seen["state"], seen["context"]) == ("CLOSED", {"a": 1})


def test_a_task_reads_as_it_was_when_a_version_of_the_world_was_made(trader: Caller) -> None:
    feed = Caller(api_client.feed_key())

    def version() -> int:
        feed.put("/state/facts/price.AAPL", {"value": 1}).ok()
        sealing.seal_now()
        return int(feed.get("/state/world").ok()["world_version_id"])

    before = version()
    task = opened(trader, seed_context={"status": "new"})
    first = version()
    patched(trader, task, {"status": "working"}).ok()
    trader.post(f"/tasks/{task}/events", {"event_type": "seen"}).ok(201)
    trader.context(task)
    second = version()
    patched(trader, task, {"status": "done"}).ok()
    trader.get(f"/tasks/{task}?at_version={before}").problem(404, "FLOW_NOT_FOUND")
    then = trader.get(f"/tasks/{task}?at_version={first}").ok()
    assert (then["context"], then["state"], then["events"]) == ({"status": "new"}, "CREATED", [])
    assert then["world_version_id"] == first
    later = trader.get(f"/tasks/{task}?at_version={second}").ok()
    assert (later["context"], later["state"]) == ({"status": "working"}, "ACTIVE")
    assert [event["event_type"] for event in later["events"]] == ["seen"]
    assert trader.get(f"/tasks/{task}").ok()["context"] == {"status": "done"}
    trader.get(f"/tasks/{task}?at_version=999999").problem(404, "WORLD_VERSION_NOT_FOUND")
    trader.get(f"/tasks/{task}?at_version=x").problem(422, "INVALID_REQUEST")
    both = f"/tasks/{task}?at_version={first}&at_context_version=1"
    trader.get(both).problem(422, "INVALID_REQUEST")


def test_an_erased_flow_has_no_context_any_more(trader: Caller) -> None:
    task = opened(trader, seed_context={"client": "Jane Doe"})
    trader.context(task)
    trader.post(f"/flows/{task}/close", {"reason": "done"}).ok()
    assert not Payload.objects.filter(content__isnull=True).exists()
    erased = erasure.erase(tenant=factories.TENANT, dfids=[uuid.UUID(task)], reason="asked", actor="user:1")
    assert isinstance(erased, erasure.Erased)
    assert not erased.kept
    trader.get(f"/tasks/{task}").problem(410, "FLOW_ERASED")
    assert findings.verify_all().findings == []


def test_words_that_are_not_what_was_recorded_are_not_shown(trader: Caller) -> None:
    task = opened(trader, seed_context={"a": 1})
    entry = LedgerEntry.objects.get(stream=task, kind="task_context:changed")
    Payload.objects.filter(commitment=entry.payload["words_commitment"]).update(content=b'{"a":2}')
    trader.get(f"/tasks/{task}").problem(409, "TAMPERED")
    patched(trader, task, {"b": 1}).problem(409, "TAMPERED")
    assert findings.verify_all().findings != []


@pytest.mark.parametrize("changed", ["entry", "gap"])
def test_entries_that_were_changed_or_are_missing_are_noticed(trader: Caller, changed: str) -> None:
    task = opened(trader, seed_context={"a": 1})
    patched(trader, task, {"a": 2}).ok()
    patched(trader, task, {"a": 3}).ok()
    rows = LedgerEntry.objects.filter(stream=task, kind="task_context:changed").order_by("seq")
    second = rows[1]
    if changed == "entry":
        body = bytes(second.body).replace(b'"version":2', b'"version":7')
        ledger_tampering.execute("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [body, second.pk])
    else:
        ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE id = %s", [second.pk])
    trader.get(f"/tasks/{task}").problem(409, "TAMPERED")


def test_a_version_of_the_world_that_no_entry_places_is_not_guessed(trader: Caller) -> None:
    task = opened(trader)
    sealing.seal_now()
    WorldVersion.objects.update(write_id="0" * 26)
    trader.get(f"/tasks/{task}?at_version=1").problem(410, "WORLD_VERSION_NOT_KEPT")


def test_the_gate_reads_nothing_of_a_context(trader: Caller) -> None:
    task = opened(trader, seed_context={"objective": "find me in no verdict"})
    ref = trader.context(task)
    trader.propose(task, api_client.proposal(ref)).ok()
    verdict = Verdict.objects.get()
    assert b"find me in no verdict" not in bytes(verdict.input)
    assert verdict_replay.replay() == verdict_replay.Equal(1)


def test_the_whole_ledger_is_proved_with_tasks_in_it(trader: Caller) -> None:
    task = opened(trader, seed_context={"a": 1})
    patched(trader, task, {"a": 2}, Idempotency_Key="k").ok()
    trader.post(f"/tasks/{task}/links", {"to": "FACT", "ref": "price.AAPL"}).ok(201)
    sealing.seal_now()
    assert findings.verify_all().findings == []
