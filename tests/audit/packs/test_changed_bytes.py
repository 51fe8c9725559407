"""Whatever bytes it gets: a pack with one byte changed is never whole, and nothing ends in a traceback."""

import io
import json
import struct
import warnings
import zipfile
from functools import cache
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from audit.packs import verify
from audit.packs.verify import CannotJudge, Report
from tests.support import evidence_packs, governed_story
from tests.support.evidence_packs import FLOW, Members, with_manifest

pytestmark = pytest.mark.once

# Every so many bytes one is changed; the verifier in the pack is long, and only its digest counts.
STRIDE = 89


@cache
def members() -> Members:
    kept = evidence_packs.members_of(governed_story.with_gaps())
    return with_manifest({**kept, "verify.py": b"print('whole')\n"})


@cache
def archive() -> bytes:
    return evidence_packs.archive_of(members())


def judge(packed: bytes) -> Report:
    """The report; CannotJudge is one, and any other exception fails the test."""
    try:
        return verify.verify_archive(packed)
    except CannotJudge as error:
        return Report(problem=str(error))


def _positions() -> list[int]:
    """The stride, and every byte of the first header, of the first line of the list, and of the end."""
    whole = archive()
    listed = whole.index(b"PK\x01\x02")
    headers = [*range(60), *range(listed, listed + 80), *range(len(whole) - 30, len(whole))]
    return sorted({*range(0, len(whole), STRIDE), *headers})


@pytest.mark.parametrize("part", range(8))
def test_no_changed_byte_passes(part: int) -> None:
    assert judge(archive()).exit == 0
    for position in _positions()[part::8]:
        changed = bytearray(archive())
        changed[position] ^= 1 << position % 8
        assert judge(bytes(changed)).exit in (1, 2), position


@given(st.data())
def test_no_edited_archive_passes(data: st.DataObject) -> None:
    whole = archive()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 200)))
    put = data.draw(st.binary(max_size=60))
    changed = whole[:start] + put + whole[end:]
    assert judge(changed).exit in ((0,) if changed == whole else (1, 2))


@given(st.binary(max_size=400))
def test_nothing_else_is_a_pack(noise: bytes) -> None:
    assert judge(noise).exit == 2
    ended = noise + b"PK\x05\x06" + noise
    assert judge(ended).exit in (1, 2)


@given(st.sampled_from(sorted(members())), st.data())
def test_no_changed_member_passes_even_under_a_new_manifest(name: str, data: st.DataObject) -> None:
    """Of the pages for people and the verifier itself only the digest is checked, of reasons nothing."""
    content = members()[name]
    start = data.draw(st.integers(0, len(content)))
    changed = (
        content[:start] + data.draw(st.binary(max_size=20)) + content[start + data.draw(st.integers(0, 9)) :]
    )
    others = {**members(), name: changed}
    free = {"report.html", "verify.py", "README.txt"}
    unsigned = name in evidence_packs.UNSIGNED
    report = judge(evidence_packs.archive_of(others if unsigned else with_manifest(others)))
    is_free = name in free or (name == "absent.json" and _names_the_same(changed, content))
    assert report.exit in ((0,) if changed == content or is_free else (1, 2))


def _names_the_same(changed: bytes, content: bytes) -> bool:
    """Whether both say of the same digests, in canonical JSON, that they are absent."""
    try:
        said = json.loads(changed)
        is_canonical = rfc8785.dumps(said) == changed
    except (ValueError, rfc8785.CanonicalizationError):
        return False
    return is_canonical and isinstance(said, dict) and said.keys() == json.loads(content).keys()


@pytest.mark.parametrize("length", [0, 1, 21, 22, 100, -1, -22, -23, -1000])
def test_a_part_of_a_pack_is_not_whole(length: int) -> None:
    assert judge(archive()[:length]).exit == 2


@pytest.mark.parametrize("more", [b"\x00", b"PK\x05\x06", b"x" * 70_000])
def test_what_stands_behind_or_before_a_pack_is_found(more: bytes) -> None:
    assert judge(archive() + more).exit in (1, 2)
    assert judge(more + archive()).exit in (1, 2)


# --- Members ---


@pytest.mark.parametrize("name", sorted(members()))
def test_names_a_member_that_is_gone(name: str) -> None:
    kept = {other: content for other, content in members().items() if other != name}
    report = judge(evidence_packs.archive_of(kept))
    assert report.exit == (2 if name == "manifest.json" else 1)
    assert name == "manifest.json" or name in "\n".join(report.to_text())
    signed_again = judge(evidence_packs.archive_of(with_manifest(kept)))
    optional = name in ("head.json", *evidence_packs.UNSIGNED)
    assert signed_again.exit == (0 if optional else 1)
    assert optional or name in "\n".join(signed_again.to_text())


@pytest.mark.parametrize("name", sorted(members()))
def test_names_a_member_that_was_changed(name: str) -> None:
    report = judge(evidence_packs.archive_of({**members(), name: members()[name] + b"\n"}))
    assert report.exit == 1
    assert name in {finding.member for finding in report.findings}


@pytest.mark.parametrize(
    "name",
    [
        "more.txt",
        "objects/" + "ab" * 32,
        "objects/x",
        "records/99.dsse.json",
        "consistency.json",
        "keys.json.bak",
    ],
)
def test_names_a_member_that_was_added(name: str) -> None:
    report = judge(evidence_packs.archive_of({**members(), name: b"[]"}))
    assert name in {finding.member for finding in report.findings if finding.code == "MEMBER_UNKNOWN"}
    signed_again = judge(evidence_packs.archive_of(with_manifest({**members(), name: b"[]"})))
    assert signed_again.exit == (0 if name == "consistency.json" else 1)


def test_names_what_a_changed_object_belongs_to() -> None:
    digest = governed_story.story().entry("verdict:given")["payload"]["verdict_digest"]
    report = judge(evidence_packs.archive_of({**members(), f"objects/{digest}": b"{}"}))
    assert (FLOW, governed_story.JUDGED) in {
        (found.stream, found.seq) for found in report.findings if found.code == "MEMBER_CHANGED"
    }


# --- Archives that other programs have made ---


def _packed(names: list[str], method: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(held, "w", method) as packed:
        warnings.simplefilter("ignore")  # two members of one name are what a test is about
        for name in names:
            packed.writestr(name, members().get(name, b""))
    return held.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_names_what_is_wrong_in_a_pack_that_was_packed_again(method: int) -> None:
    report = judge(_packed([name for name in members() if name != "head.json"], method))
    codes = {finding.code for finding in report.findings}
    assert codes == {"MEMBER_MISSING", "ARCHIVE_DIFFERS"} | ({"MEMBER_COMPRESSED"} if method else set())


def test_refuses_a_compression_that_it_does_not_read() -> None:
    report = judge(_packed(sorted(members()), zipfile.ZIP_BZIP2))
    assert report.exit in (1, 2)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../b", "\u00e4.txt", "C:\\evil", "a\x1bb"])
def test_refuses_a_name_that_leads_elsewhere(name: str) -> None:
    report = judge(_packed([*members(), name]))
    assert "MEMBER_NAME" in {finding.code for finding in report.findings}
    assert all(line.isprintable() for line in report.to_text())


def test_refuses_two_members_of_one_name() -> None:
    report = judge(_packed([*members(), "keys.json"]))
    assert "MEMBER_REPEATED" in {finding.code for finding in report.findings}


def test_takes_no_more_room_than_a_pack_may_have() -> None:
    """Many members of one place, each as large as the file, or one that says it is larger than it is."""
    whole = bytearray(_packed(["README.txt"]))
    listed = whole.index(b"PK\x01\x02")
    struct.pack_into("<2I", whole, listed + 20, 2**31, 2**31)
    assert judge(bytes(whole)).exit == 2
    line = bytes(archive()[archive().index(b"PK\x01\x02") :][:60])
    assert judge(line * 100).exit == 2


# --- JSON that nobody would write ---


@pytest.mark.parametrize("name", [name for name in sorted(members()) if name.endswith((".json", ".jsonl"))])
@pytest.mark.parametrize(
    "content",
    [b"null", b"[]", b"{}", b"[[]]", b"0", b'""', b"\n", b"{}\n", b"[1]\n", b"[" * 50_000, b"\xff\n"],
)
def test_takes_any_json_for_what_it_is(name: str, content: bytes) -> None:
    others = {**members(), name: content}
    if name == "manifest.json":
        others |= evidence_packs.signed_manifest(content, evidence_packs.NEXT)
        assert judge(evidence_packs.archive_of(others)).exit == 1
    else:
        is_empty = (name, content) in (("absent.json", b"{}"), ("keys.json", b"[]"))
        report = judge(evidence_packs.archive_of(with_manifest(others)))
        assert report.exit == 1
        assert is_empty or name in {finding.member for finding in report.findings}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4
    ),
    st.data(),
)
def test_takes_any_value_in_a_payload_for_what_it_is(value: object, data: st.DataObject) -> None:
    told = data.draw(st.sampled_from([evidence_packs.story, governed_story.story]))()
    entry = data.draw(st.sampled_from([*told.streams[FLOW], *told.streams["system"]]))
    name = data.draw(st.sampled_from(sorted(entry["payload"])))
    is_same = json.dumps(entry["payload"][name]) == json.dumps(value)
    entry["payload"][name] = value
    report = judge(evidence_packs.archive_of(with_manifest(evidence_packs.members_of(told))))
    assert report.exit in ((0,) if is_same else (0, 1))


def test_a_file_is_too_large_before_it_is_read(tmp_path: Path) -> None:
    large = tmp_path / "large.zip"
    with large.open("wb") as file:
        file.truncate(verify.MOST_BYTES + 1)
    assert verify.main([str(large)]) == 2
