"""Packs forged by somebody who holds the keys, or some of them: each is found, at its place."""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785

from audit.packs import verify
from audit.packs.verify import Report
from tests.support import evidence_packs
from tests.support.evidence_packs import (
    CHANGED,
    FIRST,
    FLOW,
    NEXT,
    OPERATOR,
    STRANGER,
    Members,
    Story,
    jsonl,
    members_of,
    moment,
    rows_of,
    told_with,
    with_manifest,
)

pytestmark = pytest.mark.once

Where = tuple[str, int] | str
# Where the entries stand in the flow of the story.
OPENED, PROPOSED, JUDGED, ESCALATED, ASKED, REVISED, FIRST_DECIDED, DECIDED = 1, 3, 4, 5, 6, 7, 8, 9
PROPOSED_AGAIN, INTENDED, STATED, LAST = 10, 12, 13, 14


def report_on(members: Members) -> Report:
    return verify.verify_archive(evidence_packs.archive_of(members))


def places(report: Report, code: str) -> set[Where]:
    """Where a code was found: at an entry, or else in a member."""
    found = (finding for finding in report.findings if finding.code == code)
    return {(finding.stream, finding.seq) if finding.stream else finding.member for finding in found}


def rewrite(kind: str, name: str, nth: int = 0, **changed: Any) -> Callable[[Story], None]:
    def change(told: Story) -> None:
        told.rewrite(kind, name, nth, **changed)

    return change


def record(kind: str, nth: int = 0, **changed: Any) -> Callable[[Story], None]:
    """Other values in the payload of an entry."""

    def change(told: Story) -> None:
        told.entry(kind, nth)["payload"].update(changed)

    return change


def decide(**changed: Any) -> Callable[[Story], None]:
    return rewrite("escalation:decided", "statement_digest", **changed)


def _actor(told: Story) -> None:
    told.entry("escalation:decided")["actor"] = OPERATOR


def _swapped_evidence(told: Story) -> None:
    first = told.entry("escalation:opened")["payload"]["evidence_hash"]
    del told.objects[told.entry("escalation:revised")["payload"]["evidence_hash"]]
    told.entry("escalation:revised")["payload"]["evidence_hash"] = first


def _other_choice(told: Story) -> None:
    choice = told.document("escalation:decided", "statement_digest")["choice"]
    told.rewrite("escalation:decided", "statement_digest", choice={**choice, "params": {"quantity": 6}})


def _old_key(told: Story) -> None:
    payload = told.entry("escalation:decided")["payload"]
    statement = told.objects[payload["statement_digest"]]
    payload |= {"key_id": FIRST.key_id, "signature": FIRST.sign(statement).hex()}


def _wrong_signature(told: Story) -> None:
    payload = told.entry("effect:stated")["payload"]
    payload["signature"] = STRANGER.sign(told.objects[payload["statement_digest"]]).hex()


def _unknown_key(told: Story) -> None:
    payload = told.entry("effect:stated")["payload"]
    signature = STRANGER.sign(told.objects[payload["statement_digest"]]).hex()
    payload |= {"key_id": STRANGER.key_id, "signature": signature}


def _begun(**how: Any) -> Callable[[Story], None]:
    """The second key begins otherwise."""

    def change(told: Story) -> None:
        payload = evidence_packs.begun(NEXT, FIRST, vouching=FIRST) | how
        told.streams["system"][1]["payload"] = payload

    return change


def _unrecorded(told: Story) -> None:
    del told.streams["system"][1]


def _another_window(told: Story) -> None:
    told.keys[1] = (NEXT, evidence_packs.ROTATED_AT + 1, None)


def _early_checkpoint(told: Story) -> None:
    told.signed_at = 50


def _drop_payload(told: Story) -> None:
    del told.payloads[0]


def _change_payload(**changed: Any) -> Callable[[Story], None]:
    def change(told: Story) -> None:
        told.payloads[0] |= changed

    return change


def _drop_object(kind: str, name: str) -> Callable[[Story], None]:
    def change(told: Story) -> None:
        del told.objects[told.entry(kind)["payload"][name].removeprefix("sha256:")]

    return change


def _absent_and_here(told: Story) -> None:
    told.absent[told.entry("escalation:opened")["payload"]["evidence_hash"]] = "hidden"


def _other_tenant(told: Story) -> None:
    told.entry("intent:created")["tenant"] = "other"


def _more_in_a_body(told: Story) -> None:
    told.entry("intent:created")["note"] = "more"


def _no_object(told: Story) -> None:
    told.entry("intent:created")["payload"] = [1]


def _hidden_verdict(told: Story) -> None:
    told.rename("verdict:given", "verdict_digest", [1, 2])


def _wrong_types(told: Story) -> None:
    told.entry("escalation:decided")["payload"]["escalation_id"] = ["x"]


BY_STORY: list[tuple[Callable[[Story], None], str, Where]] = [
    # What an entry names says something else than the entry.
    (
        rewrite("proposal:submitted", "proposal_digest", author="agent:other"),
        "PROPOSAL_MISMATCH",
        (FLOW, PROPOSED),
    ),
    (rewrite("proposal:submitted", "proposal_digest", dfid="another"), "PROPOSAL_MISMATCH", (FLOW, PROPOSED)),
    (rewrite("proposal:submitted", "proposal_digest", params={}), "PROPOSAL_MISMATCH", (FLOW, PROPOSED)),
    (
        rewrite("proposal:submitted", "proposal_digest", context_ref=None),
        "PROPOSAL_MISMATCH",
        (FLOW, PROPOSED),
    ),
    (rewrite("proposal:submitted", "proposal_digest", extra=1), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (record("proposal:submitted", author="user:9"), "PROPOSAL_MISMATCH", (FLOW, PROPOSED)),
    (rewrite("verdict:given", "verdict_digest", decision="ACCEPT"), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (rewrite("verdict:given", "verdict_digest", findings=[]), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (rewrite("verdict:given", "verdict_digest", impact="LOW_IMPACT"), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (rewrite("verdict:given", "verdict_digest", gate_version="1"), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (rewrite("verdict:given", "input_digest", rules_digest="00" * 32), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (rewrite("verdict:given", "input_digest", proposal={}), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (record("verdict:given", verdict="ACCEPT"), "VERDICT_MISMATCH", (FLOW, JUDGED)),
    (
        rewrite("escalation:opened", "evidence_hash", impact="LOW_IMPACT"),
        "EVIDENCE_MISMATCH",
        (FLOW, ESCALATED),
    ),
    (
        rewrite("escalation:opened", "evidence_hash", escalation_id="x"),
        "EVIDENCE_MISMATCH",
        (FLOW, ESCALATED),
    ),
    (rewrite("escalation:revised", "evidence_hash", dfid="another"), "EVIDENCE_MISMATCH", (FLOW, REVISED)),
    (_swapped_evidence, "EVIDENCE_MISMATCH", (FLOW, REVISED)),
    (_swapped_evidence, "EVIDENCE_UNKNOWN", (FLOW, DECIDED)),
    (
        rewrite("intent:created", "request_digest", steps=[{"step": "sell"}]),
        "INTENT_MISMATCH",
        (FLOW, INTENDED),
    ),
    # Statements that are signed anew.
    (decide(action="ABORT"), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(approver=OPERATOR), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(effect="HAPPENED"), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(type="dir-console/question/1"), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(tenant="other"), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(dfid="another"), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(decided_at=moment(208, timespec="milliseconds")), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(evidence_hash="33" * 32), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(revision=1), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(sequence=7), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(confirms="44" * 32), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(params={"quantity": 500}), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (decide(proposal_id=CHANGED[:-1] + "0"), "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (_other_choice, "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (_actor, "STATEMENT_MISMATCH", (FLOW, DECIDED)),
    (record("escalation:decided", revision=3), "EVIDENCE_UNKNOWN", (FLOW, DECIDED)),
    (
        rewrite("escalation:first_decided", "statement_digest", approver="user:9"),
        "STATEMENT_MISMATCH",
        (FLOW, FIRST_DECIDED),
    ),
    (
        rewrite("information:requested", "statement_digest", question="Who?"),
        "STATEMENT_MISMATCH",
        (FLOW, ASKED),
    ),
    (
        rewrite("information:requested", "statement_digest", until=moment(700)),
        "STATEMENT_MISMATCH",
        (FLOW, ASKED),
    ),
    (rewrite("information:requested", "statement_digest", number=True), "STATEMENT_MISMATCH", (FLOW, ASKED)),
    (
        rewrite("effect:stated", "statement_digest", effect="NOT_HAPPENED"),
        "STATEMENT_MISMATCH",
        (FLOW, STATED),
    ),
    (rewrite("effect:stated", "statement_digest", contradicts="x"), "STATEMENT_MISMATCH", (FLOW, STATED)),
    (
        rewrite("effect:stated", "statement_digest", stated_at=moment(300)),
        "STATEMENT_MISMATCH",
        (FLOW, STATED),
    ),
    (
        rewrite("effect:stated", "statement_digest", evidence_hash="33" * 32),
        "EVIDENCE_UNKNOWN",
        (FLOW, STATED),
    ),
    (_wrong_signature, "SIGNATURE_WRONG", (FLOW, STATED)),
    (_unknown_key, "SIGNATURE_KEY", (FLOW, STATED)),
    # Keys.
    (_old_key, "KEY_WINDOW", (FLOW, DECIDED)),
    (_early_checkpoint, "KEY_WINDOW", "checkpoint.txt"),
    (_another_window, "KEY_WINDOW", ("system", 9)),
    (_unrecorded, "KEY_UNRECORDED", "keys.json"),
    (_begun(signature=STRANGER.sign(b"").hex()), "KEY_SIGNATURE", ("system", 9)),
    (_begun(previous_signature=STRANGER.sign(b"").hex()), "KEY_SIGNATURE", ("system", 9)),
    (_begun(origin="dir-console/other"), "KEY_SIGNATURE", ("system", 9)),
    (_begun(public_key="AAAA"), "KEY_UNREADABLE", ("system", 9)),
    (_begun(public_key=evidence_packs.text64(STRANGER.public_key)), "KEY_UNREADABLE", ("system", 9)),
    # What commitments and digests stand for.
    (_drop_payload, "PAYLOAD_MISSING", (FLOW, OPENED)),
    (_change_payload(body=evidence_packs.text64(b'{"why":"rain"}')), "PAYLOAD_MISMATCH", (FLOW, OPENED)),
    (_change_payload(salt=evidence_packs.text64(bytes(32))), "PAYLOAD_MISMATCH", (FLOW, OPENED)),
    (_change_payload(commitment="55" * 32), "PAYLOAD_UNNAMED", "payloads.jsonl"),
    (lambda told: told.payloads.append(told.payloads[0]), "REPEATED", "payloads.jsonl"),
    (lambda told: told.absent.clear(), "OBJECT_MISSING", (FLOW, JUDGED)),
    (lambda told: told.absent.update({"66" * 32: "lost"}), "ABSENT_UNNAMED", "absent.json"),
    (_absent_and_here, "ABSENT_PRESENT", "absent.json"),
    (lambda told: told.objects.update({"77" * 32: b"more"}), "OBJECT_UNNAMED", f"objects/{'77' * 32}"),
    (_drop_object("context:compiled", "context_ref"), "OBJECT_MISSING", (FLOW, 2)),
    (_drop_object("verdict:given", "input_digest"), "OBJECT_MISSING", (FLOW, JUDGED)),
    (_drop_object("escalation:decided", "statement_digest"), "OBJECT_MISSING", (FLOW, DECIDED)),
    (_drop_object("outcome:recorded", "outcome_digest"), "OBJECT_MISSING", (FLOW, LAST)),
    # Entries of another form.
    (_other_tenant, "BODY_MISMATCH", (FLOW, INTENDED)),
    (_more_in_a_body, "BODY_UNREADABLE", (FLOW, INTENDED)),
    (_no_object, "BODY_UNREADABLE", (FLOW, INTENDED)),
    (_hidden_verdict, "UNREADABLE", (FLOW, JUDGED)),
    (record("outcome:recorded", outcome_digest="none"), "BODY_UNREADABLE", (FLOW, LAST)),
    (record("verdict:given", verdict_digest="AB" * 32), "BODY_UNREADABLE", (FLOW, JUDGED)),
    (_wrong_types, "UNREADABLE", ""),
]


@pytest.mark.parametrize(("change", "code", "where"), BY_STORY)
def test_finds_a_story_that_does_not_agree_with_itself(
    change: Callable[[Story], None], code: str, where: Where
) -> None:
    report = report_on(told_with(change))
    assert report.exit == 1
    assert where in places(report, code), report.findings


Line = dict[str, Any]


def lines(change: Callable[[list[Line]], object]) -> Callable[[Members], None]:
    """Change the lines of entries, and nothing that follows from them."""
    return _rows("entries.jsonl", change)


def signatures(change: Callable[[list[Line]], object]) -> Callable[[Members], None]:
    return _rows("signatures.jsonl", change)


def _rows(name: str, change: Callable[[list[Line]], object]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        rows = rows_of(members, name)
        change(rows)
        members[name] = jsonl(rows)

    return changed


def document(name: str, change: Callable[[Any], object]) -> Callable[[Members], None]:
    """Change a member of JSON in place."""

    def changed(members: Members) -> None:
        held = json.loads(members[name])
        change(held)
        members[name] = rfc8785.dumps(held)

    return changed


def content(name: str, change: Callable[[bytes], bytes]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        members[name] = change(members[name])

    return changed


def _edit(row: Line, *, rehash: bool = False) -> None:
    body = json.loads(base64.b64decode(row["body"]))
    body["actor"] = "user:9"
    encoded = rfc8785.dumps(body)
    row["body"] = evidence_packs.text64(encoded)
    if rehash:
        row["hash"] = hashlib.sha256(bytes.fromhex(row["prev_hash"]) + encoded).hexdigest()


def _rechained(members: Members) -> None:
    """The whole chain is made anew, under the old checkpoint."""
    told = evidence_packs.story()
    told.entry("context:compiled")["payload"]["fact_count"] = 2
    members["entries.jsonl"] = members_of(told)["entries.jsonl"]


def _other_tree(members: Members) -> None:
    leaves = [bytes([number]) * 32 for number in range(32)]
    members["checkpoint.txt"] = evidence_packs.note(NEXT, leaves, moment(500))


def _head_with(change: Callable[[Any, Line], object]) -> Callable[[Members], None]:
    """Another head, committed to and signed."""

    def changed(members: Members) -> None:
        last = dict(rows_of(members, "entries.jsonl")[LAST - 1])
        leaves = evidence_packs.seal(evidence_packs.story()).leaves
        held: dict[str, Any] = {"leaves": leaves, "signer": NEXT}
        change(held, last)
        head = evidence_packs.head_of(last, held["leaves"], held["signer"], at=500)
        members["head.json"] = rfc8785.dumps(head)

    return changed


def _note_with(
    change: Callable[[str], str], *, signer: Any = NEXT, origin: str = evidence_packs.ORIGIN
) -> Any:
    """Another text of the checkpoint, signed."""

    def changed(members: Members) -> None:
        text = members["checkpoint.txt"].decode().partition("\n\n")[0] + "\n"
        members["checkpoint.txt"] = evidence_packs.signed_note(change(text), signer, origin=origin)

    return changed


def _weak_key(members: Members) -> None:
    def change(keys: list[Line]) -> None:
        weak = bytes([1]) + bytes(31)
        keys[1] |= {
            "public_key": evidence_packs.text64(weak),
            "key_id": hashlib.sha256(weak).hexdigest()[:16],
        }

    document("keys.json", change)(members)


def _stranger_joins(members: Members) -> None:
    """Somebody signs the checkpoint, and adds the own key to the list."""
    row = {"key_id": STRANGER.key_id, "public_key": evidence_packs.text64(STRANGER.public_key)}
    document("keys.json", lambda keys: keys.append({**row, "from": moment(0), "until": None}))(members)
    _note_with(lambda text: text, signer=STRANGER)(members)


def _swap(rows: list[Line], one: int, other: int) -> None:
    rows[one], rows[other] = rows[other], rows[one]


BY_MEMBER: list[tuple[Callable[[Members], None], str, Where]] = [
    # Entries.
    (lines(lambda rows: _edit(rows[4])), "HASH_MISMATCH", (FLOW, 5)),
    (lines(lambda rows: _edit(rows[4], rehash=True)), "PREV_MISMATCH", (FLOW, 6)),
    (lines(lambda rows: _edit(rows[4], rehash=True)), "NOT_IN_TREE", (FLOW, 5)),
    (lines(lambda rows: _edit(rows[-1], rehash=True)), "NOT_IN_TREE", ("system", 9)),
    (_rechained, "NOT_IN_TREE", (FLOW, 2)),
    (lines(lambda rows: _swap(rows, 3, 4)), "OUT_OF_ORDER", (FLOW, 4)),
    (lines(lambda rows: rows.pop(0)), "GAP", (FLOW, 2)),
    (lines(lambda rows: rows.pop(6)), "GAP", (FLOW, 8)),
    (lines(lambda rows: rows.pop(LAST - 1)), "TRUNCATED", (FLOW, LAST)),
    (lines(lambda rows: rows.insert(6, rows[6])), "REPEATED", (FLOW, 7)),
    (lines(lambda rows: rows[6].update(proof=rows[5]["proof"])), "NOT_IN_TREE", (FLOW, 7)),
    (lines(lambda rows: rows[6].update(leaf_index=rows[5]["leaf_index"])), "LEAF_ORDER", (FLOW, 7)),
    (lines(lambda rows: rows[6]["proof"].append("00" * 32)), "NOT_IN_TREE", (FLOW, 7)),
    (lines(lambda rows: rows[6]["proof"].pop()), "NOT_IN_TREE", (FLOW, 7)),
    (lines(lambda rows: rows[6].update(leaf_index=99)), "NOT_IN_TREE", (FLOW, 7)),
    (lines(lambda rows: rows[6].update(seq=70)), "BODY_MISMATCH", (FLOW, 70)),
    (lines(lambda rows: rows[6].update(stream="other")), "BODY_MISMATCH", ("other", 7)),
    (lines(lambda rows: rows[6].update(more=1)), "UNREADABLE", "entries.jsonl"),
    (lines(lambda rows: rows[6].update(hash=rows[6]["hash"].upper())), "UNREADABLE", "entries.jsonl"),
    (lines(lambda rows: rows[6].update(body=rows[6]["body"] + "\n")), "UNREADABLE", "entries.jsonl"),
    (content("entries.jsonl", lambda held: held[:-1]), "UNREADABLE", "entries.jsonl"),
    (content("entries.jsonl", lambda held: b""), "GAP", (FLOW, 1)),
    (content("entries.jsonl", lambda held: held.replace(b",", b", ", 1)), "UNREADABLE", "entries.jsonl"),
    # Checkpoints.
    (_other_tree, "NOT_IN_TREE", (FLOW, 1)),
    (_note_with(lambda text: text, signer=STRANGER), "CHECKPOINT_SIGNATURE", "checkpoint.txt"),
    (_stranger_joins, "KEY_UNRECORDED", "keys.json"),
    (
        _note_with(lambda text: text.replace("5f0c", "beef"), origin="dir-console/beef"),
        "CHECKPOINT_ORIGIN",
        "checkpoint.txt",
    ),
    (_note_with(lambda text: text.replace("\n32\n", "\n032\n")), "UNREADABLE", "checkpoint.txt"),
    (_note_with(lambda text: text.replace("\n32\n", "\n31\n")), "NOT_IN_TREE", (FLOW, 14)),
    (_note_with(lambda text: text.replace("time ", "at ")), "UNREADABLE", "checkpoint.txt"),
    (_note_with(lambda text: text.replace("11-23", "13-23")), "UNREADABLE", "checkpoint.txt"),
    (_note_with(lambda text: text + "also this\n"), "UNREADABLE", "checkpoint.txt"),
    (content("checkpoint.txt", lambda note: note[:-1]), "UNREADABLE", "checkpoint.txt"),
    (content("checkpoint.txt", lambda note: note.replace(b"\n", b"\r\n")), "UNREADABLE", "checkpoint.txt"),
    (content("checkpoint.txt", lambda note: note.partition(b"\n\n")[0]), "UNREADABLE", "checkpoint.txt"),
    (content("checkpoint.txt", lambda note: note + b"\xff"), "UNREADABLE", "checkpoint.txt"),
    (content("checkpoint.txt", lambda note: note * 100), "UNREADABLE", "checkpoint.txt"),
    # The end of the stream.
    (_head_with(lambda held, last: last.update(seq=15)), "TRUNCATED", (FLOW, 15)),
    (_head_with(lambda held, last: last.update(hash="88" * 32)), "HEAD_WRONG", (FLOW, LAST)),
    (_head_with(lambda held, last: last.update(stream="other")), "HEAD_WRONG", "head.json"),
    (_head_with(lambda held, last: held.update(signer=STRANGER)), "CHECKPOINT_SIGNATURE", "head.json"),
    (_head_with(lambda held, last: held["leaves"].reverse()), "LOG_FORKED", "head.json"),
    (document("head.json", lambda head: head.update(index=1)), "HEAD_WRONG", (FLOW, LAST)),
    (document("head.json", lambda head: head.update(count=4)), "HEAD_WRONG", (FLOW, LAST)),
    (document("head.json", lambda head: head["proof"].pop()), "HEAD_WRONG", (FLOW, LAST)),
    (document("head.json", lambda head: head["head"].update(seq=13)), "HEAD_WRONG", (FLOW, 13)),
    (document("head.json", lambda head: head.update(checkpoint="x")), "UNREADABLE", "head.json"),
    # Signatures.
    (signatures(lambda rows: rows.pop(2)), "SIGNATURE_MISSING", (FLOW, DECIDED)),
    (
        signatures(lambda rows: rows[2].update(signature=rows[1]["signature"])),
        "SIGNATURE_WRONG",
        (FLOW, DECIDED),
    ),
    (signatures(lambda rows: rows[2].update(statement="99" * 32)), "SIGNATURE_MISMATCH", (FLOW, DECIDED)),
    (signatures(lambda rows: rows[2].update(key_id=FIRST.key_id)), "SIGNATURE_MISMATCH", (FLOW, DECIDED)),
    (signatures(lambda rows: rows.append({**rows[2], "seq": 1})), "SIGNATURE_UNNAMED", (FLOW, 1)),
    (signatures(lambda rows: rows.append(rows[2])), "REPEATED", "signatures.jsonl"),
    (signatures(lambda rows: rows[2].update(signature="zz")), "UNREADABLE", "signatures.jsonl"),
    # Keys, payloads, objects.
    (document("keys.json", lambda keys: keys[1].update(key_id="0" * 16)), "KEY_NAME", "keys.json"),
    (document("keys.json", lambda keys: keys.append(keys[0])), "REPEATED", "keys.json"),
    (document("keys.json", lambda keys: keys[0].update(until=moment(-1))), "KEY_WINDOW", ("system", 5)),
    (document("keys.json", lambda keys: keys[0].update(until=5)), "UNREADABLE", "keys.json"),
    (document("keys.json", lambda keys: keys.clear()), "SIGNATURE_KEY", (FLOW, DECIDED)),
    (_weak_key, "KEY_WEAK", "keys.json"),
    (content("payloads.jsonl", lambda held: held[:-1]), "UNREADABLE", "payloads.jsonl"),
    (content("absent.json", lambda held: b'{"x":"lost"}'), "UNREADABLE", "absent.json"),
    (content("keys.json", lambda held: b"[" * 100_000), "UNREADABLE", "keys.json"),
    (content("keys.json", lambda held: b"[" * 200 + b"]" * 200), "UNREADABLE", "keys.json"),
    (content("keys.json", lambda held: b"[NaN]"), "UNREADABLE", "keys.json"),
    (content("keys.json", lambda held: b'["\\ud800"]'), "UNREADABLE", "keys.json"),
]


@pytest.mark.parametrize(("change", "code", "where"), BY_MEMBER)
def test_finds_a_member_that_was_changed_and_signed_again(
    change: Callable[[Members], None], code: str, where: Where
) -> None:
    members = evidence_packs.whole()
    change(members)
    report = report_on(with_manifest(members))
    assert report.exit == 1
    assert where in places(report, code), report.findings


@pytest.mark.parametrize("said", [{"dfid": "another"}, {"tenant": "other"}, {"origin": "dir-console/beef"}])
def test_finds_a_manifest_that_says_it_is_of_something_else(said: dict[str, Any]) -> None:
    assert report_on(with_manifest(evidence_packs.whole(), **said)).exit == 1


def test_finds_a_manifest_that_another_key_has_signed() -> None:
    report = report_on(with_manifest(evidence_packs.whole(), signer=STRANGER))
    assert places(report, "MANIFEST_SIGNATURE") == {"manifest.sig"}


@pytest.mark.parametrize("line", [b"", b"x\n", b"%s %s" % (b"0" * 16, b"0" * 128)])
def test_finds_a_signature_of_the_manifest_in_another_form(line: bytes) -> None:
    report = report_on({**evidence_packs.whole(), "manifest.sig": line})
    assert places(report, "UNREADABLE") == {"manifest.sig"}


def test_names_the_entry_first_and_the_member_with_it() -> None:
    members = evidence_packs.whole()
    digest = evidence_packs.story().entry("escalation:decided")["payload"]["statement_digest"]
    members[f"objects/{digest}"] += b" "
    first, *_ = report_on(members).findings
    assert (first.stream, first.seq, first.member) == (FLOW, DECIDED, f"objects/{digest}")
