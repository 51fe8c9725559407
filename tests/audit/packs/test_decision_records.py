"""Decision records in a pack: each one that is not what its entries come to is found, whoever signed it."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import rfc8785

from audit.packs import verify
from audit.packs.verify import Report
from tests.support import evidence_packs, governed_story
from tests.support.evidence_packs import (
    FIRST,
    FLOW,
    NEXT,
    STRANGER,
    Members,
    Signer,
    Story,
    envelope,
    opened,
    record_name,
    sha256,
    with_manifest,
)
from tests.support.governed_story import (
    AFTER_DECISION,
    AFTER_END,
    AFTER_QUESTION,
    AFTER_VERDICT,
    ASKED,
    CLOSED,
    DECIDED,
    JUDGED_AGAIN,
    RECORDS,
    changed_at,
    json_path,
    leaves,
    told_with,
    without_object,
)

pytestmark = pytest.mark.once

Path = tuple[str | int, ...]
WHOLE = governed_story.whole()
STORY = governed_story.story()


def report_on(members: Members) -> Report:
    return verify.verify_archive(evidence_packs.archive_of(members))


def places(report: Report, code: str) -> set[int]:
    """The numbers of the flow's entries at which a code was found."""
    return {item.seq for item in report.findings if (item.code, item.stream) == (code, FLOW)}


def codes(report: Report) -> set[str]:
    return {item.code for item in report.findings}


def paths(report: Report) -> set[str]:
    """The places in records that differ from what the entries come to."""
    return {item.detail.partition(" is ")[0] for item in report.findings if item.code == "RECORD_DIFFERS"}


def test_whole_records_are_counted_and_proved() -> None:
    report = report_on(WHOLE)
    assert (report.exit, report.findings, report.counts["records"]) == (0, [], 4)
    assert f"flow {FLOW}, 28 entries, 4 decision records." in next(report.to_text())
    assert sum("decision record" in sentence for sentence in report.proved) == 4
    assert any("subject_ids" in sentence for sentence in report.not_proved)
    assert report.to_json()["counts"]["records"] == 4


def test_a_flow_from_before_records_has_none() -> None:
    report = report_on(evidence_packs.whole())
    assert (report.exit, report.counts["records"]) == (0, 0)
    assert "What the flow came to, as decision records: it has none." in report.not_proved
    assert not any("decision record" in sentence for sentence in report.proved)


def test_a_flow_that_began_before_records_has_one_over_all_of_it() -> None:
    def change(told: Story) -> None:
        kept = {AFTER_DECISION: AFTER_DECISION - 2, AFTER_END: AFTER_END - 2}
        entries = [entry for entry in told.streams[FLOW] if entry["seq"] not in (RECORDS[0], RECORDS[1])]
        for seq, entry in enumerate(entries, start=1):
            entry["seq"] = seq
        told.streams[FLOW] = entries
        told.records = {new: _moved(told.records[old], new) for old, new in kept.items()}
        for seq, record in told.records.items():
            entries[seq - 1]["payload"]["record_id"] = record["record_id"]

    report = report_on(told_with(change))
    assert (report.exit, report.findings, report.counts["records"]) == (0, [], 2)


def _moved(record: dict[str, Any], seq: int) -> dict[str, Any]:
    """The record two numbers earlier, after which there is none but the first."""
    since = 1 if seq == AFTER_DECISION - 2 else AFTER_DECISION - 2
    flow = {**record["flow"], "from_seq": since, "to_seq": seq - 1}
    return {**record, "record_id": f"dr_{governed_story.BARE}_{seq - 1}", "flow": flow}


# --- Other words in a record ---

EVERYWHERE = [(seq, path) for seq in RECORDS for path in leaves(STORY.records[seq])]


def differing(seq: int, record: Any, members: Members = WHOLE) -> set[str]:
    """Where the records differ from what the entries come to, with another one in one place.

    Whoever has signed it: of this question signatures and hashes are no part.
    """
    audit = opened(members[record_name(seq)])["audit"]
    held = envelope({**record, "audit": audit}, NEXT)
    pack = verify.Pack({**members, record_name(seq): held}, None, verify.Brought())
    assert not pack.unreadable
    return {item.detail.partition(" is ")[0] for item in verify.check_folds(pack)}


def put(document: Any, path: Path, value: Any) -> Any:
    """The document with a value in a place."""
    copied = held = json.loads(json.dumps(document))
    for part in path[:-1]:
        held = held[part]
    held[path[-1]] = value
    return copied


def is_in(path: Path, found: set[str]) -> bool:
    """Whether something was found at a path, or below it; of what is not pinned the list is named."""
    where = json_path(path[:2] if path[:2] == ("lineage", "unpinned") else path)
    return any(each.startswith(where) for each in found)


@pytest.mark.parametrize(
    ("seq", "path"), EVERYWHERE, ids=[f"{seq}-{json_path(path)}" for seq, path in EVERYWHERE]
)
def test_finds_another_value_anywhere(seq: int, path: Path) -> None:
    """Also in the subjects: the other records say otherwise."""
    assert is_in(path, differing(seq, changed_at(STORY.records[seq], path)))


@pytest.mark.parametrize("seq", RECORDS)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("more",), 1),
        (("actor", "more"), None),
        (("lineage", "unpinned"), []),
        (("lineage", "unpinned"), ["evaluator_suite", "subject:elsewhere"]),
        (("lineage", "unpinned"), ["subject:account:${params.account}", "evaluator_suite"]),
        (("subject_ids",), "order:881"),
        (("subject_ids",), [""]),
        (("subject_ids",), ["a", "b", "c", "d"]),
        (("subject_ids",), ["a", "a"]),
        (("policy_decisions",), []),
        (("approvals",), {}),
        (("terminal",), 0),
        (("approval_mode_effective",), ["two_persons"]),
        (("flow", "gates"), []),
        (("budget_usage", "tokens"), 120.5),
    ],
)
def test_finds_a_record_of_another_form(seq: int, path: Path, value: Any) -> None:
    assert is_in(path, differing(seq, put(STORY.records[seq], path, value)))


@pytest.mark.parametrize("name", sorted(STORY.records[AFTER_END]))
def test_finds_a_member_that_is_missing(name: str) -> None:
    record = {kept: value for kept, value in STORY.records[AFTER_END].items() if kept != name}
    assert differing(AFTER_END, record) == {f"$.{name}"}


def rewrite(seq: int, **changed: Any) -> Callable[[Story], None]:
    """Other members of a record; its entry and all that follows from them are made anew."""

    def change(told: Story) -> None:
        told.records[seq] |= changed
        said = told.streams[FLOW][seq - 1]["payload"]
        said |= {name: told.records[seq][name] for name in ("record_id", "status", "terminal")}
        said["fold_version"] = told.records[seq]["schema_version"]

    return change


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "DECIDED"},
        {"terminal": True},
        {"record_id": "dr_1"},
        {"approvals": []},
        {"timestamp": evidence_packs.moment(0)},
        {"supersedes": "dr_0"},
    ],
)
def test_finds_other_words_though_who_wrote_them_has_all_the_keys(changed: dict[str, Any]) -> None:
    report = report_on(told_with(rewrite(AFTER_DECISION, **changed)))
    assert report.exit == 1
    assert places(report, "RECORD_DIFFERS") == {AFTER_DECISION}
    assert codes(report) <= {"RECORD_DIFFERS", "RECORD_TERMINAL"}
    first = report.findings[0]
    assert (first.stream, first.seq, first.member) == (FLOW, AFTER_DECISION, record_name(AFTER_DECISION))
    assert first.detail.startswith(f"$.{next(iter(changed))}")


def test_takes_subjects_from_the_records_if_they_all_say_the_same() -> None:
    """The rules' expressions are not evaluated: that is what it says it does not prove."""

    def change(told: Story) -> None:
        for record in told.records.values():
            record["subject_ids"] = ["order:1", "desk:equities"]

    assert report_on(told_with(change)).exit == 0


# --- Other signatures, other places ---

OF_ONE = leaves(opened(WHOLE[record_name(AFTER_DECISION)]))


def rehashed(record: dict[str, Any]) -> dict[str, Any]:
    audit = record["audit"]
    hashed = {**record, "audit": {"prev_hash": audit["prev_hash"]}}
    return {**record, "audit": {**audit, "record_hash": sha256(rfc8785.dumps(hashed))}}


def codes_under_its_entry(record: dict[str, Any], signer: Signer, key_id: str = "") -> set[str]:
    """What is found of a record in the place of another, but for what it says."""
    held = envelope(record, signer, key_id=key_id)
    pack = verify.Pack({**WHOLE, record_name(AFTER_DECISION): held}, None, verify.Brought())
    found = [*verify.check_records(pack), *verify.check_record_chain(pack)]
    assert {item.seq for item in found} <= {AFTER_DECISION}
    return {item.code for item in found}


@pytest.mark.parametrize("path", OF_ONE, ids=map(json_path, OF_ONE))
def test_finds_another_value_under_the_entry_that_was_written(path: Path) -> None:
    """Hashed again or not, signed by the house again, or by a stranger in its name."""
    held = changed_at(opened(WHOLE[record_name(AFTER_DECISION)]), path)
    assert "RECORD_MISMATCH" in codes_under_its_entry(held, NEXT)
    assert "RECORD_SIGNATURE" in codes_under_its_entry(rehashed(held), STRANGER, NEXT.key_id)
    assert "RECORD_MISMATCH" in codes_under_its_entry(rehashed(held), STRANGER, NEXT.key_id)


def test_finds_more_about_the_chain_than_there_is() -> None:
    held = opened(WHOLE[record_name(AFTER_DECISION)])
    held["audit"]["more"] = 1
    assert codes_under_its_entry(held, NEXT) == {"RECORD_MISMATCH"}


def test_finds_the_same_record_signed_by_somebody_else() -> None:
    held = opened(WHOLE[record_name(AFTER_DECISION)])
    assert codes_under_its_entry(held, NEXT) == set()
    assert codes_under_its_entry(held, FIRST) == {"RECORD_MISMATCH"}
    assert codes_under_its_entry(held, STRANGER) == {"RECORD_MISMATCH", "SIGNATURE_KEY"}
    assert codes_under_its_entry(held, STRANGER, NEXT.key_id) == {"RECORD_MISMATCH", "RECORD_SIGNATURE"}


def replaced(content: bytes | None, seq: int = AFTER_DECISION) -> Members:
    """The pack with other bytes in the place of a record, or without it, under a manifest of the house."""
    members = {**WHOLE, record_name(seq): content or b""}
    if content is None:
        del members[record_name(seq)]
    return with_manifest(members)


@pytest.mark.parametrize("seq", RECORDS)
def test_finds_a_record_that_is_gone(seq: int) -> None:
    report = report_on(replaced(None, seq))
    assert places(report, "RECORD_MISSING") == {seq}
    assert record_name(seq) in "\n".join(report.to_text())


@pytest.mark.parametrize("seq", RECORDS)
def test_a_record_that_is_said_to_be_absent_is_not_proved(seq: int) -> None:
    digest = opened(WHOLE[record_name(seq)])["audit"]["record_hash"]
    absent = json.loads(WHOLE["absent.json"]) | {digest: "no longer stored"}
    members = {**WHOLE, "absent.json": rfc8785.dumps(absent)}
    both = report_on(with_manifest(members))
    assert places(both, "RECORD_MISSING") == {seq}
    del members[record_name(seq)]
    report = report_on(with_manifest(members))
    assert (report.exit, report.findings, report.counts["records"]) == (0, [], 3)
    assert f"The decision record of entry {seq}, which is absent: 'no longer stored'." in report.not_proved


def test_finds_records_in_each_others_place() -> None:
    swapped = {
        record_name(AFTER_VERDICT): WHOLE[record_name(AFTER_QUESTION)],
        record_name(AFTER_QUESTION): WHOLE[record_name(AFTER_VERDICT)],
    }
    report = report_on(with_manifest({**WHOLE, **swapped}))
    assert {AFTER_VERDICT, AFTER_QUESTION} <= places(report, "RECORD_MISMATCH")


def test_finds_the_record_of_another_flow() -> None:
    record = json.loads(json.dumps(opened(WHOLE[record_name(AFTER_DECISION)])).replace(FLOW, FLOW[:-1] + "9"))
    report = report_on(replaced(envelope(rehashed(record), NEXT)))
    assert AFTER_DECISION in places(report, "RECORD_MISMATCH")
    assert "$.flow.dfid" in paths(report)


def test_finds_a_record_that_no_entry_emits() -> None:
    for seq in (1, 29, 9):
        report = report_on(with_manifest({**WHOLE, record_name(seq): WHOLE[record_name(AFTER_END)]}))
        assert {item.member for item in report.findings if item.code == "RECORD_UNNAMED"} == {
            record_name(seq)
        }


@pytest.mark.parametrize(
    "name", ["records/x.dsse.json", "records/010.dsse.json", "records/10.json", "records/"]
)
def test_finds_a_member_that_has_not_the_name_of_a_record(name: str) -> None:
    assert report_on(with_manifest({**evidence_packs.whole(), name: b"{}"})).exit == 1


_SIGNATURE = json.loads(WHOLE[record_name(AFTER_DECISION)])["signatures"][0]
_BODY = opened(WHOLE[record_name(AFTER_DECISION)])


@pytest.mark.parametrize(
    "content",
    [
        envelope(_BODY, NEXT, payloadType="application/json"),
        envelope(_BODY, NEXT, signatures=[]),
        envelope(_BODY, NEXT, signatures=[_SIGNATURE, _SIGNATURE]),
        envelope(_BODY, NEXT, signatures=[{**_SIGNATURE, "more": 1}]),
        envelope(_BODY, NEXT, signatures=[{**_SIGNATURE, "sig": "="}]),
        envelope(_BODY, NEXT, signatures=_SIGNATURE),
        envelope(_BODY, NEXT, payload="e30"),
        envelope(_BODY, NEXT, payload=None),
        envelope(_BODY, NEXT, more=1),
        envelope(json.dumps(_BODY).encode(), NEXT),
        envelope(b"[]", NEXT),
        envelope(b"\xff", NEXT),
        envelope({}, NEXT),
        envelope({**_BODY, "audit": {}}, NEXT),
        envelope({**_BODY, "audit": {**_BODY["audit"], "prev_hash": None}}, NEXT),
        WHOLE[record_name(AFTER_DECISION)] + b"\n",
    ],
)
def test_finds_an_envelope_of_another_form(content: bytes) -> None:
    assert places(report_on(replaced(content)), "UNREADABLE") == {AFTER_DECISION}


def claim(seq: int, **said: Any) -> Callable[[Story], None]:
    """Have the entry of a record say something else than the record."""
    return lambda told: told.streams[FLOW][seq - 1]["payload"].update(said)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"record_id": "dr_1"}, "RECORD_MISMATCH"),
        ({"status": "DECIDED"}, "RECORD_MISMATCH"),
        ({"terminal": True}, "RECORD_MISMATCH"),
        ({"terminal": True}, "RECORD_TERMINAL"),
        ({"record_hash": "ab" * 32}, "RECORD_MISMATCH"),
        ({"signature": STRANGER.sign(b"").hex()}, "RECORD_MISMATCH"),
        ({"key_id": STRANGER.key_id}, "RECORD_MISMATCH"),
        ({"key_id": FIRST.key_id}, "RECORD_MISMATCH"),
        ({"fold_version": "9"}, "RECORD_MISMATCH"),
    ],
)
def test_finds_an_entry_that_says_otherwise(said: dict[str, Any], code: str) -> None:
    report = report_on(told_with(claim(AFTER_QUESTION, **said)))
    wanted = AFTER_DECISION if code == "RECORD_TERMINAL" else AFTER_QUESTION
    assert wanted in places(report, code), report.findings


def test_finds_records_that_a_key_of_another_time_has_signed() -> None:
    def change(told: Story) -> None:
        told.sealer = FIRST

    assert places(report_on(told_with(change)), "KEY_WINDOW") == set(RECORDS)


def test_finds_records_that_no_key_of_the_pack_has_signed() -> None:
    def change(told: Story) -> None:
        told.sealer = STRANGER

    assert places(report_on(told_with(change)), "SIGNATURE_KEY") == set(RECORDS)


def test_finds_a_record_that_does_not_go_on_from_the_one_before() -> None:
    """Hashed and signed as it is, in its entry, too."""
    record = opened(WHOLE[record_name(AFTER_QUESTION)])
    cut = rehashed({**record, "audit": {**record["audit"], "prev_hash": "00" * 32}})
    signed = NEXT.sign(evidence_packs.pre_authentication(rfc8785.dumps(cut))).hex()
    said = {"record_hash": cut["audit"]["record_hash"], "signature": signed}
    members = told_with(claim(AFTER_QUESTION, **said))
    report = report_on(with_manifest({**members, record_name(AFTER_QUESTION): envelope(cut, NEXT)}))
    found = [item for item in report.findings if item.seq == AFTER_QUESTION]
    assert ["$.audit.prev_hash" in item.detail for item in found] == [True]


# --- Records that were never written ---


def unrecorded(seq: int) -> Callable[[Story], None]:
    """A record and its entry were never written: the numbers of later entries close up."""

    def change(told: Story) -> None:
        del told.streams[FLOW][seq - 1], told.records[seq]
        for entry in told.streams[FLOW][seq - 1 :]:
            entry["seq"] -= 1
        told.records = {at - (at > seq): record for at, record in told.records.items()}

    return change


@pytest.mark.parametrize(
    ("seq", "checkpoints"),
    [(AFTER_QUESTION, {ASKED}), (AFTER_DECISION, {JUDGED_AGAIN, DECIDED}), (AFTER_END, {CLOSED})],
)
def test_finds_a_checkpoint_without_its_record(seq: int, checkpoints: set[int]) -> None:
    report = report_on(told_with(unrecorded(seq)))
    assert places(report, "RECORD_MISSING") == checkpoints


def test_finds_a_second_end() -> None:
    def change(told: Story) -> None:
        record = told.records[AFTER_END]
        flow = {**record["flow"], "from_seq": AFTER_END, "to_seq": AFTER_END}
        again = {**record, "record_id": f"dr_{governed_story.BARE}_{AFTER_END}", "flow": flow}
        told.emit({**again, "supersedes": record["record_id"]})

    report = report_on(told_with(change))
    assert {(item.code, item.seq) for item in report.findings} == {("RECORD_TERMINAL", AFTER_END + 1)}


# --- What it cannot follow ---


def test_of_a_version_that_it_does_not_know_only_hash_signature_and_chain_are_checked() -> None:
    members = told_with(rewrite(AFTER_DECISION, schema_version="7", approvals=[]))
    report = report_on(members)
    assert (report.exit, report.findings) == (0, [])
    of_it = f"What the decision record of entry {AFTER_DECISION} says: it is of version '7'"
    assert any(sentence.startswith(of_it) for sentence in report.not_proved)
    held = opened(members[record_name(AFTER_DECISION)])
    for signer in (NEXT, STRANGER):
        other = envelope(rehashed({**held, "approvals": ["x"]}), signer)
        found = report_on(with_manifest({**members, record_name(AFTER_DECISION): other}))
        assert places(found, "RECORD_MISMATCH") == {AFTER_DECISION}


def without_rules(told: Story) -> None:
    without_object(told, "verdict:given", "policy_bundle_hash")


def without_verdicts(told: Story) -> None:
    without_object(told, "verdict:given", "verdict_digest")
    digest = told.entry("verdict:given", 1)["payload"]["verdict_digest"]
    told.objects.pop(digest, None)
    told.absent[digest] = "no longer stored"


@pytest.mark.parametrize("without", [without_rules, without_verdicts])
def test_what_follows_from_absent_documents_is_compared_among_the_records(
    without: Callable[[Story], None],
) -> None:
    report = report_on(told_with(without))
    assert (report.exit, report.findings) == (0, [])
    assert any("rules and verdicts that are absent" in sentence for sentence in report.not_proved)


@pytest.mark.parametrize("without", [without_rules, without_verdicts])
@pytest.mark.parametrize("path", leaves(STORY.records[AFTER_END]), ids=json_path)
def test_finds_a_value_that_the_other_records_do_not_have(
    without: Callable[[Story], None], path: Path
) -> None:
    found = differing(AFTER_END, changed_at(STORY.records[AFTER_END], path), packs_without()[without])
    assert is_in(path, found)


@cache
def packs_without() -> dict[Callable[[Story], None], Members]:
    return {without: told_with(without) for without in (without_rules, without_verdicts)}
