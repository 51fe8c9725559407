"""The replay of a flow: equal, or the first difference with its class, its place and both values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit import canonical, signing
from audit.models import DecisionRecord, LedgerEntry, Payload
from escalations.models import Decision, Evidence
from runtime.contexts.models import Snapshot
from runtime.contracts.states import Decision as GateDecision
from runtime.flows.models import Attempt, Flow, Intent, Outcome, Proposal, StepReceipt, Verdict
from runtime.kernel.gate import pipeline
from runtime.maintenance.services import payloads
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import (
    Change,
    NotReplayable,
    ReplayDifference,
    ReplayEqual,
)
from runtime.registry.models import Bundle, Manifest, PolicyKind
from tests.support import factories, finished_history, gate_cases, ledger_tampering, tamper_cases, worlds
from tests.support.finished_history import History

pytestmark = pytest.mark.django_db
TENANT = factories.TENANT
FLOWS = ("accepted", "overridden", "modified", "aborted", "undone", "rejected", "begun", "judged")
MOST_QUERIES = 52
WRITES = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, kw_only=True)
class Flows(History):
    """And one that was rejected, one that was just opened, and one whose intent waits for its call."""

    rejected: UUID
    begun: UUID
    judged: UUID


@contextmanager
def opened() -> Iterator[Flows]:
    with finished_history.opened() as history:
        desk = factories.desk(agent_id="second")
        rejected, judged = desk.open(), desk.open()
        assert desk.propose(rejected, params={})["verdict"] == GateDecision.REJECT
        assert desk.propose(judged)["verdict"] == GateDecision.ACCEPT
        yield Flows(
            **{name: getattr(history, name) for name in History.__dataclass_fields__},
            rejected=rejected.dfid,
            begun=desk.open().dfid,
            judged=judged.dfid,
        )


flows = worlds.opened(opened)


@pytest.fixture
def changed(flows: Flows, django_db_blocker: Any) -> Iterator[Flows]:
    """The flows, for a test that changes them."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield flows
        transaction.set_rollback(True)


def difference(dfid: UUID) -> ReplayDifference:
    """The first difference, which there is."""
    found = flow_replay.replay(tenant=TENANT, dfid=dfid)
    assert isinstance(found, ReplayDifference), found
    return found


def told(dfid: UUID) -> tuple[Change, str, Any, Any]:
    """Class, path and both values of the first difference."""
    found = difference(dfid)
    return found.change, found.path, found.recorded, found.found


def rewrite(rows: Any, column: str, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Other bytes in the one row that holds `old`; the cell before and after."""
    for row in rows:
        held = bytes(getattr(row, column) or b"")
        if old in held:
            rewritten = held.replace(old, new, 1)
            assert type(row).objects.filter(pk=row.pk).update(**{column: rewritten}) == 1
            return held, rewritten
    raise AssertionError(f"no {column} holds {old!r}")


def entry(dfid: UUID, kind: str) -> LedgerEntry:
    """The last entry of a kind."""
    return LedgerEntry.objects.filter(stream=str(dfid), kind=kind).latest("seq")


@pytest.mark.parametrize("name", FLOWS)
def test_an_untouched_flow_is_equal(flows: Flows, name: str) -> None:
    dfid = getattr(flows, name)
    found = flow_replay.replay(tenant=TENANT, dfid=dfid)
    assert isinstance(found, ReplayEqual), found
    assert found.verdicts == Verdict.objects.filter(proposal__flow=dfid).count()
    assert found.checked["entries"] == LedgerEntry.objects.filter(stream=str(dfid)).count()
    assert found.plain()["result"] == "replay_equal"
    assert found.not_verified == ()


def test_a_flow_with_everything_is_compared_in_all_its_parts(flows: Flows) -> None:
    found = flow_replay.replay(tenant=TENANT, dfid=flows.undone)
    assert isinstance(found, ReplayEqual)
    assert found.checked.items() >= {"verdicts": 1, "attempts": 5, "outcomes": 1, "payloads": 6}.items()
    found = flow_replay.replay(tenant=TENANT, dfid=flows.overridden)
    assert isinstance(found, ReplayEqual)
    assert found.checked.items() >= {"verdicts": 2, "evidence": 1, "statements": 1}.items()


def test_nothing_is_written_and_the_queries_are_few(flows: Flows) -> None:
    with CaptureQueriesContext(connection) as asked:
        flow_replay.replay(tenant=TENANT, dfid=flows.undone)
    assert not [query["sql"] for query in asked if query["sql"].startswith(WRITES)]
    assert len(asked) <= MOST_QUERIES


def test_there_is_no_replay_of_a_flow_that_is_unknown_or_another_tenants(flows: Flows) -> None:
    assert flow_replay.replay(tenant=TENANT, dfid=uuid4()) is None
    assert flow_replay.replay(tenant="other", dfid=flows.accepted) is None


def test_lists_every_flow_also_one_whose_row_is_gone(changed: Flows) -> None:
    listed = flow_replay.list_flows(tenant=TENANT)
    assert set(listed) == set(Flow.objects.values_list("dfid", flat=True))
    key = changed.begun.hex if connection.vendor == "sqlite" else str(changed.begun)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM runtime_flow WHERE dfid = %s", [key])
    assert flow_replay.list_flows(tenant=TENANT) == listed
    last = LedgerEntry.objects.filter(stream=str(changed.begun)).latest("seq")
    assert told(changed.begun) == (Change.TAMPERED, "/flow", bytes(last.hash).hex(), None)


def test_finds_the_flows_of_a_trace(changed: Flows) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    Flow.objects.filter(pk=changed.begun).update(traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    found = flow_replay.list_flows_of_trace(tenant=TENANT, trace_id=trace.upper())
    assert found == [changed.begun]
    assert told(changed.begun) == (
        Change.TAMPERED,
        "/flow/traceparent",
        "",
        f"00-{trace}-00f067aa0ba902b7-01",
    )


# Rules


def test_changed_rules_are_named_with_the_words_of_both(changed: Flows) -> None:
    digest = entry(changed.judged, "verdict:given").payload["policy_bundle_hash"]
    rewrite(Bundle.objects.filter(pk=digest), "body", b"'LOW_IMPACT'\"", b"'HIGH_IMPACT'\"")
    impact = "params.notional_cents > 250000 ? 'HIGH_IMPACT' : "
    assert told(changed.judged) == (
        Change.POLICY,
        "/bundle/kind/impact",
        f"{impact}'LOW_IMPACT'",
        f"{impact}'HIGH_IMPACT'",
    )
    found = difference(changed.judged)
    assert (found.row, found.seq) == ("bundle.body", entry(changed.judged, "verdict:given").seq)
    assert found.proposal_id == str(Proposal.objects.get(flow=changed.judged).pk)


def test_changed_rules_whose_versions_are_gone_are_told_by_their_digests(changed: Flows) -> None:
    digest = entry(changed.judged, "verdict:given").payload["policy_bundle_hash"]
    rewritten = gate_cases.rules(manifest=None).to_bytes()
    Bundle.objects.filter(pk=digest).update(body=rewritten)
    PolicyKind.objects.update(body=b"{}")
    Manifest.objects.update(body=b"{}")
    assert told(changed.judged) == (Change.POLICY, "/bundle", digest, canonical.digest(rewritten))


def test_a_verdict_that_names_other_rules_is_a_changed_policy(changed: Flows) -> None:
    digest = entry(changed.judged, "verdict:given").payload["policy_bundle_hash"]
    other = Bundle.objects.exclude(pk=digest).values_list("pk", flat=True)[0]
    Verdict.objects.filter(proposal__flow=changed.judged).update(bundle_id=other)
    assert told(changed.judged) == (Change.POLICY, "/verdict/bundle", digest, other)


def test_rules_that_are_gone_are_a_changed_policy(changed: Flows) -> None:
    digest = entry(changed.accepted, "verdict:given").payload["policy_bundle_hash"]
    # Both databases keep what refers to it until the end of the transaction.
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runtime_bundle SET digest = 'gone' WHERE digest = %s", [digest])
    assert told(changed.accepted) == (Change.POLICY, "/bundle", digest, None)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runtime_bundle SET digest = %s WHERE digest = 'gone'", [digest])


def test_a_gate_that_judges_otherwise_is_a_changed_policy(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "STAGES", pipeline.STAGES[:-1])
    change, path, recorded, found = told(flows.judged)
    assert (change, path) == (Change.POLICY, "/verdict/findings/11")
    assert recorded["check"] == "consequence"
    assert found is None


# Context


def test_a_changed_context_is_named_with_the_fact(changed: Flows) -> None:
    rewrite(Snapshot.objects.filter(flow=changed.judged), "body", b'"AAPL":18950', b'"AAPL":18951')
    assert told(changed.judged) == (Change.CONTEXT, "/snapshot/facts/price/AAPL", 18950, 18951)
    assert difference(changed.judged).seq == entry(changed.judged, "context:compiled").seq


def test_a_context_that_is_gone_is_named(changed: Flows) -> None:
    Snapshot.objects.filter(flow=changed.judged).delete()
    ref = entry(changed.judged, "context:compiled").payload["context_ref"]
    assert told(changed.judged) == (Change.CONTEXT, "/snapshot", ref, None)


def test_a_context_of_which_no_copy_is_left_is_told_by_its_digests(changed: Flows) -> None:
    ref = entry(changed.judged, "context:compiled").payload["context_ref"]
    _, rewritten = rewrite(
        Snapshot.objects.filter(flow=changed.judged), "body", b'"mission":"', b'"mission":"No '
    )
    assert told(changed.judged) == (Change.CONTEXT, "/snapshot", ref, canonical.digest(rewritten))


# Evidence


def test_changed_evidence_is_named(changed: Flows) -> None:
    rewrite(Evidence.objects.filter(escalation__flow=changed.overridden), "body", b"150000", b"100001")
    digest = entry(changed.overridden, "escalation:opened").payload["evidence_hash"]
    expected = (Change.EVIDENCE, "/evidence", digest, "other bytes than recorded")
    assert told(changed.overridden) == expected
    found = difference(changed.overridden)
    assert found.seq == entry(changed.overridden, "escalation:opened").seq
    assert found.row_id.endswith("revision 1")


def test_evidence_that_is_gone_is_named(changed: Flows) -> None:
    Evidence.objects.filter(escalation__flow=changed.overridden).delete()
    digest = entry(changed.overridden, "escalation:opened").payload["evidence_hash"]
    assert told(changed.overridden) == (Change.EVIDENCE, "/evidence", digest, None)


def test_evidence_changed_with_every_hash_beside_it_is_named(changed: Flows) -> None:
    tamper_cases.CASES["evidence: body and every hash"](changed)
    assert difference(Evidence.objects.order_by("-pk")[0].escalation.flow_id).change is Change.EVIDENCE


def test_other_reasons_for_evidence_are_changed_evidence(changed: Flows) -> None:
    Evidence.objects.filter(escalation__flow=changed.overridden).update(why="drift")
    assert told(changed.overridden) == (Change.EVIDENCE, "/evidence/why", "opened", "drift")


# What targets answered


@pytest.mark.parametrize(
    ("rows", "column", "old", "new", "path", "values"),
    [
        (Outcome, "receipt", b'"number":1', b'"number":9', "/outcome/receipt/reserve/number", (1, 9)),
    ],
)
def test_a_changed_receipt_is_named_with_its_member(
    changed: Flows,
    rows: Any,
    column: str,
    old: bytes,
    new: bytes,
    path: str,
    values: tuple[int, int],
) -> None:
    rewrite(rows.objects.order_by("pk"), column, old, new)
    assert told(changed.accepted) == (Change.TRANSCRIPT, path, *values)


def test_a_changed_receipt_of_a_step_is_named_with_its_member(changed: Flows) -> None:
    of_flow = StepReceipt.objects.filter(intent__flow=changed.undone, step="pay", direction="FORWARD")
    rewrite(of_flow, "receipt", b'"/pay"', b'"/got"')
    assert told(changed.undone) == (Change.TRANSCRIPT, "/stepreceipt/receipt/path", "/pay", "/got")


def test_receipts_that_are_gone_are_named(changed: Flows) -> None:
    StepReceipt.objects.filter(intent__flow=changed.undone).delete()
    first = LedgerEntry.objects.filter(stream=str(changed.undone), kind="saga:advanced").earliest("seq")
    recorded = first.payload["receipt_commitment"]
    assert told(changed.undone) == (Change.TRANSCRIPT, "/stepreceipt", recorded, None)
    Outcome.objects.filter(intent__flow=changed.accepted).delete()
    recorded = entry(changed.accepted, "outcome:recorded").payload["outcome_digest"]
    assert told(changed.accepted) == (Change.TRANSCRIPT, "/outcome", recorded, None)


@pytest.mark.parametrize(
    ("rows", "columns", "path", "recorded", "found"),
    [
        (Outcome, {"attempts": 9}, "/outcome/attempts", 5, 9),
        (Outcome, {"recorded_by": "user:9"}, "/outcome/recorded_by", "system", "user:9"),
        (Outcome, {"status": "SUCCEEDED"}, "/outcome/status", "COMPENSATED", "SUCCEEDED"),
        (Attempt, {"status_code": 599}, "/attempt/status_code", "200", "599"),
        (Attempt, {"error_category": "X"}, "/attempt/error_category", "", "X"),
    ],
)
def test_what_follows_from_answers_is_part_of_the_transcript(
    changed: Flows, rows: Any, columns: dict[str, Any], path: str, recorded: Any, found: Any
) -> None:
    of_flow = rows.objects.filter(intent__flow=changed.undone).order_by("-pk").values_list("pk", flat=True)
    assert rows.objects.filter(pk=of_flow[0]).update(**columns) == 1
    assert told(changed.undone) == (Change.TRANSCRIPT, path, recorded, found)


def test_answers_that_were_emptied_without_an_entry_are_named(changed: Flows) -> None:
    commitment = entry(changed.accepted, "outcome:recorded").payload["receipt_commitment"]
    row = Payload.objects.get(commitment=commitment)
    Payload.objects.filter(pk=row.pk).update(
        salt=None, nonce=None, content=None, erased_at="2026-01-01T00:00:00Z"
    )
    found = "emptied, and no entry says that it was erased"
    assert told(changed.accepted) == (Change.TRANSCRIPT, "/payload", commitment, found)


# Entries, and rows that contradict them


@pytest.mark.parametrize(
    ("rows", "column", "old", "new", "path", "recorded", "found"),
    [
        (Verdict, "input", b'"now_ms":', b'"now_ms":1', "/verdict/input", "", ""),
        (
            Verdict,
            "input",
            b'"quantity":5',
            b'"quantity":6',
            "/verdict/input/proposal/params/quantity",
            5,
            6,
        ),
        (
            Verdict,
            "input",
            b'"price.AAPL":18950',
            b'"price.AAPL":7',
            "/verdict/input/facts/snapshot/facts/price.AAPL",
            18950,
            7,
        ),
        (Verdict, "body", b'"ACCEPT"', b'"REJECT"', "/verdict/decision", "ACCEPT", "REJECT"),
        (Proposal, "body", b'"BUY"', b'"SELL"', "/proposal/params/action", "BUY", "SELL"),
        (
            Intent,
            "requests",
            b"/orders/AAPL",
            b"/orders/MSFT",
            "/intent/requests/steps/0/path",
            "/orders/AAPL",
            "/orders/MSFT",
        ),
    ],
)
def test_what_was_judged_or_would_be_sent_is_named_with_its_member(
    changed: Flows, rows: Any, column: str, old: bytes, new: bytes, path: str, recorded: Any, found: Any
) -> None:
    of_flow = "proposal__flow" if rows is Verdict else "flow"
    before, after = rewrite(rows.objects.filter(**{of_flow: changed.judged}), column, old, new)
    if not recorded:
        recorded, found = canonical.digest(before), canonical.digest(after)
    assert told(changed.judged) == (Change.TAMPERED, path, recorded, found)


def test_a_row_that_contradicts_its_entry_in_a_column_is_named(changed: Flows) -> None:
    Verdict.objects.filter(proposal__flow=changed.judged).update(decision="REJECT")
    expected = (Change.TAMPERED, "/verdict/decision", "ACCEPT", "REJECT")
    assert told(changed.judged) == expected
    Flow.objects.filter(pk=changed.aborted).update(reason="DEADLINE_PASSED")
    expected = (Change.TAMPERED, "/flow/reason", "ABORTED_BY_PERSON", "DEADLINE_PASSED")
    assert told(changed.aborted) == expected


def test_what_follows_from_entries_is_followed_again(changed: Flows) -> None:
    Intent.objects.filter(flow=changed.accepted).update(state="FAILED")
    assert told(changed.accepted) == (Change.TAMPERED, "/intent/state", "DONE", "FAILED")


def test_texts_are_told_as_they_were(changed: Flows) -> None:
    Proposal.objects.filter(flow=changed.overridden).update(explain="Something else.")
    expected = (Change.TAMPERED, "/proposal/explain", "The trend is clear.", "Something else.")
    assert told(changed.overridden) == expected
    Flow.objects.filter(pk=changed.judged).update(trigger=b'"nothing"')
    change, path, _, found = told(changed.judged)
    assert (change, path, found) == (Change.TAMPERED, "/flow/trigger", "nothing")


def test_a_statement_that_was_signed_anew_is_named(changed: Flows) -> None:
    row = Decision.objects.get(escalation__flow=changed.overridden)
    statement = bytes(row.statement).replace(b"The desk", b"The boss")
    signature = signing.signer().sign(statement)
    Decision.objects.filter(pk=row.pk).update(statement=statement, signature=signature)
    digest = entry(changed.overridden, "escalation:decided").payload["statement_digest"]
    expected = (Change.TAMPERED, "/decision/statement", digest, "other bytes than recorded")
    assert told(changed.overridden) == expected


def test_a_decision_that_is_gone_is_named(changed: Flows) -> None:
    Decision.objects.filter(escalation__flow=changed.overridden).delete()
    digest = entry(changed.overridden, "escalation:decided").payload["statement_digest"]
    assert told(changed.overridden) == (Change.TAMPERED, "/decision/statement", digest, None)


@pytest.mark.parametrize(
    "body", [b"[" * 2_000 + b"]" * 2_000, b'{"params":1e999}', b'{"params":"\\ud800"}', b"\xff", b"", b"null"]
)
def test_a_document_that_nobody_here_could_write_is_told_by_its_digest_or_as_it_is(
    changed: Flows, body: bytes
) -> None:
    Proposal.objects.filter(flow=changed.judged).update(body=body)
    recorded = entry(changed.judged, "proposal:submitted").payload["proposal_digest"]
    found = difference(changed.judged)
    assert (found.change, found.path) == (Change.TAMPERED, "/proposal")
    if body == b"null":
        assert (found.recorded["params"]["action"], found.found) == ("BUY", None)
    else:
        assert (found.recorded, found.found) == (recorded, canonical.digest(body))


def test_a_row_that_no_entry_records_is_named(changed: Flows) -> None:
    row = Snapshot.objects.filter(flow=changed.judged).first()
    assert row is not None
    row.pk, row.context_ref = None, "f" * 64
    row.save(force_insert=True)
    found = f"no entry records the context {'f' * 64}"
    assert told(changed.judged) == (Change.TAMPERED, "/rows", None, found)


CHAIN: dict[str, tuple[str, Callable[[LedgerEntry], Any], Callable[[LedgerEntry], Any]]] = {
    "entry: actor": ("/entries/3/actor", lambda _: "agent:trader", lambda _: "user:1"),
    "entry: body and hash": ("/entries/3/body/tenant", lambda _: "default", lambda _: "defau1t"),
    "entry: hash": ("/entries/3/hash", lambda third: bytes(third.hash).hex(), lambda _: bytes(32).hex()),
    "entry: one in the middle gone": ("/entries/3", lambda third: bytes(third.hash).hex(), lambda _: None),
    "entry: previous hash": (
        "/entries/3/prev_hash",
        lambda third: bytes(third.prev_hash).hex(),
        lambda _: bytes(32).hex(),
    ),
    "entry: tenant": ("/entries/3", lambda third: bytes(third.hash).hex(), lambda _: None),
}


@pytest.mark.parametrize("case", CHAIN)
def test_a_changed_entry_is_named_by_its_number(changed: Flows, case: str) -> None:
    third = LedgerEntry.objects.get(stream=str(changed.accepted), seq=3)
    tamper_cases.CASES[case](changed)
    path, recorded, found = CHAIN[case]
    assert told(changed.accepted) == (Change.TAMPERED, path, recorded(third), found(third))
    assert difference(changed.accepted).seq == 3


def test_a_changed_body_is_told_by_its_hashes(changed: Flows) -> None:
    third = LedgerEntry.objects.get(stream=str(changed.accepted), seq=3)
    tamper_cases.CASES["entry: body"](changed)
    change, path, recorded, found = told(changed.accepted)
    assert (change, path, recorded) == (Change.TAMPERED, "/entries/3/body", bytes(third.hash).hex())
    assert len(found) == len(recorded)
    assert found != recorded


def test_the_end_of_a_flow_is_compared_with_its_head(changed: Flows) -> None:
    last = LedgerEntry.objects.filter(stream=str(changed.accepted)).latest("seq")
    with transaction.atomic():
        tamper_cases.CASES["entry: the last one gone"](changed)
        gone = told(changed.accepted)
        assert gone == (Change.TAMPERED, f"/entries/{last.seq}", bytes(last.hash).hex(), None)
        transaction.set_rollback(True)
    Flow.objects.filter(pk=changed.accepted).update(head_seq=last.seq - 1)
    assert told(changed.accepted) == (Change.TAMPERED, "/flow/head_seq", last.seq, last.seq - 1)
    Flow.objects.filter(pk=changed.accepted).update(head_seq=last.seq, head_hash=bytes(32))
    expected = (Change.TAMPERED, "/flow/head_hash", bytes(last.hash).hex(), bytes(32).hex())
    assert told(changed.accepted) == expected


def test_a_chain_that_was_made_anew_differs_from_its_leaves(changed: Flows) -> None:
    third = LedgerEntry.objects.get(stream=str(changed.accepted), seq=3)
    body = bytes(third.body).replace(b'"agent:trader"', b'"agent:broker"')
    sets = "UPDATE audit_ledgerentry SET body = %s, actor = 'agent:broker' WHERE id = %s"
    ledger_tampering.execute(sets, [body, third.pk])
    ledger_tampering.rechain(str(changed.accepted))
    found = difference(changed.accepted)
    assert (found.change, found.path, found.seq) == (Change.TAMPERED, "/entries/3/leaf_hash", 3)
    assert found.recorded != found.found


def test_chain_comes_before_rows_and_rules_before_what_follows_from_them(changed: Flows) -> None:
    rewrite(Verdict.objects.filter(proposal__flow=changed.judged), "body", b'"ACCEPT"', b'"REJECT"')
    rewrite(Snapshot.objects.filter(flow=changed.judged), "body", b'"AAPL":18950', b'"AAPL":18951')
    assert difference(changed.judged).change is Change.CONTEXT
    Bundle.objects.update(body=b"{}")
    assert difference(changed.judged).change is Change.POLICY
    Flow.objects.filter(pk=changed.judged).update(head_hash=bytes(32))
    assert difference(changed.judged).path == "/flow/head_hash"


@pytest.mark.parametrize(
    "name", sorted(name for name in tamper_cases.CASES if name.startswith("cell of another type"))
)
def test_cells_of_another_type_never_end_it_in_an_error(changed: Flows, name: str) -> None:
    try:
        with transaction.atomic():
            tamper_cases.CASES[name](changed)
    except DatabaseError:
        assert connection.vendor == "postgresql"
        return
    results = [flow_replay.replay(tenant=TENANT, dfid=dfid) for dfid in flow_replay.list_flows(tenant=TENANT)]
    of_this_flow = ("body", "hash", "at", "requests", "evidence", "head of a flow", "id of a flow", "text")
    expects = name.removeprefix("cell of another type: ").startswith(of_this_flow)
    assert any(isinstance(result, ReplayDifference) for result in results) == expects


# What was erased


def erase(dfid: UUID, kind: str, field: str) -> str:
    """Erase what an entry of a flow commits to; the commitment."""
    rows = LedgerEntry.objects.filter(stream=str(dfid), kind=kind).order_by("seq")
    commitment = next(str(row.payload[field]) for row in rows if row.payload[field])
    assert payloads.erase(tenant=TENANT, commitment=commitment, reason="asked", actor="user:1")
    return commitment


def test_erased_words_make_a_flow_not_replayable(changed: Flows) -> None:
    erase(changed.overridden, "proposal:submitted", "explain_commitment")
    found = flow_replay.replay(tenant=TENANT, dfid=changed.overridden)
    assert isinstance(found, NotReplayable)
    first = LedgerEntry.objects.filter(stream=str(changed.overridden), kind="proposal:submitted").earliest(
        "seq"
    )
    assert found.erased == ((first.seq, "explain_commitment"),)
    assert found.plain()["result"] == "not_replayable"
    assert found.plain()["why"] == "erased"


def test_an_erased_receipt_makes_a_flow_not_replayable(changed: Flows) -> None:
    erase(changed.accepted, "outcome:recorded", "receipt_commitment")
    found = flow_replay.replay(tenant=TENANT, dfid=changed.accepted)
    assert isinstance(found, NotReplayable)
    assert found.erased == ((entry(changed.accepted, "outcome:recorded").seq, "receipt_commitment"),)


def test_an_erasure_hides_no_change_and_a_change_shows_no_erased_words(changed: Flows) -> None:
    erase(changed.judged, "proposal:submitted", "params_commitment")
    before, after = rewrite(Proposal.objects.filter(flow=changed.judged), "body", b'"BUY"', b'"SELL"')
    assert told(changed.judged) == (
        Change.TAMPERED,
        "/proposal",
        canonical.digest(before),
        canonical.digest(after),
    )


def test_cells_that_an_erasure_emptied_are_no_difference(changed: Flows) -> None:
    erase(changed.judged, "proposal:submitted", "params_commitment")
    Verdict.objects.filter(proposal__flow=changed.judged).update(input=b"", body=b"")
    found = flow_replay.replay(tenant=TENANT, dfid=changed.judged)
    assert isinstance(found, NotReplayable)


def test_a_changed_record_is_a_difference(changed: Flows) -> None:
    """Records are folded again from the entries, and compared with their rows."""
    row = DecisionRecord.objects.filter(dfid=changed.accepted).latest("seq")
    body = bytes(row.body).replace(b'"terminal":true', b'"terminal":null')
    ledger_tampering.execute("UPDATE audit_decisionrecord SET body = %s WHERE id = %s", [body, row.pk])
    found = difference(changed.accepted)
    assert (found.change, found.path) == (Change.TAMPERED, "/record")
    assert LedgerEntry.objects.get(stream=str(changed.accepted), seq=found.seq).kind == "record:emitted"


def test_records_are_counted(flows: Flows) -> None:
    found = flow_replay.replay(tenant=TENANT, dfid=flows.accepted)
    assert isinstance(found, ReplayEqual)
    assert found.checked["records"] == DecisionRecord.objects.filter(dfid=flows.accepted).count() > 0
