"""A golden stream: a whole flow as its version stored it, and what today's code makes of the same bytes.

`differences` makes everything anew that can be made from what is kept: the hash of each entry and its body,
each commitment and digest, each verdict, each DecisionRecord with its hash, its signature and what it is
found by, each scorecard, and what an outcome's entry commits to. It needs no database.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from audit import canonical, chain, signing, told
from audit.events import EVENTS, Kind
from audit.packs import sources
from audit.records import dsse, emission, evaluators, fold
from audit.records.fold import Rules, Said
from audit.sealing import merkle
from audit.sealing.merkle import Frontier
from escalations import evidence_contracts
from runtime.contracts.outcome import RenderedIntent
from runtime.flows.models import Outcome
from runtime.flows.queries import intent_records, judged_rules
from runtime.kernel.gate import pipeline
from tests.golden import history

FOLDER = Path(__file__).parent / "streams"
# Columns of an outcome that hold bytes, kept as text.
OUTCOME_BYTES: Final = ("expected", "deviations", "writes")
OUTCOME_VALUES: Final = ("error_category", "attempts", "duration_ms", "recorded_by")


@dataclass(frozen=True)
class Stream:
    """What is kept of a flow. Canonical JSON is kept as text, so that the file holds the very bytes.

    `entries` are those of the flow, and of the incident that links it where there is one: body and hash.
    `root` is that of a tree with these entries as its leaves, in this order. `objects` are the bytes behind
    the digests that entries name, `payloads` salt and body behind their commitments. `records` has of each
    DecisionRecord the number of its entry, its body, its signature and what it is found by. `outcomes` are
    the rows of outcomes, by intent. `public_key` is the key that signed.
    """

    dfid: str
    public_key: str
    entries: list[dict[str, str]]
    root: str
    objects: dict[str, str]
    payloads: dict[str, dict[str, str]]
    records: list[dict[str, Any]]
    outcomes: dict[str, dict[str, Any]]


def path(name: str) -> Path:
    """Where a stream is kept."""
    return FOLDER / f"{name}.json"


def read(name: str) -> Stream:
    """A stream as it was recorded."""
    return Stream(**json.loads(path(name).read_text(encoding="utf-8")))


def write(name: str, stream: Stream) -> None:
    """Keep a stream; one that is there already is not touched.

    Raises:
        FileExistsError: when the name is taken.
    """
    with path(name).open("x", encoding="utf-8") as file:
        file.write(json.dumps(asdict(stream), indent=1, ensure_ascii=True) + "\n")


def recorded() -> list[str]:
    """The names of all streams."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def bodies(stream: Stream) -> list[dict[str, Any]]:
    """The entries, decoded."""
    return [canonical.decode(entry["body"].encode()) for entry in stream.entries]


def flow_of(stream: Stream) -> list[dict[str, Any]]:
    """The entries of the flow itself, decoded."""
    return [body for body in bodies(stream) if body["stream"] == stream.dfid]


def differences(stream: Stream) -> Iterator[str]:
    """A sentence for each thing that today's code makes otherwise than it is kept; none where all is so."""
    yield from _of_entries(stream)
    yield from _of_what_they_name(stream)
    yield from _of_verdicts(stream)
    yield from _of_documents(stream)
    yield from _of_records(stream)
    yield from _of_outcomes(stream)


def _of_entries(stream: Stream) -> Iterator[str]:
    """Each body is written again, its payload is read and written again, and its hash is made anew."""
    last: dict[str, bytes] = {}
    frontier = Frontier()
    for kept, body in zip(stream.entries, bodies(stream), strict=True):
        place = f"{body['stream']}:{body['seq']}"
        about = {name: body[name] for name in ("tenant", "stream", "seq", "kind", "actor")}
        at = datetime.fromisoformat(body["at"])
        again = chain.body_bytes(**about, at=at, payload=body["payload"])
        if again.decode() != kept["body"]:
            yield f"entry {place}: the body is {again.decode()}, and was {kept['body']}"
        if not history.holds(body["payload"], _payload_again(body["kind"], body["payload"])):
            yield f"entry {place}: its payload is not written again as it was"
        made = chain.entry_hash(last.get(body["stream"], chain.GENESIS_HASH), kept["body"].encode())
        if made.hex() != kept["hash"]:
            yield f"entry {place}: the hash is {made.hex()}, and was {kept['hash']}"
        last[body["stream"]] = made
        frontier.push(merkle.hash_leaf(made))
    if frontier.root().hex() != stream.root:
        yield f"the root over all entries is {frontier.root().hex()}, and was {stream.root}"


def _payload_again(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload as its event writes it, which may have fields more, with what the agent was told."""
    commitments = {name: payload[name] for name in (told.FEEDBACK, told.ANSWERS) if name in payload}
    plain = {name: value for name, value in payload.items() if name not in commitments}
    event = EVENTS[Kind(kind)].model_validate_json(canonical.encode(plain))
    return {**event.payload(), **commitments}


def _of_what_they_name(stream: Stream) -> Iterator[str]:
    """Each digest and commitment that an entry of the flow names is that of what is kept."""
    for digest, text in stream.objects.items():
        if canonical.digest(text.encode()) != digest:
            yield f"the digest of {text} is {canonical.digest(text.encode())}, and was {digest}"
    for commitment, opening in stream.payloads.items():
        made = chain.commitment(bytes.fromhex(opening["salt"]), opening["body"].encode())
        if made != commitment:
            yield f"the commitment to {opening['body']} is {made}, and was {commitment}"
    for body in flow_of(stream):
        named = set(sources.list_named(body["kind"], body["payload"]))
        hidden = {value for _, value in sources.list_commitments(body["payload"])}
        for lacking in sorted((named - stream.objects.keys()) | (hidden - stream.payloads.keys())):
            yield f"entry {body['seq']} names {lacking}, which is not kept"


def _of_verdicts(stream: Stream) -> Iterator[str]:
    for body in _of_kind(stream, Kind.VERDICT_GIVEN):
        given, rules, verdict = (
            stream.objects[body["payload"][name]]
            for name in ("input_digest", "policy_bundle_hash", "verdict_digest")
        )
        again = pipeline.judge_bytes(given.encode(), rules.encode()).decode()
        if again != verdict:
            yield f"the verdict of entry {body['seq']} is {again}, and was {verdict}"


def _of_documents(stream: Stream) -> Iterator[str]:
    """Evidence and requests are read and written back; what a person signed is still signed."""
    public_key = bytes.fromhex(stream.public_key)
    readers: Mapping[str, Callable[[bytes], Any]] = {
        "evidence_hash": evidence_contracts.read_evidence,
        "request_digest": RenderedIntent.from_bytes,
    }
    for body in flow_of(stream):
        for name, read_again in readers.items():
            text = stream.objects.get(str(body["payload"].get(name)))
            if text is not None and read_again(text.encode()).to_bytes().decode() != text:
                yield f"what {name} of entry {body['seq']} names is not written back as it was"
        if digest := body["payload"].get("statement_digest"):
            signature = bytes.fromhex(body["payload"]["signature"])
            if not signing.is_signed(stream.objects[digest].encode(), signature, public_key):
                yield f"the statement of entry {body['seq']} is not signed as it was"


def _of_records(stream: Stream) -> Iterator[str]:
    """Each record is folded from the entries, and each scorecard is made from the record before it."""
    kept = {record["seq"]: record for record in stream.records}
    before: dict[str, Any] | None = None
    prev_hash, since = emission.GENESIS, list[Said]()
    version = next((each["payload"]["fold_version"] for each in _of_kind(stream, Kind.RECORD_EMITTED)), "")
    for body in flow_of(stream):
        seq, payload = body["seq"], body["payload"]
        if body["kind"] == Kind.RECORD_SCORED and before is not None:
            yield from _of_score(seq, payload, before)
        if body["kind"] != Kind.RECORD_EMITTED:
            since.append(Said(seq, body["kind"], body["at"], body["actor"], payload))
            continue
        before = fold.fold(
            dfid=stream.dfid,
            previous=before,
            entries=since,
            rules=lambda said: _rules(stream, said),
            version=version,
        )
        whole = fold.sealed(before, prev_hash=prev_hash, key_id=payload["key_id"])
        yield from _of_record(stream, payload, kept.pop(seq), whole)
        prev_hash, since = whole["audit"]["record_hash"], []
    if due := [said.seq for said in since if fold.is_checkpoint(said.kind, said.payload)]:
        yield f"a record is due after entry {due[-1]}, and none was made"
    yield from (f"no entry emits the record of entry {seq}" for seq in kept)


def _rules(stream: Stream, said: Mapping[str, Any]) -> Rules:
    given, rules, verdict = (
        stream.objects[said[name]].encode()
        for name in ("input_digest", "policy_bundle_hash", "verdict_digest")
    )
    return judged_rules.read(judgement=given, rules=rules, verdict=verdict)


def _of_record(
    stream: Stream, emitted: Mapping[str, Any], kept: Mapping[str, Any], whole: dict[str, Any]
) -> Iterator[str]:
    name, body = emitted["record_id"], canonical.encode(whole)
    if body.decode() != kept["body"]:
        yield f"record {name}: the body is {body.decode()}, and was {kept['body']}"
    if whole["audit"]["record_hash"] != emitted["record_hash"]:
        yield f"record {name}: the hash is {whole['audit']['record_hash']}, and was {emitted['record_hash']}"
    terms = sorted(list(term) for term in emission.terms_of(whole))
    if terms != kept["terms"]:
        yield f"record {name}: it is found by {terms}, and was found by {kept['terms']}"
    statement = dsse.statement(kept["body"].encode())
    signature, public_key = bytes.fromhex(kept["signature"]), bytes.fromhex(stream.public_key)
    if kept["signature"] != emitted["signature"] or not signing.is_signed(statement, signature, public_key):
        yield f"record {name}: it is not signed as it was"


def _of_score(seq: int, said: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    again = evaluators.evaluate(record).plain()
    kept = {name: said[name] for name in again}
    if canonical.encode(again) != canonical.encode(kept):
        yield f"the scorecard of entry {seq} is {again}, and was {kept}"


def _of_outcomes(stream: Stream) -> Iterator[str]:
    for body in _of_kind(stream, Kind.OUTCOME_RECORDED):
        said = body["payload"]
        if said.get("outcome_digest") is None:
            continue
        row = dict(stream.outcomes[said["intent_id"]])
        held = {name: None if row[name] is None else row[name].encode() for name in OUTCOME_BYTES}
        outcome = Outcome(**{**row, **held})
        if intent_records.outcome_bytes(outcome).decode() != stream.objects[said["outcome_digest"]]:
            yield f"what the outcome of entry {body['seq']} commits to is made otherwise"


def _of_kind(stream: Stream, *kinds: Kind) -> Sequence[dict[str, Any]]:
    return [body for body in flow_of(stream) if body["kind"] in kinds]
