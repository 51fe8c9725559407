"""The page of an evidence pack for people: what the ledger recorded, in words that can be printed.

It is made of what is in the pack, and of nothing else but the names of people. Texts of agents and targets
are claims and are shown as such; templates escape them all.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.template.loader import render_to_string

from audit import actors, canonical, presenters
from audit.events import Kind
from audit.packs import sources
from audit.packs.contents import Contents, SealedEntry
from audit.verification.verify import UNREADABLE

LONGEST_SHOWN: Final = 4000
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_MOST_DIGITS: Final = 18
_CLAIM, _FROM_TARGET = "claimed by the agent", "as the target answered"
# What a text is, by the field that commits to it; a field of two kinds has another word for one of them.
_TEXTS: Mapping[str, str] = {
    "trigger_commitment": f"Trigger, {_CLAIM}",
    "summary_commitment": f"Summary of a step, {_CLAIM}",
    "words_commitment": f"Context of the task, {_CLAIM}",
    "params_commitment": "Parameters of the proposal",
    "explain_commitment": f"Explanation, {_CLAIM}",
    "signature_commitment": "What the agent signed of the proposal, with its signature",
    "findings_commitment": "Findings of a soft guard, which decides nothing",
    "text_commitment": "Note",
    "reason_commitment": "Reason of feedback on a decision record",
    "answer_commitment": f"Answer, {_CLAIM}",
    "receipt_commitment": f"Receipt, {_FROM_TARGET}",
}
_TEXTS_OF_KINDS: Mapping[tuple[str, str], str] = {
    (Kind.INFORMATION_REQUESTED, "text_commitment"): "Question to the agent",
    (Kind.STATUS_QUERY_FINISHED, "answer_commitment"): f"Answer to a status query, {_FROM_TARGET}",
}
_SIGNED: Mapping[str, str] = {
    Kind.ESCALATION_DECIDED: "Decision",
    Kind.ESCALATION_FIRST_DECIDED: "First of two decisions",
    Kind.EFFECT_STATED: "Statement of what became of a call",
    Kind.INFORMATION_REQUESTED: "Question to the agent",
    Kind.TASK_ANSWERED: "Answer to a task",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the timeline."""

    seq: int
    at: str
    title: str
    sentence: str
    actor: str
    hash: str


@dataclass(frozen=True, slots=True)
class VerdictShown:
    """One verdict of the gate with its reasons, worst first; `absent` is why they are not here in full."""

    seq: int
    verdict: str
    impact: str
    gate_version: str
    reasons: Sequence[Mapping[str, str]]
    absent: str


@dataclass(frozen=True, slots=True)
class SignedShown:
    """What a person signed; `absent` is why the words are not here."""

    seq: int
    what: str
    at: str
    person: str
    action: str
    words: str
    evidence_hash: str
    statement: str
    key_id: str
    absent: str


@dataclass(frozen=True, slots=True)
class RecordShown:
    """One decision record; `absent` is why it is not here."""

    seq: int
    at: str
    status: str
    terminal: bool
    outcome: str
    mode: str
    approvals: Sequence[str]
    hash: str
    absent: str


@dataclass(frozen=True, slots=True)
class TextShown:
    """A text that an entry commits to; `absent` is why it is not here."""

    seq: int
    label: str
    text: str
    absent: str


def render(found: Contents) -> str:
    """The page as HTML, complete in itself: no script, and nothing that is loaded from elsewhere."""
    names = _names(entry.actor for entry in found.entries)
    checkpoint = found.checkpoint.checkpoint
    context = {
        "found": found,
        "summary": _summary(found),
        "lines": [_line(entry, names) for entry in found.entries],
        "verdicts": [_verdict(entry, found) for entry in found.entries if entry.kind == Kind.VERDICT_GIVEN],
        "signed": [_signed(entry, found, names) for entry in found.entries if entry.kind in _SIGNED],
        "records": _records(found, names),
        "texts": [text for entry in found.entries for text in _texts(entry, found)],
        "absent": sorted(found.absent.items()),
        "checkpoint": checkpoint,
        "checkpoint_root": checkpoint.root.hex(),
        "checkpoint_time": checkpoint.time,
        "keys": found.keys,
    }
    return render_to_string("audit/evidence_report.html", context)


def _summary(found: Contents) -> dict[str, Any]:
    """What the flow was, by its entries."""
    opened = _payloads(found, Kind.FLOW_OPENED)
    moved = _payloads(found, Kind.FLOW_MOVED)
    asked = _payloads(found, Kind.PROPOSAL_SUBMITTED)
    kinds = (f"{said.get('policy_kind', '-')} {said.get('policy_version', '')}".strip() for said in asked)
    return {
        "agent": visible(str(opened[0].get("agent_id", "-"))) if opened else "-",
        "parent": visible(str(opened[0].get("parent_dfid") or "")) if opened else "",
        "kinds": [visible(kind) for kind in dict.fromkeys(kinds)],
        "state": visible(str(moved[-1].get("to_state", "-"))) if moved else "CREATED",
        "reason": visible(str(moved[-1].get("reason", ""))) if moved else "",
        "first_at": _moment(found.entries[0].at),
        "last_at": _moment(found.entries[-1].at),
    }


def _payloads(found: Contents, kind: Kind) -> list[Mapping[str, Any]]:
    return [entry.payload for entry in found.entries if entry.kind == kind]


def _line(entry: SealedEntry, names: Mapping[str, str]) -> Line:
    shown = presenters.present(entry.kind)
    try:
        sentence = shown.sentence(entry.payload)
    except UNREADABLE:
        sentence = "This entry cannot be put into words; its bytes are in the pack."
    return Line(
        seq=entry.seq,
        at=_moment(entry.at),
        title=shown.title,
        sentence=visible(sentence),
        actor=_person(entry.actor, names),
        hash=entry.hash.hex(),
    )


def _verdict(entry: SealedEntry, found: Contents) -> VerdictShown:
    said = entry.payload
    document, absent = _document(said.get("verdict_digest"), found)
    findings = document.get("findings") or said.get("reasons")
    reasons = [
        {name: visible(str(item.get(name) or "")) for name in _OF_A_REASON}
        for item in (findings if isinstance(findings, list) else ())
        if isinstance(item, dict) and item.get("outcome") != "PASS"
    ]
    return VerdictShown(
        seq=entry.seq,
        verdict=visible(str(said.get("verdict", "-"))),
        impact=visible(str(said.get("impact", "-"))),
        gate_version=visible(str(said.get("gate_version", "-"))),
        reasons=sorted(reasons, key=lambda item: item["outcome"] != "FAIL"),
        absent=absent,
    )


_OF_A_REASON = ("check", "code", "outcome", "subject", "message", "proposed_value", "limit")


def _signed(entry: SealedEntry, found: Contents, names: Mapping[str, str]) -> SignedShown:
    said = entry.payload
    stated, absent = _document(said.get("statement_digest"), found)
    if stated.get("effect") and entry.kind == Kind.EFFECT_STATED:
        action = f"the call: {stated['effect']}"
    else:
        action = str(stated.get("action") or said.get("action") or "-")
    words = stated.get("justification") or stated.get("question") or ""
    return SignedShown(
        seq=entry.seq,
        what=_SIGNED[entry.kind],
        at=_moment(entry.at),
        person=_person(entry.actor, names),
        action=visible(action),
        words=visible(str(words)),
        evidence_hash=visible(str(said.get("evidence_hash") or stated.get("evidence_hash") or "")),
        statement=visible(str(said.get("statement_digest", ""))),
        key_id=visible(str(said.get("key_id", ""))),
        absent=absent,
    )


def _records(found: Contents, names: Mapping[str, str]) -> list[RecordShown]:
    """What each record came to; of one that is not here what its entry says."""
    held = {record.seq: record.said for record in found.records}
    shown = []
    for entry in found.entries:
        if entry.kind != Kind.RECORD_EMITTED:
            continue
        told, said = entry.payload, held.get(entry.seq, {})
        digest = str(told.get("record_hash", ""))
        given = [
            f"{_person(item['approver'], names)}: {visible(item['action'] or 'decided')} ({item['state']})"
            for item in said.get("approvals", ())
        ]
        shown.append(
            RecordShown(
                seq=entry.seq,
                at=_moment(entry.at),
                status=visible(str(told.get("status", "-"))),
                terminal=told.get("terminal") is True,
                outcome=visible(str(said.get("outputs", {}).get("outcome", "-"))),
                mode=visible(str(said.get("approval_mode_effective", "-"))),
                approvals=given,
                hash=visible(digest),
                absent="" if entry.seq in held else found.absent.get(digest, sources.GONE),
            )
        )
    return shown


def _document(digest: object, found: Contents) -> tuple[Mapping[str, Any], str]:
    """The object of the pack with this digest, read; or why there is none."""
    content = found.objects.get(str(digest))
    if content is None:
        return {}, found.absent.get(str(digest), sources.GONE)
    try:
        document = canonical.decode(content)
    except canonical.CanonicalError:
        document = None
    return (document, "") if isinstance(document, dict) else ({}, sources.NOT_READABLE)


def _texts(entry: SealedEntry, found: Contents) -> Iterator[TextShown]:
    for name, commitment in sources.list_commitments(entry.payload):
        label = _TEXTS_OF_KINDS.get((entry.kind, name)) or _TEXTS.get(name, "Text")
        held = found.payloads.get(commitment)
        if held is None:
            yield TextShown(entry.seq, label, "", found.absent.get(commitment, sources.GONE))
        elif held.body is None:
            yield TextShown(entry.seq, label, "", "erased")
        else:
            yield TextShown(entry.seq, label, _text(held.body), "")


def _text(body: bytes) -> str:
    """Committed bytes as text: a JSON string as it is, other values indented, anything else as bytes."""
    try:
        value = canonical.decode(body)
    except canonical.CanonicalError:
        text = body.decode(errors="backslashreplace")
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    if len(text) > LONGEST_SHOWN:
        text = f"{text[:LONGEST_SHOWN]}… (cut here; payloads.jsonl has all of it)"
    return visible(text)


def visible(text: str) -> str:
    """Show as ⟨U+202E⟩ what is invisible or turns the reading order; lines and tabs stay."""
    return "".join(
        f"⟨U+{ord(char):04X}⟩" if unicodedata.category(char) in _INVISIBLE and char not in "\n\t" else char
        for char in text
    )


def _names(who: Iterator[str]) -> dict[str, str]:
    """Username by actor. The ledger names people by number: an account can get another name."""
    numbers = {actor.removeprefix(actors.USER) for actor in who if actors.is_user(actor)}
    ids = [int(text) for text in numbers if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS]
    found = get_user_model()._default_manager.filter(pk__in=ids).values_list("pk", "username") if ids else ()
    return {actors.user(pk): str(name) for pk, name in found}


def _person(actor: str, names: Mapping[str, str]) -> str:
    return visible(f"{names[actor]} ({actor})" if actor in names else actor)


def _moment(at: str) -> str:
    """A time of the ledger to the second, as people read it."""
    seconds = len("2026-11-23T10:00:00")
    return visible(f"{at[:seconds].replace('T', ' ')} UTC") if len(at) > seconds else visible(at)
