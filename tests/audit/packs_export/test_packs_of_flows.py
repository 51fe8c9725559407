"""Packs of flows as the product makes them: a stranger's verifier finds each of them whole, and complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import canonical, chain, signing
from audit.models import LedgerEntry
from audit.packs import export
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import stating
from escalations.services.decision_request import StatementRequest
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Effect
from runtime.core import clock
from runtime.maintenance.services import sealing
from tests.escalations.test_replacing import called
from tests.support import exported_packs, factories, finished_history, ledger_tampering, worlds
from tests.support.finished_history import History

pytestmark = pytest.mark.django_db
FLOWS = ("accepted", "overridden", "modified", "aborted", "undone", "asked", "stated", "begun")
MOST_QUERIES = 32


@dataclass(frozen=True, kw_only=True)
class Flows(History):
    """And an open question, a statement of what became of a call, and a flow that was just opened."""

    asked: UUID
    stated: UUID
    begun: UUID


@contextmanager
def opened() -> Iterator[Flows]:
    with finished_history.opened() as history:
        desk = factories.desk(agent_id="second")
        yield Flows(
            **{name: getattr(history, name) for name in History.__dataclass_fields__},
            asked=Escalation.objects.get(state="OPEN", waiting_until__isnull=False).flow_id,
            stated=_stated(desk),
            begun=desk.open().dfid,
        )


def _stated(desk: factories.Desk) -> UUID:
    """A call that was left in doubt, and of which somebody said later what became of it."""
    escalation, person = called(desk, "UNKNOWN", Reason.IN_DOUBT), factories.user("states", "senior")
    factories.decide(escalation, person, Action.ABORT)
    assert escalation.intent_id is not None
    request = StatementRequest(
        intent_id=escalation.intent_id,
        number=1,
        effect=Effect.NOT_HAPPENED,
        reason="The broker has no such order.",
    )
    who = factories.person(person)
    answer = stating.state(tenant=factories.TENANT, person=who, user=person, request=request)
    assert isinstance(answer, stating.StatementResult), answer
    return escalation.flow_id


flows = worlds.opened(opened)


@pytest.mark.parametrize("name", FLOWS)
def test_a_pack_of_every_flow_is_whole_and_holds_all_that_its_entries_name(
    flows: Flows, name: str, tmp_path: Path
) -> None:
    pack = exported_packs.make(getattr(flows, name))
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    assert answer["absent"] == pack.absent() == {}
    assert set(pack.objects()) == set(pack.named())
    kept = [line["commitment"] for line in pack.lines("payloads.jsonl")]
    assert kept == list(dict.fromkeys(pack.commitments()))
    written = LedgerEntry.objects.filter(stream=str(getattr(flows, name))).count()
    assert [body["seq"] for body in pack.flow()] == list(range(1, written + 1))


def test_what_the_flows_went_through_is_in_their_packs(flows: Flows) -> None:
    """So that the packs above are not whole because nothing is in them."""
    packs = {name: exported_packs.make(getattr(flows, name)) for name in FLOWS}
    kinds = {name: {body["kind"] for body in pack.flow()} for name, pack in packs.items()}
    assert {"intent:created", "outcome:recorded", "attempt:finished"} <= kinds["accepted"]
    assert {"escalation:opened", "escalation:decided"} <= kinds["overridden"] & kinds["modified"]
    assert {"information:requested", "information:answered", "escalation:revised"} <= kinds["aborted"]
    assert {"saga:dirtied", "saga:compensated"} <= kinds["undone"]
    assert {"information:requested", "escalation:handed_over"} <= kinds["asked"]
    assert "effect:stated" in kinds["stated"]
    assert kinds["begun"] == {"flow:opened", "context:compiled", "flow:moved"}


def test_an_unpacked_pack_is_whole_in_its_folder(flows: Flows, tmp_path: Path) -> None:
    pack = exported_packs.make(flows.overridden)
    code, answer = exported_packs.verified_unpacked(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])


def test_every_statement_is_there_with_its_signature(flows: Flows) -> None:
    public_key = signing.signer().public_key
    for name, kinds in {
        "overridden": ["escalation:decided"],
        "aborted": ["information:requested", "escalation:decided"],
        "stated": ["escalation:decided", "effect:stated"],
    }.items():
        pack = exported_packs.make(getattr(flows, name))
        lines = pack.lines("signatures.jsonl")
        assert [pack.flow()[line["seq"] - 1]["kind"] for line in lines] == kinds
        for line in lines:
            statement = pack.objects()[line["statement"]]
            assert signing.is_signed(statement, bytes.fromhex(line["signature"]), public_key)


def test_the_same_state_of_the_database_gives_the_same_bytes_at_the_same_moment(flows: Flows) -> None:
    sealing.seal_now()
    at = clock.now()
    packs = [
        export.evidence_pack(tenant="default", dfid=flows.aborted, at=moment)
        for moment in (at, at, at + timedelta(seconds=1))
    ]
    assert packs[0] == packs[1] != packs[2]
    first, later = (exported_packs.read(pack or b"") for pack in packs[1:])
    unlike = {name for name, content in first.members.items() if later.members[name] != content}
    assert unlike == {"manifest.json", "manifest.sig"}
    manifests = [pack.read("manifest.json") for pack in (first, later)]
    assert [manifest.pop("made_at") for manifest in manifests] == [
        chain.time_text(at),
        chain.time_text(at + timedelta(seconds=1)),
    ]
    assert manifests[0] == manifests[1]


def test_holds_only_what_the_checkpoint_covers(flows: Flows, tmp_path: Path) -> None:
    before = exported_packs.make(flows.asked)
    escalation = Escalation.objects.get(flow_id=flows.asked)
    person = factories.user("late", "senior")
    factories.decide(escalation, person, Action.ABORT, justification="Nobody has answered in time.")
    pack = exported_packs.again(flows.asked)
    assert pack.lines("entries.jsonl") == before.lines("entries.jsonl")
    assert not pack.holds("Nobody has answered in time.")
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    assert exported_packs.make(flows.asked).entries("escalation:decided")


def test_a_flow_that_was_never_sealed_has_no_pack_yet(flows: Flows) -> None:
    with pytest.raises(export.NotSealedError):
        export.evidence_pack(tenant="default", dfid=flows.begun, at=clock.now())
    sealing.seal_now()
    desk = factories.desk(agent_id="third")
    dfid = desk.open().dfid
    with pytest.raises(export.NotSealedError):
        export.evidence_pack(tenant="default", dfid=dfid, at=clock.now())
    assert exported_packs.make(dfid).flow()


@pytest.mark.parametrize("tenant", ["default", "elsewhere"])
def test_there_is_no_pack_of_an_unknown_flow(flows: Flows, tenant: str) -> None:
    sealing.seal_now()
    dfid = uuid4() if tenant == "default" else flows.accepted
    assert export.evidence_pack(tenant=tenant, dfid=dfid, at=clock.now()) is None


def test_a_pack_takes_few_queries_however_long_the_flow_is(flows: Flows) -> None:
    sealing.seal_now()
    counted = {}
    for name in ("begun", "undone", "aborted"):
        with CaptureQueriesContext(connection) as queries:
            exported_packs.again(getattr(flows, name))
        counted[name] = len(queries)
    assert max(counted.values()) <= MOST_QUERIES, counted


def test_an_entry_that_was_rewritten_is_what_the_verifier_names(flows: Flows, tmp_path: Path) -> None:
    sealing.seal_now()
    row = LedgerEntry.objects.get(stream=str(flows.overridden), kind="escalation:decided")
    body = bytes(row.body).replace(b'"OVERRIDE"', b'"ABORT"')
    ledger_tampering.quietly("UPDATE audit_ledgerentry SET body = %s WHERE id = %s", [body, row.pk])
    code, answer = exported_packs.verified(exported_packs.again(flows.overridden), tmp_path)
    assert code == 1
    first = answer["findings"][0]
    assert (first["stream"], first["seq"]) == (str(flows.overridden), row.seq)


def test_a_removed_entry_is_what_the_verifier_names(flows: Flows, tmp_path: Path) -> None:
    sealing.seal_now()
    ledger_tampering.quietly(
        "DELETE FROM audit_ledgerentry WHERE stream = %s AND seq = 3", [str(flows.overridden)]
    )
    code, answer = exported_packs.verified(exported_packs.again(flows.overridden), tmp_path)
    assert code == 1
    assert (str(flows.overridden), 4, "GAP") in {
        (item["stream"], item["seq"], item["code"]) for item in answer["findings"]
    }


def test_a_body_that_says_nothing_ends_no_export(flows: Flows, tmp_path: Path) -> None:
    sealing.seal_now()
    for seq, body in ((2, b"[]"), (3, b"\xff"), (4, canonical.encode({"payload": 1}))):
        ledger_tampering.quietly(
            "UPDATE audit_ledgerentry SET body = %s WHERE stream = %s AND seq = %s",
            [body, str(flows.aborted), seq],
        )
    code, answer = exported_packs.verified(exported_packs.again(flows.aborted), tmp_path)
    assert code == 1
    assert {2, 3, 4} <= {item["seq"] for item in answer["findings"] if item["stream"] == str(flows.aborted)}
