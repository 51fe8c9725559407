"""Decision records in packs of real flows: all that were written, as they were, and followed again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit import canonical, signing
from audit.models import DecisionRecord
from audit.packs import sources, verify
from audit.packs.verify import Brought
from audit.records import dsse, fold
from tests.audit.packs_export.test_packs_of_flows import FLOWS, Flows, opened
from tests.audit.packs_export.test_what_is_absent import erase
from tests.support import (
    exported_packs,
    governed_story,
    ledger_tampering,
    markup,
    worlds,
)
from tests.support.evidence_packs import NEXT as STRANGER
from tests.support.evidence_packs import envelope

pytestmark = pytest.mark.django_db
flows = worlds.opened(opened)

ENDS = {"accepted": "DECIDED", "overridden": "IN_FLIGHT", "aborted": "REJECTED", "undone": "CLOSED"}


def codes(members: dict[str, bytes]) -> set[tuple[int, str]]:
    """The numbers of the entries of records at which something was found, and what."""
    pack = verify.Pack(members, None, Brought())
    asked = (verify.check_records, verify.check_record_chain, verify.check_recorded, verify.check_folds)
    found = [*pack.unreadable, *(item for check in asked for item in check(pack))]
    return {(item.seq, item.code) for item in found}


@pytest.mark.parametrize("name", FLOWS)
def test_every_record_of_a_flow_is_there_and_follows(flows: Flows, name: str, tmp_path: Path) -> None:
    dfid = getattr(flows, name)
    pack = exported_packs.make(dfid)
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    rows = list(DecisionRecord.objects.filter(dfid=dfid).order_by("seq"))
    assert [bytes(row.body) for row in rows] == [canonical.encode(said) for said in pack.records().values()]
    assert list(pack.records()) == [row.seq + 1 for row in rows]
    assert answer["counts"]["records"] == len(rows)
    assert bool(rows) == (name != "begun")


def test_records_come_to_what_the_flows_came_to(flows: Flows) -> None:
    newest = {name: [*exported_packs.make(getattr(flows, name)).records().values()][-1] for name in ENDS}
    assert {name: record["status"] for name, record in newest.items()} == ENDS
    assert {name: record["outputs"]["outcome"] for name, record in newest.items()} == {
        "accepted": "succeeded",
        "overridden": "accepted",
        "aborted": "denied",
        "undone": "compensated",
    }
    assert [item["action"] for item in newest["overridden"]["approvals"]] == ["OVERRIDE"]
    calls = [call["direction"] for call in newest["undone"]["tool_lineage"]]
    assert "COMPENSATE" in calls


def test_finds_any_other_value_in_a_record(flows: Flows) -> None:
    """Whoever signs it, hashed again or not."""
    pack = exported_packs.make(flows.overridden)
    seq, record = [*pack.records().items()][-1]
    name, before = f"records/{seq}.dsse.json", codes({**pack.members})
    assert before == set()
    own = signing.signer()
    for path in governed_story.leaves(record):
        held = governed_story.changed_at(record, path)
        again = fold.sealed(held, prev_hash=held["audit"]["prev_hash"], key_id=held["audit"]["signed_by"])
        by_stranger = envelope(again, STRANGER, key_id=own.key_id)
        by_house = canonical.encode(_signed(canonical.encode(held)))
        for content in (by_stranger, by_house):
            assert (seq, "RECORD_MISMATCH") in codes({**pack.members, name: content}), path
        # What the house has signed and hashed again is still not what the entries come to.
        if path[0] not in ("audit", "schema_version"):
            again_by_house = canonical.encode(_signed(canonical.encode(again)))
            found = codes({**pack.members, name: again_by_house})
            assert (seq, "RECORD_DIFFERS") in found, path


def _signed(body: bytes) -> dict[str, Any]:
    own = signing.signer()
    return dsse.envelope(body, signature=own.sign(dsse.statement(body)), key_id=own.key_id)


def test_finds_records_that_are_gone_or_in_another_place(flows: Flows) -> None:
    pack, other = exported_packs.make(flows.overridden), exported_packs.make(flows.modified)
    names = [name for name in pack.members if name.startswith("records/")]
    assert len(names) >= 2
    for name in names:
        seq = int(name.removeprefix("records/").partition(".")[0])
        kept = {each: content for each, content in pack.members.items() if each != name}
        assert codes(kept) == {(seq, "RECORD_MISSING")}
        of_another = next(content for each, content in other.members.items() if each.startswith("records/"))
        assert (seq, "RECORD_MISMATCH") in codes({**pack.members, name: of_another})
    one, two, *_ = names
    swapped = {one: pack.members[two], two: pack.members[one]}
    assert {code for _, code in codes({**pack.members, **swapped})} >= {"RECORD_MISMATCH", "RECORD_DIFFERS"}


Tamper = Callable[[DecisionRecord], tuple[str, list[Any]]]


def rewritten(row: DecisionRecord) -> tuple[str, list[Any]]:
    """Another record, hashed again and signed by the house."""
    record = canonical.decode(bytes(row.body)) | {"status": "CLOSED"}
    audit = record["audit"]
    body = canonical.encode(fold.sealed(record, prev_hash=audit["prev_hash"], key_id=audit["signed_by"]))
    signature = signing.signer().sign(dsse.statement(body))
    return "UPDATE audit_decisionrecord SET body = %s, signature = %s", [body, signature]


TAMPERED: list[tuple[Tamper, str]] = [
    (rewritten, sources.DIFFERENT),
    (lambda row: ("UPDATE audit_decisionrecord SET body = %s", [b"{}"]), sources.DIFFERENT),
    (lambda row: ("UPDATE audit_decisionrecord SET body = %s", [b"\xff"]), sources.DIFFERENT),
    (lambda row: ("UPDATE audit_decisionrecord SET body = %s", [bytes(row.body) + b" "]), sources.DIFFERENT),
    (lambda row: ("UPDATE audit_decisionrecord SET signature = %s", [bytes(64)]), sources.DIFFERENT),
    (lambda row: ("UPDATE audit_decisionrecord SET key_id = %s", ["0" * 16]), sources.DIFFERENT),
    (lambda row: ("DELETE FROM audit_decisionrecord", []), sources.GONE),
]


@pytest.mark.parametrize(("tamper", "why"), TAMPERED)
def test_a_row_that_is_not_what_its_entry_names_is_said_to_be_absent(
    flows: Flows, tmp_path: Path, tamper: Tamper, why: str
) -> None:
    whole = exported_packs.make(flows.overridden)
    row = DecisionRecord.objects.filter(dfid=flows.overridden).latest("seq")
    statement, values = tamper(row)
    ledger_tampering.quietly(f"{statement} WHERE id = %s", [*values, row.pk])
    pack = exported_packs.again(flows.overridden)
    assert pack.absent() == {bytes(row.record_hash).hex(): why}
    assert set(whole.members) - set(pack.members) == {f"records/{row.seq + 1}.dsse.json"}
    code, answer = exported_packs.verified(pack, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    assert answer["counts"]["records"] == len(whole.records()) - 1
    sentence = f"The decision record of entry {row.seq + 1}, which is absent: '{why}'."
    assert sentence in answer["not_proved"]
    assert f"Not in the pack: {why}." in markup.words(pack.report())


def test_a_record_without_subjects_stays_when_words_are_erased(flows: Flows, tmp_path: Path) -> None:
    pack = exported_packs.make(flows.overridden)
    erase(pack.entries("proposal:submitted")[0]["payload"]["params_commitment"])
    again = exported_packs.make(flows.overridden)
    assert again.records() == pack.records()
    code, answer = exported_packs.verified(again, tmp_path)
    assert (code, answer["findings"]) == (0, [])
    # The calls behind the reversal tokens are withheld with the words of the proposal.
    assert any("rules and verdicts that are absent" in sentence for sentence in answer["not_proved"])


def test_the_page_lists_the_records(flows: Flows) -> None:
    pack = exported_packs.make(flows.overridden)
    page = pack.report()
    words = markup.words(page)
    listed = markup.words(page[page.index('id="records"') : page.index('id="texts"')])
    for seq, record in pack.records().items():
        assert f"{seq} {record['timestamp'][:19].replace('T', ' ')} UTC {record['status']}" in listed
        assert record["audit"]["record_hash"] in listed
    assert "needed: person" in listed
    approval = [*pack.records().values()][-1]["approvals"][0]
    assert f"olivia ({approval['approver']}): OVERRIDE (IN_EFFECT)" in listed
    assert "None was written" not in words
    assert "None was written" in markup.words(exported_packs.make(flows.begun).report())
    assert "DECIDED, the last" in markup.words(exported_packs.make(flows.accepted).report())
