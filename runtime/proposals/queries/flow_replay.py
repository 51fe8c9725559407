"""Replay of a flow: its chain, every row against its entries, every verdict and every scorecard made again.

Nothing is sent to anybody, and nothing is written. A flow is read in one state of the database, beside a
running server. The first difference is named by what was changed, since one change makes others follow.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any
from uuid import UUID

from audit import canonical, cells
from audit.events import Kind
from audit.models import LedgerEntry
from audit.verification import verify
from audit.verification.row_checks import Entry
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.advice.queries import packages, rule_outputs
from runtime.flows.models import Flow, Proposal
from runtime.flows.queries import intent_records
from runtime.kernel import outcomes
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.proposals.queries import gate_facts, replay_chain, replay_rows, replay_values, stored_cases
from runtime.proposals.queries.replay_results import (
    Change,
    NotReplayable,
    ReplayDifference,
    ReplayEqual,
    ReplayResult,
)
from runtime.proposals.queries.replay_rows import RecordedHistory, Unlike
from runtime.registry.models import Manifest, PolicyKind
from runtime.registry.queries import stored_documents

_COUNTED = {
    Kind.CONTEXT_COMPILED: "contexts",
    Kind.PROPOSAL_SUBMITTED: "proposals",
    Kind.VERDICT_GIVEN: "verdicts",
    Kind.ESCALATION_OPENED: "evidence",
    Kind.ESCALATION_REVISED: "evidence",
    Kind.ESCALATION_DECIDED: "statements",
    Kind.ESCALATION_FIRST_DECIDED: "statements",
    Kind.INFORMATION_REQUESTED: "statements",
    Kind.EFFECT_STATED: "statements",
    Kind.INTENT_CREATED: "intents",
    Kind.ATTEMPT_STARTED: "attempts",
    Kind.OUTCOME_RECORDED: "outcomes",
    Kind.RECORD_SCORED: "scorecards",
    Kind.RECORD_EMITTED: "records",
    Kind.RULES_EVALUATED: "rule_outputs",
    Kind.DECISION_RECOMMENDED: "decision_packages",
}


def replay(*, tenant: str, dfid: UUID) -> ReplayResult | None:
    """The replay of one flow; None where there is no such flow."""
    with verify.snapshot():
        walked = replay_chain.walk(tenant=tenant, dfid=dfid)
        if walked is None:
            return None
        if isinstance(walked, replay_chain.Broken):
            return ReplayDifference(
                dfid=dfid,
                change=Change.TAMPERED,
                path=walked.path,
                recorded=walked.recorded,
                found=walked.found,
                seq=walked.seq,
                row="flow" if walked.path.startswith("/flow") else "ledgerentry",
                row_id=str(dfid),
            )
        return _replay(RecordedHistory(tenant=tenant, dfid=dfid, entries=walked))


def list_flows(*, tenant: str) -> list[UUID]:
    """Every flow that has a row or an entry, oldest first."""
    found = set[UUID]()
    # SQLite lets anybody put another value where an id belongs; the flow's entries still name it.
    with suppress(ValueError):
        found.update(Flow.objects.of(tenant).order_by().values_list("dfid", flat=True))
    first = LedgerEntry.objects.filter(tenant=tenant, seq=1)
    found.update(_ids_in(first.values_list("stream", flat=True)))
    return sorted(found)


def list_flows_between(*, tenant: str, after: UUID, last: UUID, size: int) -> list[UUID]:
    """The next flows of `list_flows` after an id and up to another one: the first `size` of them."""
    found = set[UUID]()
    with suppress(ValueError):
        rows = Flow.objects.of(tenant).filter(dfid__gt=after, dfid__lte=last).order_by("dfid")
        found.update(rows.values_list("dfid", flat=True)[:size])
    # The stream of a flow is its id as text, which sorts as the id does.
    first = LedgerEntry.objects.filter(tenant=tenant, seq=1, stream__gt=str(after), stream__lte=str(last))
    streams = first.order_by("stream").values_list("stream", flat=True).iterator(chunk_size=size)
    found.update(islice(_ids_in(streams), size))
    return sorted(found)[:size]


def count_flows_between(*, tenant: str, after: UUID, last: UUID) -> int:
    """How many flows have a row there."""
    return Flow.objects.of(tenant).filter(dfid__gt=after, dfid__lte=last).count()


def newest_flow(*, tenant: str) -> UUID | None:
    """The flow with the greatest id that has a row or an entry."""
    found = list[UUID]()
    with suppress(ValueError):
        rows = Flow.objects.of(tenant).order_by("-dfid").values_list("dfid", flat=True)
        found += rows[:1]
    first = LedgerEntry.objects.filter(tenant=tenant, seq=1).exclude(stream__contains=":")
    found += islice(_ids_in(first.order_by("-stream").values_list("stream", flat=True).iterator()), 1)
    return max(found, default=None)


def list_flows_of_trace(*, tenant: str, trace_id: str) -> list[UUID]:
    """The flows that were opened in a W3C trace, oldest first; `trace_id` is 32 hexadecimal digits."""
    rows = Flow.objects.of(tenant).filter(traceparent__contains=f"-{trace_id.lower()}-")
    return list(rows.order_by("dfid").values_list("dfid", flat=True))


def _ids_in(streams: Iterable[str]) -> Iterator[UUID]:
    for stream in streams:
        try:
            yield UUID(stream)
        except ValueError:
            continue  # the stream of an agent, a person or the system


def _replay(history: RecordedHistory) -> ReplayResult:
    try:
        unlike = (
            next(replay_rows.compare(history), None)
            or next(_judged_otherwise(history), None)
            or next(_named_otherwise(history), None)
            or next(_advised_otherwise(history), None)
        )
    except verify.UNREADABLE as error:
        return ReplayDifference(
            dfid=history.dfid,
            change=Change.TAMPERED,
            path="/rows",
            recorded="rows that can be read",
            found=type(error).__name__,
            seq=0,
            row="",
        )
    if unlike is not None:
        return _explain(history, unlike)
    if history.erased:
        return NotReplayable(dfid=history.dfid, erased=history.erased)
    counted = Counter(name for entry in history.entries if (name := _COUNTED.get(Kind(entry.kind))))
    return ReplayEqual(
        dfid=history.dfid,
        verdicts=counted["verdicts"],
        checked={"entries": len(history.entries), "payloads": len(history.payloads), **counted},
        not_verified=tuple(history.not_verified),
    )


def _judged_otherwise(history: RecordedHistory) -> Iterator[Unlike]:
    """Verdicts that the gate of today gives otherwise on the same bytes."""
    for entry in history.of_kind(Kind.VERDICT_GIVEN):
        said = entry.payload
        row = history.verdicts[said["proposal_id"]]
        given, rules = cells.bytes_of(row.input), cells.bytes_of(history.bundles[said["policy_bundle_hash"]])
        if not given or not rules:
            continue  # erased, or the comparison of rows had told
        try:
            judged = pipeline.judge_bytes(given, rules)
        except ValueError as error:  # a reading error of pydantic is one, too
            judged = canonical.encode({"error": type(error).__name__})
        if canonical.digest(judged) != said["verdict_digest"]:
            yield Unlike(
                change=Change.POLICY,
                seq=entry.seq,
                row="verdict.body",
                row_id=said["proposal_id"],
                recorded=said["verdict_digest"],
                found=canonical.digest(judged),
                body=judged,
                proposal_id=said["proposal_id"],
            )


def _named_otherwise(history: RecordedHistory) -> Iterator[Unlike]:
    """Outcomes that the kind of the verdict, asked again of the same receipts, names otherwise."""
    created = {entry.payload["intent_id"]: entry.payload for entry in history.of_kind(Kind.INTENT_CREATED)}
    for entry in history.of_kind(Kind.OUTCOME_NAMED):
        said, intent = entry.payload, created.get(entry.payload["intent_id"])
        row = None if intent is None else history.verdicts.get(intent["proposal_id"])
        _, receipt = history.payloads.get(said["receipt_commitment"] or "", (None, None))
        body = cells.bytes_of(receipt)
        given = None if row is None else cells.bytes_of(row.input)
        rules = None if row is None else cells.bytes_of(history.bundles.get(row.bundle_id))
        if intent is None or not body or not given or not rules:
            continue  # erased, or the comparison of rows had told
        _, outputs = history.payloads.get(said["outputs_commitment"] or "", (None, None))
        recorded = {
            "outcome": said["outcome"],
            "outputs": said["outputs"],
            "findings": said["findings"],
            "values": None if outputs is None else canonical.decode(cells.bytes_of(outputs) or b"null"),
        }
        found = _name_again(given, rules, receipt=body, steps=intent["step_ids"])
        if found != recorded and not (said["outputs_commitment"] and outputs is None):
            yield Unlike(
                change=Change.POLICY,
                seq=entry.seq,
                row="outcome.name",
                row_id=said["intent_id"],
                recorded=canonical.encode(recorded).decode(),
                found=canonical.encode(found).decode(),
                proposal_id=intent["proposal_id"],
            )


def _advised_otherwise(history: RecordedHistory) -> Iterator[Unlike]:
    """Rule outputs and decision packages that their stored input, read again, gives otherwise today."""
    of_rules = {entry.payload["rule_output_id"]: entry for entry in history.of_kind(Kind.RULES_EVALUATED)}
    outputs = RuleOutput.objects.select_related("ruleset").filter(pk__in=of_rules).exclude(input=b"")
    for output in outputs if of_rules else ():
        entry, made = of_rules[str(output.pk)], rule_outputs.make_again(output)
        yield from _unlike_advice(
            entry, "ruleoutput.body", str(output.pk), entry.payload["output_digest"], made
        )
    of_packages = {
        entry.payload["decision_id"]: entry for entry in history.of_kind(Kind.DECISION_RECOMMENDED)
    }
    stored = DecisionPackageRow.objects.filter(pk__in=of_packages).exclude(input=b"")
    for package in stored if of_packages else ():
        entry, made = of_packages[str(package.pk)], packages.make_again(package)
        yield from _unlike_advice(
            entry, "decisionpackagerow.body", str(package.pk), entry.payload["package_digest"], made
        )


def _unlike_advice(entry: Entry, row: str, row_id: str, recorded: str, made: bytes) -> Iterator[Unlike]:
    if canonical.digest(made) != recorded:
        yield Unlike(
            change=Change.POLICY,
            seq=entry.seq,
            row=row,
            row_id=row_id,
            recorded=recorded,
            found=canonical.digest(made),
            body=made,
        )


def _name_again(given: bytes, rules: bytes, *, receipt: bytes, steps: Sequence[str]) -> dict[str, Any]:
    case = stored_cases.case_of(judgement=given, rules=rules)
    held = outcomes.receipts_of(receipt, steps=steps)
    named = outcomes.ask(case.kind, names={**case.names, **held})
    return {
        "outcome": named.outcome,
        "outputs": list(named.output_names),
        "findings": [{"code": str(item.code), "place": item.fact} for item in named.deviations],
        "values": None if named.outputs is None else canonical.decode(named.outputs),
    }


def _explain(history: RecordedHistory, unlike: Unlike) -> ReplayDifference:
    pointer, recorded, found = replay_values.json_pointer(unlike.place), unlike.recorded, unlike.found
    # A copy would show the very words that were erased elsewhere.
    if unlike.body is not None and not history.erased:
        copies = replay_values.Copies(_list_copies(history))
        original = copies.original(unlike.body, digest=unlike.recorded, salt=unlike.salt)
        if original is not None:
            pointer, recorded, found = replay_values.compare(original, unlike.body)
    parts = [part for part in unlike.row.split(".") if part != "body"]
    return ReplayDifference(
        dfid=history.dfid,
        change=unlike.change,
        path=(replay_values.json_pointer(parts) if unlike.row else "/rows") + pointer,
        recorded=recorded,
        found=found,
        seq=unlike.seq,
        row=unlike.row,
        row_id=unlike.row_id,
        proposal_id=unlike.proposal_id,
    )


def _list_copies(history: RecordedHistory) -> Iterator[bytes]:
    """Everything that may hold a document of the flow a second time, whether it is whole or not."""
    yield from history.objects.bodies.values()
    held: list[object] = [body for _, body in history.payloads.values()]
    held += [row.receipt for row in history.outcomes.values()]
    held += [row.receipt for row in history.steps.values()]
    held += Flow.objects.filter(pk=history.dfid).values_list("trigger", flat=True)
    yield from (body for cell in held if (body := cells.bytes_of(cell)) is not None)
    for explain in Proposal.objects.filter(flow=history.dfid).values_list("explain", flat=True):
        yield canonical.encode(explain)
    yield from (canonical.encode(dict(entry.payload)) for entry in history.entries)
    yield from _followed(history)
    yield from _judged_again(history)
    yield from _put_together_again(history)


def _followed(history: RecordedHistory) -> Iterator[bytes]:
    """What an outcome repeats of the entries about its intent."""
    records: dict[str, intent_records.IntentRecord] = {}
    for entry in history.entries:
        intent_records.follow(records, entry.kind, entry.payload)
    yield from (canonical.encode({"attempts": each.columns["attempts"]}) for each in records.values())
    yield from (
        canonical.encode({"recorded_by": entry.actor}) for entry in history.of_kind(Kind.OUTCOME_RECORDED)
    )


def _judged_again(history: RecordedHistory) -> Iterator[bytes]:
    for row in history.verdicts.values():
        given, rules = cells.bytes_of(row.input), cells.bytes_of(history.bundles.get(row.bundle_id))
        try:
            yield pipeline.judge_bytes(given or b"", rules or b"")
        except ValueError:
            continue


def _put_together_again(history: RecordedHistory) -> Iterator[bytes]:
    """Rules, of the versions of the agent's manifest and of the kinds that are registered."""
    agents = {entry.payload["agent_id"] for entry in history.of_kind(Kind.FLOW_OPENED)}
    kinds = {entry.payload["policy_kind"] for entry in history.of_kind(Kind.PROPOSAL_SUBMITTED)}
    manifests = Manifest.objects.filter(agent__tenant=history.tenant, agent__agent_id__in=agents)
    registered = PolicyKind.objects.of(history.tenant).filter(kind__in=kinds)
    for manifest in (None, *_readable(manifests.values_list("body", flat=True))):
        for kind in (None, *_readable(registered.values_list("body", flat=True))):
            try:
                yield PolicyBundle(
                    manifest=None if manifest is None else stored_documents.manifest_of(manifest),
                    kind=None if kind is None else stored_documents.kind_of(kind),
                    rulesets=tuple(
                        stored_documents.ruleset_of(body)
                        for body in gate_facts.list_rulesets(history.tenant, kind)
                    ),
                ).to_bytes()
            except ValueError:
                continue


def _readable(held: Iterable[object]) -> list[bytes]:
    return [body for cell in held if (body := cells.bytes_of(cell)) is not None]
