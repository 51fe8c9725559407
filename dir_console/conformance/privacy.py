"""ContextOS's readiness answer on privacy: where words of proposals stand, in which class, for how long."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from audit import canonical
from audit.models import DecisionRecord, LedgerEntry, Payload
from audit.packs import sources
from dir_console.conformance.items import Answer, Finding, counted, judged
from dir_console.conformance.sample import Sample
from runtime.flows.models import Flow
from runtime.maintenance.queries import retention

# Newest entries of all streams that are searched for texts of proposals.
NEWEST: Final = 1000
# Shorter values are words such as BUY, which stand in entries for other reasons.
LEAST_CHARS: Final = 8


def check_privacy(sample: Sample) -> Finding:
    """No text of a proposal is in an entry or a record.

    All of them are where they can be erased, encrypted under the key of a class, and for a time that is set.
    """
    texts = _texts(sample)
    bodies = _entry_bodies(sample)
    of_records, of_subjects = _record_bodies(sample)
    payloads = _payloads(sample)
    kept = b"\n".join(bytes(row.body or b"") for row in payloads)
    classes, short = _classification(sample, payloads)
    wrong, repeated, held = [], set(), 0
    for text in texts:
        written = canonical.encode(text)[1:-1]
        held += written in kept
        places = [name for name, body in (bodies | of_records).items() if written in body]
        wrong += [f"A text of {len(text)} characters, of a proposal, is in {place}." for place in places]
        repeated |= {name for name, body in of_subjects.items() if written in body}
    searched = len(bodies) + len(of_records)
    tried = (
        f"Searched {counted(searched, 'entry or record', 'entries and records')} for "
        f"{counted(len(texts), 'text')} of {LEAST_CHARS} characters or more that stand in parameters and "
        f"explanations of {counted(len(sample.flows), 'flow')} and in no rule; and the payloads beside the "
        "ledger for the same. Read which class key encrypts each payload, and how long the words of each "
        "flow are kept."
    )
    seen = (
        f"{counted(len(wrong), 'place')} in entries and records; {held} of "
        f"{counted(len(texts), 'text')} in the payloads, where they can be erased; "
        f"{counted(len(repeated), 'record')} whose subjects repeat one. Payloads by class: {classes}."
    )
    if not texts:
        why = "No proposal of the sample has a text that is long enough to be told from other words."
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why=why)
    return judged(tried=tried, seen=seen, wrong=wrong, short=short)


def _classification(sample: Sample, payloads: Sequence[Payload]) -> tuple[str, list[str]]:
    """How many payloads each class has, and what lacks a class or a time."""
    by_class = Counter("none" if row.key is None else row.key.data_class for row in payloads)
    timed = {each.kind for each in retention.list_classes(tenant=sample.tenant)}
    kinds = Flow.objects.filter(pk__in=sample.flows).values_list("policy_kind", flat=True)
    permanent = Counter(kind or "without a proposal" for kind in kinds if kind not in timed)
    short = []
    if by_class["none"]:
        short.append(
            f"In clear, in no class: {counted(by_class['none'], 'payload')} of an earlier version. "
            "`manage.py payload_keys rotate parameters` encrypts them."
        )
    if permanent:
        short.append(
            f"Words are kept permanently: {_listed(permanent)}. Set `retention_days` of the kind or "
            f"{retention.SETTING}."
        )
    return _listed(by_class), short


def _listed(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


def _texts(sample: Sample) -> list[str]:
    """Texts that agents wrote in the proposals of the sample, and that are no words of the rules."""
    found = dict[str, None]()
    for row in sample.proposals:
        found |= dict.fromkeys(_strings(canonical.decode(bytes(row.body)).get("params")))
        found |= dict.fromkeys([row.explain] if len(row.explain) >= LEAST_CHARS else [])
    of_rules = b"\n".join({bytes(row.bundle.body) for row in sample.verdicts})
    return [text for text in found if canonical.encode(text)[1:-1] not in of_rules]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= LEAST_CHARS:
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from _strings(part)


def _entry_bodies(sample: Sample) -> dict[str, bytes]:
    """The entries of the flows, and the newest ones of all streams."""
    of_tenant = LedgerEntry.objects.filter(tenant=sample.tenant)
    newest = of_tenant.order_by("-id").values_list("id", flat=True)[:NEWEST]
    of_flows = of_tenant.filter(stream__in=[str(dfid) for dfid in sample.flows])
    rows = {
        (stream, seq): bytes(body)
        for entries in (of_flows, of_tenant.filter(id__in=list(newest)))
        for stream, seq, body in entries.values_list("stream", "seq", "body")
    }
    return {f"entry {seq} of {stream}": body for (stream, seq), body in rows.items()}


def _record_bodies(sample: Sample) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The records of the flows without their subjects, and their subjects."""
    rest, subjects = {}, {}
    rows = DecisionRecord.objects.filter(tenant=sample.tenant, dfid__in=sample.flows)
    for name, body in rows.values_list("record_id", "body"):
        document = canonical.decode(bytes(body))
        # By what the kind says makes a subject, which is what records are found by.
        subjects[f"record {name}"] = canonical.encode(document.pop("subject_ids"))
        rest[f"record {name}"] = canonical.encode(document)
    return rest, subjects


def _payloads(sample: Sample) -> list[Payload]:
    named = {
        value
        for entries in sample.entries.values()
        for entry in entries
        for _, value in sources.list_commitments(entry.payload)
    }
    rows = Payload.objects.filter(tenant=sample.tenant, commitment__in=named, content__isnull=False)
    return list(rows.select_related("key"))
