"""Rows that somebody rewrote in the database are not used: nothing is called or granted by them."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit import canonical
from audit.models import LedgerEntry
from audit.verification import findings
from audit.verification.verify import Whole, verify_database
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.states import Decision, FlowState, IntentState
from runtime.core import clock
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Proposal, Verdict
from runtime.guards.models import Guard
from runtime.registry.models import Manifest, PolicyKind, Target
from runtime.registry.queries import recorded_versions
from runtime.registry.services import manifests
from tests.support import factories, gate_cases, guard_rounds, misbehaving_targets, trading_desk

pytestmark = pytest.mark.django_db
# What the flow recorded, and the level of autonomy of its agent.
MOST_LOOKUPS_OF_A_CLAIM = 2


@pytest.fixture(autouse=True)
def _egress(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]


@pytest.fixture(autouse=True)
def _nothing_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has just started: no digest was asked for yet."""
    monkeypatch.setattr(recorded_versions, "_confirmed", set())


@pytest.fixture
def target() -> Iterator[misbehaving_targets.StandIn]:
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"order_id":"o1","status":"FILLED"}')
    ) as running:
        yield running


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def mismatches(stream: str) -> list[str]:
    """The rows that the stream's entries call mismatched."""
    rows = LedgerEntry.objects.filter(stream=stream, kind="row:mismatched").order_by("seq")
    return [row.payload["row"] for row in rows]


def rewritten(intent_id: UUID, old: bytes, new: bytes) -> None:
    """Put other requests into the table, with nothing but an UPDATE."""
    held = bytes(Intent.objects.get(pk=intent_id).requests)
    assert old in held
    Intent.objects.filter(pk=intent_id).update(requests=held.replace(old, new))


def test_rewritten_requests_are_never_sent_and_a_person_is_asked(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    rewritten(intent_id, b'"quantity":2', b'"quantity":987654')
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.BLOCKED, called=False, detail="TAMPERED"
    )
    assert target.seen == []
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    assert Escalation.objects.get().reason == "TAMPERED"
    assert mismatches(str(trading_desk.flow_of(intent_id).dfid)) == ["intent.requests"]
    assert isinstance(verify_database(), Whole)


def test_a_person_who_resumes_rewritten_requests_is_asked_again(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    rewritten(intent_id, b'"quantity":2', b'"quantity":987654')
    attempt(intent_id)
    factories.decide(Escalation.objects.get(), factories.user(), Action.RESUME)
    assert attempt(intent_id).detail == "TAMPERED"
    assert target.seen == []
    assert Escalation.objects.filter(state="OPEN").count() == 1


@pytest.mark.parametrize("value", ["not bytes at all", ""])
def test_requests_that_are_no_bytes_are_never_read(target: misbehaving_targets.StandIn, value: str) -> None:
    if connection.vendor == "postgresql":
        value = "\\x"  # its column takes no text, and this is the nearest to it
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    with connection.cursor() as cursor:
        key = intent_id.hex if connection.vendor == "sqlite" else str(intent_id)
        cursor.execute("UPDATE runtime_intent SET requests = %s WHERE intent_id = %s", [value, key])
    assert attempt(intent_id).detail == "TAMPERED"
    assert target.seen == []


@pytest.mark.parametrize("column", ["input", "body"])
def test_an_intent_whose_verdict_was_rewritten_is_not_called(
    target: misbehaving_targets.StandIn, column: str
) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    verdict = Verdict.objects.get()
    changed = bytes(getattr(verdict, column)).replace(b'"trader"', b'"traitor"').replace(b"ABC", b"XYZ")
    assert changed != bytes(getattr(verdict, column))
    Verdict.objects.update(**{column: changed})
    assert attempt(intent_id).detail == "TAMPERED"
    assert target.seen == []
    assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
    assert mismatches(str(trading_desk.flow_of(intent_id).dfid)) == [f"verdict.{column}"]


def test_an_intent_whose_rules_were_rewritten_is_not_called(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    bundle = Verdict.objects.select_related("bundle").get().bundle
    bundle.body = bytes(bundle.body).replace(b"OPEN", b"SHUT")
    bundle.save()
    assert attempt(intent_id).detail == "TAMPERED"
    assert target.seen == []
    assert mismatches(str(trading_desk.flow_of(intent_id).dfid)) == ["bundle.body"]


def test_requests_and_verdict_rewritten_together_end_the_intent(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    rewritten(intent_id, b'"quantity":2', b'"quantity":987654')
    Verdict.objects.update(input=b"{}")
    assert attempt(intent_id).detail == "TAMPERED"
    assert target.seen == []
    assert mismatches(str(trading_desk.flow_of(intent_id).dfid)) == ["intent.requests", "verdict.input"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("base_url", "http://127.0.0.1:9/elsewhere"),
        ("secret_env", "OF_SOMEBODY_ELSE"),
        ("honours_keys", True),
        ("refuses", b"[500,503]"),
        ("health", "/admin"),
    ],
)
def test_nothing_is_sent_to_a_target_that_was_rewritten(
    target: misbehaving_targets.StandIn, column: str, value: Any
) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    held = getattr(Target.objects.get(), column)
    Target.objects.update(**{column: value})
    assert attempt(intent_id) == attempting.AttemptResult(
        status=AttemptStatus.BLOCKED, called=False, detail="TAMPERED"
    )
    assert target.seen == []
    assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
    named = {"secret_env": "signed"}.get(column, column)
    assert mismatches(str(trading_desk.flow_of(intent_id).dfid)) == [f"target.{named}"]
    assert [item.stream for item in findings.verify_all().findings if item.stream == "system"] == ["system"]

    Target.objects.update(**{column: held})
    factories.decide(Escalation.objects.get(), factories.user(), Action.RESUME)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED


def test_a_signing_secret_is_not_swapped_for_another(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    factories.configure_target(secret_env="OURS")
    Target.objects.update(secret_env="THEIRS")
    assert attempt(intent_id).detail == "TAMPERED"
    assert mismatches(str(trading_desk.flow_of(intent_id).dfid)) == ["target.secret_env"]


def test_a_target_that_no_pack_configured_is_not_called(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url="http://127.0.0.1:9").accept()
    trading_desk.add_target("spare", target.base_url)
    Target.objects.filter(name="broker").delete()
    Target.objects.filter(name="spare").update(name="broker")
    assert attempt(intent_id).detail == "TAMPERED"
    assert target.seen == []


def test_a_target_configured_anew_is_called_where_it_is_now(target: misbehaving_targets.StandIn) -> None:
    intent_id = trading_desk.open_desk(base_url="http://127.0.0.1:9").accept()
    factories.configure_target(base_url=target.base_url)
    assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    assert len(target.seen) == 1


def test_a_pack_that_is_loaded_again_puts_a_rewritten_target_right(
    target: misbehaving_targets.StandIn,
) -> None:
    desk = trading_desk.open_desk(base_url="http://127.0.0.1:9")
    Target.objects.update(base_url=target.base_url)
    factories.configure_target(base_url=target.base_url)
    assert attempt(desk.accept()).status is AttemptStatus.SUCCEEDED


@pytest.mark.parametrize("what", ["guard", "unreadable guard", "target"])
def test_a_rewritten_guard_is_not_asked(what: str) -> None:
    desk = factories.desk()
    with misbehaving_targets.stand_in(
        misbehaving_targets.answer(200, b'{"flag":true,"confidence":1,"message":"no"}')
    ) as judge:
        factories.configure_target("judge", base_url=judge.base_url)
        guard = guard_rounds.configure(**guard_rounds.WEBHOOK)
        if what == "guard":
            Guard.objects.update(body=bytes(guard.body).replace(b'"judge"', b'"judgf"'))
        elif what == "unreadable guard":
            Guard.objects.update(body=b"{}")
        else:
            Target.objects.update(honours_keys=True)
        answer = guard_rounds.propose(desk)
        assert guard_rounds.run_all() == ["FAILED"]
        assert judge.seen == []
    flow = str(Proposal.objects.get(pk=answer["proposal_id"]).flow_id)
    assert mismatches(flow) == ["target.honours_keys" if what == "target" else "guard.body"]


def raised_limit(body: bytes) -> bytes:
    """A manifest's bytes with fifty times the limit."""
    changed = body.replace(b'"max_notional_cents":100000', b'"max_notional_cents":5000000')
    assert changed != body
    return changed


@pytest.mark.parametrize("with_digest", [False, True])
def test_a_raised_limit_of_a_manifest_accepts_nothing(with_digest: bool) -> None:
    desk = factories.desk()
    row = desk.again().active_manifest
    assert row is not None
    changed = raised_limit(bytes(row.body))
    also = {"digest": canonical.digest(changed)} if with_digest else {}
    Manifest.objects.filter(pk=row.pk).update(body=changed, **also)
    flow = desk.open()
    answer = desk.propose(flow, params=factories.OVER_LIMIT)
    assert answer["verdict"] == "REJECT"
    assert [reason["code"] for reason in answer["reasons"]] == ["UNAUTHORIZED"]
    assert mismatches(str(flow.dfid)) == ["manifest.body"]


def test_a_manifest_rewritten_after_it_was_used_is_noticed_all_the_same() -> None:
    desk = factories.desk()
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    row = desk.again().active_manifest
    assert row is not None
    Manifest.objects.filter(pk=row.pk).update(body=raised_limit(bytes(row.body)))
    assert desk.propose(desk.open(), params=factories.OVER_LIMIT)["verdict"] == "REJECT"
    Manifest.objects.filter(pk=row.pk).update(body=bytes(row.body))
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"


def test_a_draft_that_the_table_calls_active_grants_nothing() -> None:
    desk = factories.desk()
    wide = gate_cases.manifest(version="1.5.0", limits={"max_notional_cents": 5_000_000})
    row, registered = manifests.AgentManifest(desk.agent).register(wide, actor="user:1", at=clock.now())
    factories.record("agent:trader", registered, actor="user:1", at=clock.now())
    type(desk.agent).objects.update(active_manifest=row)
    assert desk.propose(desk.open(), params=factories.OVER_LIMIT)["verdict"] == "REJECT"


def test_a_rewritten_kind_accepts_nothing() -> None:
    desk = factories.desk()
    row = PolicyKind.objects.get(active=True)
    changed = bytes(row.body).replace(b"manifest.limits.max_notional_cents", b"9000000")
    assert changed != bytes(row.body)
    PolicyKind.objects.update(body=changed, digest=canonical.digest(changed))
    flow = desk.open()
    answer = desk.propose(flow, params=factories.OVER_LIMIT)
    assert [reason["code"] for reason in answer["reasons"]] == ["CAPABILITY_NOT_FOUND"]
    assert mismatches(str(flow.dfid)) == ["policykind.body"]


def test_a_person_overrides_nothing_under_a_rewritten_kind() -> None:
    desk = factories.desk()
    escalation = desk.escalate()
    row = PolicyKind.objects.get(active=True)
    PolicyKind.objects.update(body=bytes(row.body).replace(b'"title":"Adjust', b'"title":"Forget'))
    olivia = factories.user()
    codes = [getattr(factories.decide(escalation, olivia), "code", None) for _ in range(2)]
    assert codes == ["EVIDENCE_CHANGED", "NOT_LIFTABLE"]
    assert not Intent.objects.exists()


def ledger_reads(captured: CaptureQueriesContext) -> int:
    return sum(
        "audit_ledgerentry" in query["sql"] and query["sql"].lstrip("(").startswith("SELECT")
        for query in captured.captured_queries
    )


def test_an_attempt_costs_two_looks_into_the_ledger_beside_its_record(
    target: misbehaving_targets.StandIn,
) -> None:
    intent_id = trading_desk.open_desk(base_url=target.base_url).accept()
    with CaptureQueriesContext(connection) as captured:
        assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
    # And one for the record of the flow's end, which reads the entries since the record before.
    assert ledger_reads(captured) == MOST_LOOKUPS_OF_A_CLAIM + 1


def test_a_proposal_looks_for_its_rules_only_while_they_are_new_to_the_process() -> None:
    desk = factories.desk()
    first, second = desk.open(), desk.open()
    found = []
    for flow in (first, second):
        with CaptureQueriesContext(connection) as captured:
            assert desk.propose(flow)["verdict"] == Decision.ACCEPT
        found.append(ledger_reads(captured))
    # The kind; each time the level of the agent, and for its record the flow's entries. The manifest was
    # asked for when the flows were opened.
    assert found == [3, 2]


def test_what_was_confirmed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_versions, "_MOST_CONFIRMED", 1)
    desk = factories.desk()
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"
    seen: set[Any] = recorded_versions._confirmed
    assert len(seen) == 1
