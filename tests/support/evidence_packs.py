"""Evidence packs made from scratch: keys of `cryptography`, a naive tree, Python's own ZIP writer.

Nothing here is the code that checks packs, so that the two can disagree. A `Story` is what a house with all
the keys could have recorded; `members_of` makes the members of its pack, which `with_manifest` signs.
"""

import base64
import copy
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import rfc8785
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.packs import verify

ORIGIN = "dir-console/5f0c"
TENANT = "default"
FLOW = "0198c0de-0000-7000-8000-000000000001"
ESCALATION = "0198c0de-0000-7000-8000-00000000000e"
PROPOSED, CHANGED = "0198c0de-0000-7000-8000-00000000000a", "0198c0de-0000-7000-8000-00000000000b"
INTENT = "0198c0de-0000-7000-8000-00000000000c"
AGENT, OPERATOR, SECOND = "agent:buyer", "user:7", "user:8"
BEGAN = datetime(2026, 11, 23, 10, tzinfo=UTC)
RECORD_TYPE = "application/vnd.dir-console.decision-record+json"
VERIFIER = Path(verify.__file__).read_bytes()
UNSIGNED = ("manifest.json", "manifest.sig")

Members = dict[str, bytes]


def moment(seconds: float, *, timespec: str = "microseconds") -> str:
    """The time so long after the beginning, as entries write it."""
    at = BEGAN + timedelta(seconds=seconds)
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass(frozen=True)
class Signer:
    """A key pair; the same number makes the same one."""

    number: int

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes([self.number]) * 32)

    @property
    def public_key(self) -> bytes:
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        return self._private.public_key().public_bytes(*raw)

    @property
    def key_id(self) -> str:
        return sha256(self.public_key)[:16]

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)


FIRST, NEXT, STRANGER = Signer(1), Signer(2), Signer(3)
ROTATED_AT = 100.5


def note(signer: Signer, leaves: Sequence[bytes], at: str, *extensions: str, origin: str = ORIGIN) -> bytes:
    """A signed checkpoint over these leaves."""
    lines = (origin, str(len(leaves)), text64(root(leaves)), f"time {at}", *extensions)
    return signed_note("".join(f"{line}\n" for line in lines), signer, origin=origin)


def signed_note(text: str, signer: Signer, *, origin: str = ORIGIN) -> bytes:
    key_hash = hashlib.sha256(origin.encode() + b"\n\x01" + signer.public_key).digest()[:4]
    return f"{text}\n\u2014 {origin} {text64(key_hash + signer.sign(text.encode()))}\n".encode()


# --- The tree, as the definition in RFC 9162 reads ---


def root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves with this content."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = _split(len(leaves))
    return hashlib.sha256(b"\x01" + root(leaves[:split]) + root(leaves[split:])).digest()


def inclusion(leaves: Sequence[bytes], index: int) -> list[bytes]:
    if len(leaves) <= 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion(leaves[:split], index), root(leaves[split:])]
    return [*inclusion(leaves[split:], index - split), root(leaves[:split])]


def consistency(leaves: Sequence[bytes], size: int, *, is_known: bool = True) -> list[bytes]:
    if size == len(leaves):
        return [] if is_known else [root(leaves)]
    split = _split(len(leaves))
    if size <= split:
        return [*consistency(leaves[:split], size, is_known=is_known), root(leaves[split:])]
    return [*consistency(leaves[split:], size - split, is_known=False), root(leaves[:split])]


def _split(size: int) -> int:
    power = 1
    while power * 2 < size:
        power *= 2
    return power


# --- What happened ---


@dataclass
class Story:
    """Entries by stream, what they name, and the keys in their order with the second at which each began.

    Change anything before `members_of`: the hashes, proofs and signatures that follow from it are made anew.
    """

    streams: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    payloads: list[dict[str, Any]] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    keys: list[tuple[Signer, float, float | None]] = field(default_factory=list)
    signed_at: float = 500
    # Decision records without their `audit` part, by the number of their entry, and who signs them.
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    sealer: Signer = NEXT

    def next_at(self, stream: str = FLOW, *, together: bool = False) -> float:
        """The second of the next entry: one after the one before, or the same as it."""
        entries = self.streams.get(stream, [])
        if not together or not entries:
            return 201 + len(entries)
        return (datetime.fromisoformat(entries[-1]["at"]) - BEGAN).total_seconds()

    def add(
        self,
        kind: str,
        actor: str,
        payload: Mapping[str, Any],
        *,
        stream: str = FLOW,
        together: bool = False,
    ) -> None:
        """Add an entry at the end of a stream, one second after the one before, or together with it."""
        at = self.next_at(stream, together=together)
        entries = self.streams.setdefault(stream, [])
        place = {"tenant": TENANT, "stream": stream, "seq": len(entries) + 1, "at": moment(at)}
        entries.append({**place, "kind": kind, "actor": actor, "payload": dict(payload)})

    def emit(self, record: Mapping[str, Any]) -> None:
        """Add a decision record, together with the entry before; its hash and signature are made later."""
        said = {name: record[name] for name in ("record_id", "status", "terminal")}
        entries = self.streams[FLOW]
        self.records[len(entries) + 1] = dict(record)
        payload = {**said, "fold_version": record["schema_version"]}
        self.add("record:emitted", entries[-1]["actor"], payload, together=True)

    def named(self, document: Any) -> str:
        """Store a document as an object; returns its digest."""
        content = document if isinstance(document, bytes) else rfc8785.dumps(document)
        self.objects[sha256(content)] = content
        return sha256(content)

    def kept(self, document: Any) -> str:
        """Store a document as a payload; returns its commitment."""
        salt, body = hashlib.sha256(str(len(self.payloads)).encode()).digest(), rfc8785.dumps(document)
        commitment = sha256(salt + body)
        self.payloads.append({"commitment": commitment, "salt": text64(salt), "body": text64(body)})
        return commitment

    def entry(self, kind: str, nth: int = 0) -> dict[str, Any]:
        """The nth entry of a kind."""
        return [entry for entries in self.streams.values() for entry in entries if entry["kind"] == kind][nth]

    def document(self, kind: str, name: str, nth: int = 0) -> Any:
        """The document that the nth entry of a kind names in the field `name`."""
        return json.loads(self.objects[self.entry(kind, nth)["payload"][name]])

    def rename(self, kind: str, name: str, document: Any, nth: int = 0) -> None:
        """Have an entry name another document, signed anew where it is a statement."""
        payload = self.entry(kind, nth)["payload"]
        del self.objects[payload[name]]
        payload[name] = self.named(document)
        if name == "statement_digest":
            payload["signature"] = NEXT.sign(self.objects[payload[name]]).hex()

    def rewrite(self, kind: str, name: str, nth: int = 0, **changed: Any) -> None:
        """Have an entry name the same document with other members."""
        self.rename(kind, name, {**self.document(kind, name, nth), **changed}, nth)


def begun(signer: Signer, previous: Signer | None, *, vouching: Signer | None, **said: Any) -> dict[str, Any]:
    """The payload of the entry that begins a key."""
    words = {
        "key_id": signer.key_id,
        "public_key": text64(signer.public_key),
        "previous": previous.key_id if previous else "",
        **said,
    }
    signed = rfc8785.dumps({"type": "dir-console/signing-key", "origin": ORIGIN, **words})
    vouched = vouching.sign(signed).hex() if vouching else ""
    return {**words, "origin": ORIGIN, "signature": signer.sign(signed).hex(), "previous_signature": vouched}


def proposal(proposal_id: str, author: str, quantity: int, context_ref: str) -> dict[str, Any]:
    """The document of a proposal."""
    return {
        "proposal_id": proposal_id,
        "author": author,
        "policy_kind": "BUY",
        "dfid": FLOW,
        "tenant": TENANT,
        "params": {"quantity": quantity, "price": 12.5, "symbol": "\u00c4\U0001f600\ufb01"},
        "context_ref": context_ref,
    }


def judge(
    story: Story,
    document: Mapping[str, Any],
    decision: str,
    findings: Sequence[Any],
    by: str,
    *,
    bundle: Any = None,
    impact: str = "CRITICAL",
    **verdict_says: Any,
) -> None:
    """A proposal and its verdict, in one transaction."""
    rules = story.named(bundle or {"kind": "BUY", "rules": []})
    params, explain = story.kept(document["params"]), story.kept("The trend is clear.")
    story.add(
        "proposal:submitted",
        by,
        {
            "proposal_id": document["proposal_id"],
            "author": document["author"],
            "policy_kind": "BUY",
            "policy_version": "1.0.0",
            "proposal_digest": story.named(document),
            "params_commitment": params,
            "explain_commitment": explain,
            "context_ref": document["context_ref"],
            "valid_until": moment(900),
        },
    )
    verdict = {"gate_version": "2", "decision": decision, "impact": impact, "findings": findings}
    verdict |= verdict_says
    judged = {"proposal": document, "facts": {"price": 12.5}, "now_ms": 1, "rules_digest": rules}
    against = [item for outcome in ("FAIL", "REFER") for item in findings if item["outcome"] == outcome]
    story.add(
        "verdict:given",
        by,
        {
            "proposal_id": document["proposal_id"],
            "verdict": decision,
            "reasons": [{"check": item["check"], "code": item["code"]} for item in against],
            "input_digest": story.named({**judged, "gate_version": "2"}),
            "verdict_digest": story.named(verdict),
            "policy_bundle_hash": rules,
            "gate_version": "2",
            "impact": impact,
        },
        together=bundle is not None,
    )


def state(
    story: Story,
    kind: str,
    who: tuple[str, str],
    when: str,
    stated: Any,
    payload: Any,
    *,
    together: bool = False,
) -> str:
    """Add the entry of a signed statement; returns its digest."""
    role, actor = who
    at = moment(story.next_at(together=together), timespec="milliseconds")
    place = {"tenant": TENANT, "dfid": FLOW, "escalation_id": ESCALATION}
    statement = {**place, role: actor, when: at, "nonce": "00" * 16, **stated}
    digest = story.named(statement)
    signed = {
        "statement_digest": digest,
        "key_id": NEXT.key_id,
        "signature": NEXT.sign(story.objects[digest]).hex(),
    }
    story.add(kind, actor, {"escalation_id": ESCALATION, **payload, **signed}, together=together)
    return digest


def evidence_of(story: Story, revision: int, **said: Any) -> str:
    """The digest of a revision of what people are shown."""
    about = {"escalation_id": ESCALATION, "revision": revision, "family": "DECISION", "reason": "LIMIT"}
    return story.named({**about, "impact": "CRITICAL", "dfid": FLOW, **said})


def _decide(story: Story, evidence: str) -> None:
    choice = {
        "action": "MODIFY",
        "params": {"quantity": 5, "price": 12.5, "symbol": "\u00c4\U0001f600\ufb01"},
    }
    decided = {
        "type": "dir-console/decision/1",
        "revision": 2,
        "evidence_hash": evidence,
        "impact": "CRITICAL",
    }
    decided |= {"action": "MODIFY", "params": choice["params"], "choice": choice, "proposal_id": None}
    payload = {"sequence": 1, "revision": 2, "evidence_hash": evidence}
    by_first, by_second = ("approver", OPERATOR), ("approver", SECOND)
    first = state(
        story, "escalation:first_decided", by_first, "decided_at", {**decided, "part": "1 of 2"}, payload
    )
    second = {**decided, "part": "2 of 2", "confirms": first, "proposal_id": CHANGED}
    payload |= {"sequence": 2, "action": "MODIFY", "proposal_id": CHANGED, "effect": None}
    state(story, "escalation:decided", by_second, "decided_at", second, payload)


def story() -> Story:
    """A flow with everything in it: two keys, a question, two people, a call in doubt."""
    told = Story(keys=[(FIRST, 0, 200), (NEXT, ROTATED_AT, None)])
    told.add("flow:opened", AGENT, {"agent_id": "buyer", "trigger_commitment": told.kept({"why": "price"})})
    context = told.named({"facts": {"price": 12.5}})
    told.add("context:compiled", AGENT, {"context_ref": f"sha256:{context}", "fact_count": 1})
    referred = [
        {"check": "schema", "outcome": "PASS", "code": ""},
        {"check": "limits", "outcome": "REFER", "code": "LIMIT"},
        {"check": "hours", "outcome": "FAIL", "code": "CLOSED"},
    ]
    judge(told, proposal(PROPOSED, AGENT, 10, context), "ESCALATE", referred, AGENT)
    opened = {"escalation_id": ESCALATION, "family": "DECISION", "reason": "LIMIT", "impact": "CRITICAL"}
    evidence = evidence_of(told, 1)
    told.add("escalation:opened", AGENT, {**opened, "revision": 1, "evidence_hash": evidence})
    until = {"until": moment(600, timespec="milliseconds")}
    question = {"type": "dir-console/question/1", "number": 1, "question": "Why now?", **until}
    state(
        told,
        "information:requested",
        ("asked_by", OPERATOR),
        "asked_at",
        {**question, "revision": 1, "evidence_hash": evidence},
        {
            "number": 1,
            "text_commitment": told.kept("Why now?"),
            "revision": 1,
            "evidence_hash": evidence,
            "until": moment(600),
        },
    )
    evidence = evidence_of(told, 2, answer="It is cheap.")
    revised = {"escalation_id": ESCALATION, "revision": 2, "evidence_hash": evidence, "why": "answered"}
    told.add("escalation:revised", AGENT, revised)
    _decide(told, evidence)
    judge(told, proposal(CHANGED, SECOND, 5, evidence), "ACCEPT", [], SECOND)
    requests = told.named(
        {"steps": [{"step": "buy", "target": "broker"}, {"step": "book", "target": "bank"}]}
    )
    created = {"intent_id": INTENT, "proposal_id": CHANGED, "step_ids": ["buy", "book"]}
    told.add("intent:created", SECOND, {**created, "request_digest": requests})
    call = {"intent_id": INTENT, "number": 1, "step": "buy", "direction": "FORWARD", "effect": "HAPPENED"}
    effect = {"type": "dir-console/effect/1", "evidence_hash": evidence, "justification": "seen", **call}
    state(told, "effect:stated", ("approver", OPERATOR), "stated_at", effect, {**call, "contradicts": None})
    outcome = {"intent_id": INTENT, "status": "SUCCEEDED", "receipt_commitment": told.kept({"id": 4711})}
    told.add("outcome:recorded", "system", {**outcome, "outcome_digest": told.named({"attempts": 1})})
    # Erased: why the first proposal was made. Absent: the rules, which both verdicts name.
    erased = told.entry("proposal:submitted")["payload"]["explain_commitment"]
    told.payloads = [
        {"commitment": erased, "erased": True} if row["commitment"] == erased else row
        for row in told.payloads
    ]
    rules = told.entry("verdict:given")["payload"]["policy_bundle_hash"]
    del told.objects[rules]
    told.absent[rules] = "no longer stored"
    for (signer, at, _), before, seq in zip(told.keys, (None, FIRST), (5, 9), strict=True):
        told.add("signing_key:begun", "system", begun(signer, before, vouching=before), stream="system")
        told.streams["system"][-1] |= {"seq": seq, "at": moment(at)}
    return told


# --- Its pack ---


@dataclass
class Sealed:
    """The entries of a story as leaves of a tree, with the lines that `entries.jsonl` has for them."""

    lines: list[dict[str, Any]]
    leaves: list[bytes]


def seal(told: Story) -> Sealed:
    """Chain the entries of each stream, and make leaves of them among those of others."""
    placed = []
    for entries in told.streams.values():
        prev_hash = bytes(32)
        for body in entries:
            # Of another stream than the flow's only single entries are there, far behind its beginning.
            before = (
                prev_hash if body["stream"] == FLOW else hashlib.sha256(str(body["seq"]).encode()).digest()
            )
            content = rfc8785.dumps(body)
            prev_hash = hashlib.sha256(before + content).digest()
            line = {name: body[name] for name in ("tenant", "stream", "seq")}
            line |= {"body": text64(content), "prev_hash": before.hex(), "hash": prev_hash.hex()}
            placed.append((body["at"], line))
    leaves: list[bytes] = []
    for number, (_, line) in enumerate(sorted(placed, key=lambda pair: pair[0])):
        leaves += [hashlib.sha256(b"another" + bytes([number, nth])).digest() for nth in range(number % 3)]
        line["leaf_index"] = len(leaves)
        leaves.append(bytes.fromhex(line["hash"]))
    leaves.append(hashlib.sha256(b"the last").digest())
    for _, line in placed:
        line["proof"] = [beside.hex() for beside in inclusion(leaves, line["leaf_index"])]
    return Sealed([line for _, line in placed], leaves)


def jsonl(rows: Sequence[Any]) -> bytes:
    return b"".join(rfc8785.dumps(row) + b"\n" for row in rows)


def rows_of(members: Mapping[str, bytes], name: str) -> list[Any]:
    """The rows of a member of lines."""
    return [json.loads(line) for line in members[name].splitlines()]


def members_of(told: Story, *, signer: Signer = NEXT, with_head: bool = True) -> Members:
    """The members of the pack of a story, without a manifest."""
    records = seal_records(told)
    sealed = seal(told)
    signatures = [
        {
            "stream": line["stream"],
            "seq": line["seq"],
            "statement": payload["statement_digest"],
            "signature": payload["signature"],
            "key_id": payload["key_id"],
        }
        for line in sealed.lines
        if "statement_digest" in (payload := json.loads(base64.b64decode(line["body"]))["payload"])
    ]
    keys = [
        {
            "key_id": key.key_id,
            "public_key": text64(key.public_key),
            "from": moment(since),
            "until": None if until is None else moment(until),
        }
        for key, since, until in told.keys
    ]
    members = {
        "checkpoint.txt": note(signer, sealed.leaves, moment(told.signed_at)),
        "keys.json": rfc8785.dumps(keys),
        "entries.jsonl": jsonl(sealed.lines),
        "payloads.jsonl": jsonl(told.payloads),
        "absent.json": rfc8785.dumps(told.absent),
        "signatures.jsonl": jsonl(signatures),
        "report.html": b"<!doctype html><title>Report</title>",
        "verify.py": VERIFIER,
        "README.txt": b"Run python3 -I verify.py\n",
        **{f"objects/{digest}": content for digest, content in told.objects.items()},
        **records,
    }
    if with_head:
        last = [line for line in sealed.lines if line["stream"] == FLOW][-1]
        members["head.json"] = rfc8785.dumps(head_of(last, sealed.leaves, signer, at=told.signed_at))
    return members


def seal_records(told: Story) -> Members:
    """The envelopes of the records of a story; what their entries say of them follows from that."""
    envelopes, before = {}, "00" * 32
    for entry in told.streams[FLOW]:
        record = told.records.get(entry["seq"])
        if record is None:
            continue
        whole = {**record, "audit": {"prev_hash": before}}
        before = sha256(rfc8785.dumps(whole))
        whole["audit"] |= {"record_hash": before, "signed_by": told.sealer.key_id}
        envelopes[record_name(entry["seq"])] = envelope(whole, told.sealer)
        signature = told.sealer.sign(pre_authentication(rfc8785.dumps(whole))).hex()
        signed = {"record_hash": before, "signature": signature, "key_id": told.sealer.key_id}
        entry["payload"] = {**signed, **entry["payload"]}
    return envelopes


def record_name(seq: int) -> str:
    return f"records/{seq}.dsse.json"


def pre_authentication(body: bytes) -> bytes:
    """What is signed in an envelope, as the specification of DSSE writes it."""
    parts = (b"DSSEv1", str(len(RECORD_TYPE)).encode(), RECORD_TYPE.encode(), str(len(body)).encode(), body)
    return b" ".join(parts)


def envelope(record: Any, signer: Signer, *, key_id: str = "", **changed: Any) -> bytes:
    """The DSSE envelope of a record; `record` may be bytes."""
    body = record if isinstance(record, bytes) else rfc8785.dumps(record)
    signed = {"keyid": key_id or signer.key_id, "sig": text64(signer.sign(pre_authentication(body)))}
    said = {"payload": text64(body), "payloadType": RECORD_TYPE, "signatures": [signed], **changed}
    return rfc8785.dumps(said)


def opened(held: bytes) -> dict[str, Any]:
    """The record in an envelope."""
    record: dict[str, Any] = json.loads(base64.b64decode(json.loads(held)["payload"]))
    return record


def head_of(last: Mapping[str, Any], leaves: Sequence[bytes], signer: Signer, *, at: float) -> dict[str, Any]:
    """The head of a stream that ends with this line, committed to beside those of two others."""
    heads = [
        {name: last[name] for name in ("tenant", "stream", "seq", "hash")},
        {"tenant": TENANT, "stream": "system", "seq": 9, "hash": "11" * 32},
        {"tenant": TENANT, "stream": "user:7", "seq": 3, "hash": "22" * 32},
    ]
    ends = [rfc8785.dumps(head) for head in heads]
    extension = f"heads {len(ends)} {text64(root(ends))}"
    return {
        "checkpoint": note(signer, leaves, moment(at), extension).decode(),
        "index": 0,
        "count": len(ends),
        "head": heads[0],
        "proof": [beside.hex() for beside in inclusion(ends, 0)],
    }


def with_manifest(members: Mapping[str, bytes], *, signer: Signer = NEXT, **said: Any) -> Members:
    """The members with a manifest of them, signed."""
    kept = {name: content for name, content in members.items() if name not in UNSIGNED}
    manifest = {
        "format": "dir-console-evidence-pack/1",
        "dfid": FLOW,
        "tenant": TENANT,
        "made_at": moment(501),
        "origin": ORIGIN,
        "members": {name: sha256(content) for name, content in kept.items()},
        **said,
    }
    return {**kept, **signed_manifest(rfc8785.dumps(manifest), signer)}


def signed_manifest(manifest: bytes, signer: Signer) -> Members:
    signature = signer.sign(b"dir-console evidence pack 1\n" + manifest).hex()
    return {"manifest.json": manifest, "manifest.sig": f"{signer.key_id} {signature}\n".encode()}


def archive_of(members: Mapping[str, bytes]) -> bytes:
    """The ZIP file that a pack has to be, by Python's own writer."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.create_system, about.external_attr = 3, 0o644 << 16
            archive.writestr(about, members[name])
    return held.getvalue()


def whole() -> Members:
    """The members of a whole pack."""
    return with_manifest(members_of(story()))


def told_with(change: Callable[[Story], None]) -> Members:
    """The pack of a story that is not the one that happened, sealed and signed as if it were."""
    told = copy.deepcopy(story())
    change(told)
    return with_manifest(members_of(told))
