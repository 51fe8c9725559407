"""Golden streams: whole flows as they were stored once, made again to the last byte by later versions."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict

from audit import canonical, chain
from audit.events import EVENTS, Event, Kind
from audit.packs import verify
from audit.packs.verify import Brought, Pack
from audit.records import evaluators, fold
from audit.sealing import merkle
from runtime.flows.queries import intent_records, judged_rules
from runtime.kernel.gate import pipeline
from tests.golden import record_streams, scenes, stream
from tests.golden.scenes import Stage
from tests.golden.stream import Stream
from tests.support import evidence_packs

# How each of these flows ended: its status, and kinds of entries that it must have.
EXPECTED = {
    "accepted": ("DECIDED", {Kind.INTENT_CREATED, Kind.ATTEMPT_FINISHED, Kind.OUTCOME_RECORDED}),
    "rejected": ("REJECTED", {Kind.VERDICT_GIVEN, Kind.RECORD_SCORED}),
    "overridden": ("DECIDED", {Kind.ESCALATION_OPENED, Kind.ESCALATION_DECIDED, Kind.OUTCOME_RECORDED}),
    "undone": ("CLOSED", {Kind.SAGA_COMPENSATED, Kind.OUTCOME_RECORDED}),
    "of-an-incident": ("DECIDED", {Kind.OUTCOME_RECORDED, Kind.INCIDENT_OPENED, Kind.INCIDENT_LINKED}),
}


@pytest.mark.parametrize("name", stream.recorded())
def test_everything_is_made_again_as_it_was_stored(name: str) -> None:
    assert list(stream.differences(stream.read(name))) == []


def test_each_scene_is_recorded_and_came_to_what_its_name_says() -> None:
    assert set(scenes.SCENES) == set(EXPECTED) <= set(stream.recorded())
    for name, (status, kinds) in EXPECTED.items():
        kept = stream.read(name)
        last = canonical.decode(kept.records[-1]["body"].encode())
        assert (last["status"], last["terminal"]) == (status, True)
        assert last["scorecard"]["result"] in evaluators.RESULTS
        assert kinds <= {body["kind"] for body in stream.bodies(kept)}


@pytest.mark.parametrize("name", stream.recorded())
def test_the_verifier_folds_the_same_records(name: str) -> None:
    """Its own fold, which shares no line with the one that wrote them."""
    kept = stream.read(name)
    pack = _pack(kept)
    retold = verify.Retold(pack)
    of_entries = {record["seq"]: canonical.decode(record["body"].encode()) for record in kept.records}
    for body in stream.flow_of(kept):
        if body["kind"] == Kind.RECORD_EMITTED:
            retold.version = body["payload"]["fold_version"]
            record = of_entries.pop(body["seq"])
            audit = record.pop("audit")
            assert audit["record_hash"] == body["payload"]["record_hash"]
            assert list(verify._unlike(retold.record(body["seq"] - 1), record, "$")) == []
        retold.take(verify.Entry("default", kept.dfid, body["seq"], b"", b"", b"", 0, (), body))
        if body["kind"] == Kind.RECORD_EMITTED:
            retold.first = body["seq"]
    assert not of_entries


def _pack(kept: Stream) -> Pack:
    members = {f"objects/{digest}": text.encode() for digest, text in kept.objects.items()}
    return Pack(evidence_packs.with_manifest(members, dfid=kept.dfid), None, Brought())


class _Moved(Event):
    """A move that no longer says where from."""

    kind = Kind.FLOW_MOVED
    model_config = ConfigDict(extra="ignore")

    to_state: str
    reason: str


# What a later version could change by mistake, and what is said of it then.
CHANGES: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "another word for a verdict in a record": (
        "record dr_",
        lambda patch: patch.setattr(fold, "DECISIONS", {**fold.DECISIONS, "ACCEPT": "allowed"}),
    ),
    "a record that leaves out a kind of entry": (
        "record dr_",
        lambda patch: patch.delitem(fold._STEPS, Kind.OUTCOME_RECORDED),
    ),
    "a field more in every record": (
        "record dr_",
        lambda patch: patch.setattr(fold, "sealed", _with_a_field_more(fold.sealed)),
    ),
    "the hash of a record over less of it": (
        "record dr_",
        lambda patch: patch.setattr(fold, "_LEFT_OUT", ("prev_hash", "record_hash", "signed_by")),
    ),
    "a chain that hashes the body first": (
        "entry ",
        lambda patch: patch.setattr(chain, "entry_hash", lambda prev, body: _sha256(body + prev)),
    ),
    "entries with their members named otherwise": (
        "entry ",
        lambda patch: patch.setattr(chain, "body_bytes", _renamed(chain.body_bytes)),
    ),
    "an entry of another form": (
        "entry ",
        lambda patch: patch.setattr(stream, "EVENTS", {**EVENTS, Kind.FLOW_MOVED: _Moved}),
    ),
    "leaves without their mark": (
        "the root over all entries",
        lambda patch: patch.setattr(merkle, "hash_leaf", _sha256),
    ),
    "a commitment with its salt at the end": (
        "the commitment to ",
        lambda patch: patch.setattr(chain, "commitment", lambda salt, body: _sha256(body + salt).hex()),
    ),
    "a gate without its rules": (
        "the verdict of entry ",
        lambda patch: patch.setattr(
            pipeline, "STAGES", [each for each in pipeline.STAGES if each.name != "rules"]
        ),
    ),
    "a score of another size": (
        "the scorecard of entry ",
        lambda patch: patch.setattr(evaluators, "WHOLE", 1_000),
    ),
    "an outcome that commits to less": (
        "what the outcome of entry ",
        lambda patch: patch.setattr(intent_records, "outcome_bytes", lambda row: b"{}"),
    ),
    "subjects that are worked out otherwise": (
        "record dr_",
        lambda patch: patch.setattr(judged_rules, "subjects_of", lambda case: {"x": "y"}),
    ),
}


def _sha256(content: bytes) -> bytes:
    return bytes.fromhex(canonical.digest(content))


def _with_a_field_more(sealed: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda record, **fields: sealed({**record, "new": None}, **fields)


def _renamed(body_bytes: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda **fields: body_bytes(**fields).replace(b'"actor":', b'"by":')


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_code_is_named(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them, in at least one of the streams: so none of these comparisons is empty."""
    begins, patch = CHANGES[change]
    with monkeypatch.context() as patched:
        patch(patched)
        said = [each for name in stream.recorded() for each in stream.differences(stream.read(name))]
    assert any(each.startswith(begins) for each in said), said


def test_a_change_of_the_file_is_named() -> None:
    """One character of each part of it."""
    kept = stream.read("overridden")
    digest, text = next(iter(kept.objects.items()))
    commitment, opening = next(iter(kept.payloads.items()))
    first, *entries = kept.entries
    record, *records = kept.records
    for changed in (
        replace(kept, entries=[{**first, "hash": "0" * 64}, *entries]),
        replace(kept, root="0" * 64),
        replace(kept, objects={**kept.objects, digest: f" {text}"}),
        replace(kept, objects={name: held for name, held in kept.objects.items() if name != digest}),
        replace(kept, payloads={**kept.payloads, commitment: {**opening, "body": "null"}}),
        replace(kept, records=[{**record, "body": record["body"].replace("ESCALATED", "DECIDED")}, *records]),
        replace(kept, records=[{**record, "signature": "0" * 128}, *records]),
        replace(kept, records=[{**record, "terms": []}, *records]),
        replace(kept, public_key="0" * 64),
    ):
        assert _said(changed), changed


def _said(changed: Stream) -> list[str]:
    """What is said of a changed stream; that something which it needs is not there says enough, too."""
    found: list[str] = []
    try:
        for said in stream.differences(changed):
            found.append(said)
    except KeyError as error:
        found.append(f"lacks {error}")
    return found


@pytest.fixture
def played(db: None) -> Iterator[Stage]:
    with scenes.stage() as stage:
        yield stage


def test_what_is_stored_today_is_made_again_too(played: Stage) -> None:
    """So the scenes can be recorded, and a stream of today holds all that is compared."""
    for name in scenes.SCENES:
        assert list(stream.differences(scenes.play(name, played))) == [], name


def test_recording_adds_what_is_new_and_names_what_has_changed(
    played: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "streams"
    shutil.copytree(stream.FOLDER, folder)
    monkeypatch.setattr(stream, "FOLDER", folder)
    monkeypatch.setattr(record_streams, "database", nullcontext)
    monkeypatch.setattr(scenes, "stage", lambda: nullcontext(played))
    before = stream.path("accepted").read_bytes()
    stream.path("rejected").unlink()
    assert record_streams.main() == 0
    assert capsys.readouterr().out == "recorded rejected\n"
    assert stream.path("accepted").read_bytes() == before
    with pytest.raises(FileExistsError):
        stream.write("accepted", stream.read("accepted"))
    said = json.loads(before)
    stream.path("accepted").write_text(json.dumps({**said, "root": "0" * 64}))
    assert record_streams.main() == 1
    assert "CHANGED accepted: the root over all entries" in capsys.readouterr().err
