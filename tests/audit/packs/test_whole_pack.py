"""A whole pack as a stranger checks it: what is proved, what is not, and what one's own checkpoint adds."""

import copy
import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from audit.packs import verify
from audit.packs.verify import Brought, Report
from tests.support import evidence_packs
from tests.support.evidence_packs import (
    FIRST,
    FLOW,
    NEXT,
    STRANGER,
    Members,
    Story,
    members_of,
    moment,
    with_manifest,
)

pytestmark = pytest.mark.once

LEAVES = evidence_packs.seal(evidence_packs.story()).leaves


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A folder that never saw this project, with the verifier of the pack, and the pack."""
    members = evidence_packs.whole()
    (tmp_path / "pack.zip").write_bytes(evidence_packs.archive_of(members))
    (tmp_path / "verify.py").write_bytes(members["verify.py"])
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "verify.py", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env={}
    )


def report_on(members: Members, **brought: Any) -> Report:
    return verify.verify_members(members, brought=Brought(**brought))


def test_a_stranger_finds_a_whole_pack_whole(apart: Path) -> None:
    done = run(apart, "pack.zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        f"This evidence pack is whole: flow {FLOW}, 14 entries, 0 decision records.\nCheckpoint: 32 entries, "
    )
    proved, _, open_questions = done.stdout.partition("Not proved:\n")
    assert "  - The file is, byte for byte, what its members make.\n" in proved
    for words in (
        "facts were true",
        "keys are those of",
        "another version",
        "after the checkpoint",
        "clock",
        "judged",
        "decision records: it has none",
    ):
        assert words in open_questions


def test_an_unpacked_pack_is_checked_where_it_lies(apart: Path) -> None:
    with zipfile.ZipFile(apart / "pack.zip") as archive:
        archive.extractall(apart / "unpacked")
    done = run(apart / "unpacked")
    assert (done.returncode, done.stderr) == (0, "")
    assert "byte for byte" not in done.stdout
    held = apart / "unpacked" / "mine.txt"
    held.write_bytes(evidence_packs.note(NEXT, LEAVES, moment(500)))
    assert run(apart / "unpacked", "--checkpoint", "mine.txt").returncode == 0
    done = run(apart / "unpacked")
    assert done.returncode == 1
    assert "member mine.txt: MEMBER_UNKNOWN" in done.stdout


def test_a_report_for_programs_is_one_object(apart: Path) -> None:
    done = run(apart, "pack.zip", "--json")
    said = json.loads(done.stdout)
    assert (said["whole"], said["exit"], said["dfid"], said["findings"]) == (True, 0, FLOW, [])
    assert said["checkpoint"] == {
        "size": len(LEAVES),
        "root": evidence_packs.root(LEAVES).hex(),
        "time": moment(500),
        "key_id": NEXT.key_id,
    }
    assert set(said) >= {"origin", "proved", "not_proved", "erased", "absent", "counts"}
    assert list(said["absent"].values()) == ["no longer stored"]
    assert len(said["erased"]) == 1
    assert said["counts"]["entries"] == 14


@pytest.mark.parametrize("json_wanted", [False, True])
def test_a_bad_pack_names_the_first_bad_item(apart: Path, json_wanted: bool) -> None:
    members = evidence_packs.whole()
    digest = evidence_packs.story().entry("escalation:decided")["payload"]["statement_digest"]
    members[f"objects/{digest}"] = b"{}"
    (apart / "pack.zip").write_bytes(evidence_packs.archive_of(members))
    done = run(apart, "pack.zip", *(["--json"] if json_wanted else []))
    assert (done.returncode, done.stderr) == (1, "")
    if json_wanted:
        first = json.loads(done.stdout)["findings"][0]
        assert (first["stream"], first["seq"], first["member"]) == (FLOW, 9, f"objects/{digest}")
        assert set(first) == {"code", "detail", "stream", "seq", "member"}
    else:
        assert done.stdout.startswith(
            "This evidence pack is not whole. The first bad item: "
            f"stream {FLOW}, seq 9, member objects/{digest}: MEMBER_CHANGED, "
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ["none.zip"],
        ["verify.py"],
        ["."],
        [],
        ["pack.zip", "--checkpoint", "none.txt"],
        ["pack.zip", "--checkpoint", "verify.py"],
        ["pack.zip", "--consistency", "verify.py"],
        ["pack.zip", "--key", "none"],
        ["pack.zip", "--key", "pack.zip"],
        ["pack.zip", "--key", "AAAA"],
        ["pack.zip", "--unknown"],
    ],
)
def test_says_when_it_cannot_judge(apart: Path, arguments: list[str]) -> None:
    done = run(apart, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("This cannot be judged. ") or done.stderr.startswith("usage: ")


def test_says_which_format_it_cannot_judge(apart: Path) -> None:
    other = with_manifest(evidence_packs.whole(), format="dir-console-evidence-pack/3")
    (apart / "pack.zip").write_bytes(evidence_packs.archive_of(other))
    done = run(apart, "pack.zip", "--json")
    assert done.returncode == 2
    assert "dir-console-evidence-pack/3" in json.loads(done.stdout)["problem"]


def test_lists_no_more_than_a_hundred_findings() -> None:
    more = {f"more/{number}": b"" for number in range(150)}
    report = report_on({**evidence_packs.whole(), **more})
    assert len(report.to_json()["findings"]) == 100
    assert report.to_json()["counts"]["findings"] == 150
    assert "And 50 more." in list(report.to_text())


def test_is_as_complete_as_the_server_says_without_the_end_of_the_stream() -> None:
    report = report_on(with_manifest(members_of(evidence_packs.story(), with_head=False)))
    assert report.exit == 0
    assert any("complete as the server says" in words for words in report.not_proved)
    cut = evidence_packs.story()
    del cut.streams[FLOW][-1]
    cut.payloads.pop()
    cut.objects = {
        digest: content
        for digest, content in cut.objects.items()
        if content != rfc8785.dumps({"attempts": 1})
    }
    assert report_on(with_manifest(members_of(cut, with_head=False))).exit == 0


def test_a_statement_that_is_hidden_needs_no_signature_here() -> None:
    told = evidence_packs.story()
    digest = told.entry("escalation:first_decided")["payload"]["statement_digest"]
    del told.objects[digest]
    told.absent[digest] = "hidden until the second person has decided"
    members = members_of(told)
    rows = [row for row in evidence_packs.rows_of(members, "signatures.jsonl") if row["statement"] != digest]
    report = report_on(with_manifest({**members, "signatures.jsonl": evidence_packs.jsonl(rows)}))
    assert report.exit == 0
    assert any(digest in words and "second person" in words for words in report.not_proved)


def test_a_payload_may_be_absent() -> None:
    told = evidence_packs.story()
    gone = told.payloads.pop(0)
    told.absent[gone["commitment"]] = "the stored bytes do not match the ledger"
    assert report_on(with_manifest(members_of(told))).exit == 0


def test_the_first_key_may_have_signed_before_it_began() -> None:
    told = evidence_packs.story()
    told.keys = [(NEXT, 400, None)]
    told.streams["system"] = []
    told.add("signing_key:begun", "system", evidence_packs.begun(NEXT, None, vouching=None), stream="system")
    told.streams["system"][-1] |= {"seq": 5, "at": moment(400)}
    assert report_on(with_manifest(members_of(told))).exit == 0


def _unvouched(told: Story) -> None:
    payload = evidence_packs.begun(NEXT, FIRST, vouching=None)
    told.streams["system"][1]["payload"] = payload


def test_a_key_that_the_one_before_has_not_signed_is_named_as_not_proved() -> None:
    report = report_on(evidence_packs.told_with(_unvouched))
    assert report.exit == 0
    assert any(NEXT.key_id in words and FIRST.key_id in words for words in report.not_proved)


# --- With a checkpoint or a key from elsewhere ---


def held(size: int, *, signer: Any = NEXT, leaves: Sequence[bytes] = LEAVES, **how: Any) -> verify.Note:
    """A checkpoint that somebody got earlier or elsewhere."""
    return verify.read_note(evidence_packs.note(signer, leaves[:size], moment(400), **how))


def proofs(smaller: int, larger: int, leaves: Sequence[bytes] = LEAVES) -> dict[tuple[int, int], list[bytes]]:
    return {(smaller, larger): evidence_packs.consistency(leaves[:larger], smaller)}


def test_a_checkpoint_of_the_same_log_is_compared() -> None:
    report = report_on(evidence_packs.whole(), note=held(32))
    assert report.exit == 0
    assert any("the checkpoint that you gave" in words.lower() for words in report.proved)
    assert not any("--checkpoint" in words for words in report.not_proved)


def test_an_earlier_checkpoint_is_compared_by_a_proof() -> None:
    for size in (1, 7, 16, 31):
        assert report_on(evidence_packs.whole(), note=held(size), proofs=proofs(size, 32)).exit == 0
    assert report_on(evidence_packs.whole(), note=held(0)).exit == 0


def test_a_later_checkpoint_is_compared_by_a_proof() -> None:
    later = [*LEAVES, b"later", b"and later"]
    brought = {"note": held(34, leaves=later), "proofs": proofs(32, 34, later)}
    assert report_on(evidence_packs.whole(), **brought).exit == 0


def test_the_pack_may_bring_the_proof() -> None:
    rows: list[Any] = [{"from": 7, "to": 32, "proof": [one.hex() for one in proofs(7, 32)[7, 32]]}]
    members = with_manifest({**evidence_packs.whole(), "consistency.json": rfc8785.dumps(rows)})
    assert report_on(members, note=held(7)).exit == 0


def test_without_a_proof_it_says_where_to_get_one() -> None:
    report = report_on(evidence_packs.whole(), note=held(7))
    assert report.exit == 2
    assert "/api/v1/audit/proofs/consistency?from=7&to=32" in report.problem
    assert not any("checkpoint that you gave" in words.lower() for words in report.proved)


def test_a_proof_is_read_as_the_api_answers_it(apart: Path) -> None:
    (apart / "mine.txt").write_bytes(evidence_packs.note(NEXT, LEAVES[:7], moment(400)))
    answer: dict[str, Any] = {"from": 7, "to": 32, "from_root": "", "to_root": "", "hashes": []}
    answer["hashes"] = [one.hex() for one in proofs(7, 32)[7, 32]]
    (apart / "proof.json").write_text(json.dumps(answer), encoding="utf-8")
    arguments = ["pack.zip", "--checkpoint", "mine.txt", "--consistency", "proof.json"]
    assert run(apart, *arguments).returncode == 0
    (apart / "proof.json").write_text(
        json.dumps({**answer, "hashes": answer["hashes"][1:]}), encoding="utf-8"
    )
    assert run(apart, *arguments).returncode == 1


OTHERS = [b"other", *LEAVES[1:]]


@pytest.mark.parametrize(
    ("brought", "code"),
    [
        ({"note": held(32, leaves=OTHERS)}, "LOG_FORKED"),
        ({"note": held(7, leaves=OTHERS), "proofs": proofs(7, 32)}, "LOG_FORKED"),
        ({"note": held(7), "proofs": {(7, 32): proofs(7, 32)[7, 32][1:]}}, "LOG_FORKED"),
        ({"note": held(7), "proofs": {(7, 32): []}}, "LOG_FORKED"),
        ({"note": held(0), "proofs": {(0, 32): [bytes(32)]}}, "LOG_FORKED"),
        ({"note": held(32, signer=STRANGER)}, "CHECKPOINT_KEY"),
        ({"note": held(32, origin="dir-console/beef")}, "CHECKPOINT_ORIGIN"),
        ({"note": held(7, signer=STRANGER)}, "CHECKPOINT_KEY"),
        ({"note": held(7, origin="dir-console/beef")}, "CHECKPOINT_ORIGIN"),
        ({"keys": {STRANGER.key_id: STRANGER.public_key}}, "CHECKPOINT_KEY"),
        ({"keys": {FIRST.key_id: FIRST.public_key}}, "CHECKPOINT_KEY"),
    ],
)
def test_finds_what_does_not_agree_with_what_one_has(brought: dict[str, Any], code: str) -> None:
    report = report_on(evidence_packs.whole(), **brought)
    assert report.exit == 1
    assert {finding.code for finding in report.findings} == {code}


BEFORE, OTHER_BEFORE = (f"previous {evidence_packs.text64(bytes([n]) * 32)}" for n in (1, 2))


def _chained(*, at: int, size: int = 32) -> bytes:
    return evidence_packs.note(NEXT, LEAVES[:size], moment(at), BEFORE)


def test_another_successor_of_the_same_checkpoint_is_a_fork_also_where_the_entries_agree() -> None:
    members = with_manifest({**evidence_packs.whole(), "checkpoint.txt": _chained(at=400)})
    assert report_on(members, note=verify.read_note(_chained(at=400))).exit == 0
    for theirs, given in ((_chained(at=401), {}), (_chained(at=401, size=7), proofs(7, 32))):
        report = report_on(members, note=verify.read_note(theirs), proofs=given)
        assert [finding.code for finding in report.findings] == ["CHAIN_FORKED"]
    other = evidence_packs.note(NEXT, LEAVES[:32], moment(401), OTHER_BEFORE)
    assert report_on(members, note=verify.read_note(other)).exit == 0


def test_another_successor_in_the_head_of_the_pack_is_a_fork() -> None:
    members = dict(evidence_packs.whole())
    head = json.loads(members["head.json"])
    said = head["checkpoint"].partition("\n\n")[0]
    head["checkpoint"] = evidence_packs.signed_note(f"{said}\n{BEFORE}\n", NEXT).decode()
    members["head.json"] = rfc8785.dumps(head)
    for ours, codes in (
        (evidence_packs.note(NEXT, LEAVES[:32], moment(400), OTHER_BEFORE), []),
        (_chained(at=401), ["CHAIN_FORKED"]),
    ):
        report = report_on(with_manifest({**members, "checkpoint.txt": ours}))
        assert [finding.code for finding in report.findings] == codes


def test_a_key_that_the_first_has_vouched_for_goes_on_from_its_checkpoint() -> None:
    brought = {"note": held(7, signer=FIRST), "proofs": proofs(7, 32)}
    assert report_on(evidence_packs.whole(), **brought).exit == 0


def test_a_key_that_nobody_has_vouched_for_cannot_go_on_from_a_checkpoint() -> None:
    """Else anybody who has a whole log could go on with it under a key of their own."""
    told = copy.deepcopy(evidence_packs.story())
    _unvouched(told)
    leaves = evidence_packs.seal(told).leaves
    brought = {"note": held(7, signer=FIRST, leaves=leaves), "proofs": proofs(7, 32, leaves)}
    report = report_on(with_manifest(members_of(told)), **brought)
    assert report.exit == 2
    assert "--key" in report.problem
    known = {"keys": {NEXT.key_id: NEXT.public_key}}
    assert report_on(with_manifest(members_of(told)), **brought, **known).exit == 0


@pytest.mark.parametrize("form", ["base64", "file", "keys.json", "api"])
def test_a_key_is_taken_in_every_form_in_which_one_gets_it(apart: Path, form: str) -> None:
    encoded = evidence_packs.text64(NEXT.public_key)
    rows = [{"key_id": NEXT.key_id, "public_key": encoded, "from": moment(0), "until": None}]
    given = {
        "base64": encoded,
        "file": f"{encoded}\n",
        "keys.json": json.dumps(rows),
        "api": json.dumps({"origin": evidence_packs.ORIGIN, "keys": rows}),
    }[form]
    (apart / "key").write_text(given, encoding="utf-8")
    done = run(apart, "pack.zip", "--key", encoded if form == "base64" else "key")
    assert done.returncode == 0
    assert "The checkpoint is signed by the key that you gave." in done.stdout
