"""ContextOS's six readiness answers, each by doing what it asks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from audit import actors, canonical, queries
from audit.events import Kind
from audit.models import DecisionRecord, RecordTerm
from audit.packs import contents, sources
from audit.packs.contents import NotSealedError
from audit.records import emission, evaluators, fold, rules
from audit.records import queries as records
from audit.records.fold import Said
from audit.records.queries import Record, RecordFilter
from audit.verification import verify
from dir_console.conformance import privacy, query_plans
from dir_console.conformance.items import Answer, Check, Finding, Group, counted, judged
from dir_console.conformance.sample import Sample
from runtime.flows.models import Verdict
from runtime.flows.queries import judged_rules
from runtime.proposals.queries.replay_results import ReplayDifference

ADDRESSED: Final = 20
_LOST: Final = frozenset({sources.GONE, sources.DIFFERENT, sources.NOT_READABLE, contents.EMPTIED})
# Far from every record, so that the plan does not hang on how often a value comes.
_ABSENT: Final = "no-such-value"
_LATER: Final = datetime(2999, 1, 1, tzinfo=UTC)


def check_explanation(sample: Sample) -> Finding:
    """The newest record of each flow names everything that a person needs to explain the decision."""
    newest, wrong = _newest_records(sample)
    lacking, unpinned, complete = Counter[str](), Counter[str](), 0
    for record in newest:
        lacks = list(_lacks(record))
        complete += not lacks
        lacking.update(lacks)
        wrong += [f"Record {record.record_id} lacks {part}." for part in lacks]
        unpinned.update(str(name) for name in record.document["lineage"]["unpinned"])
    tried = (
        f"Read the newest decision record of {counted(len(sample.flows), 'ended flow')}, compared each with "
        "its entry, and looked in it for outcome, evidence, policy, approvals where one was needed, "
        "controls and lineage."
    )
    seen = (
        f"{complete} of {counted(len(newest), 'record')} complete; lacking: {_counts(lacking)}; "
        f"lineage.unpinned: {_counts(unpinned)}."
    )
    if not sample.flows:
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why="No flow has ended yet.")
    short = []
    if unpinned:
        short.append(
            f"Not ready: records leave open what was in force (lineage.unpinned: {_counts(unpinned)}). "
            "Agents name model_profile and evaluator_suite in their manifests."
        )
    return judged(tried=tried, seen=seen, wrong=wrong, short=short)


def _newest_records(sample: Sample) -> tuple[list[Record], list[str]]:
    """The newest record of each flow that is shown, and what is wrong with the others."""
    newest, wrong = [], []
    for dfid, found in sample.records.items():
        shown = found.records if found else []
        wrong += [
            f"Record {other.record_id}: {other.mismatch}"
            for other in (found.others if found else ())
            if not other.is_erased
        ]
        if shown:
            newest.append(shown[-1])
        elif not (found and found.others):
            wrong.append(f"Flow {dfid} has no decision record.")
    return newest, wrong


def _lacks(record: Record) -> Iterator[str]:
    said = record.document
    was_judged = bool(said["policy_decisions"])
    if not said["outputs"].get("outcome") or not said["status"]:
        yield "an outcome"
    if was_judged and not said["evidence_refs"]:
        yield "evidence"
    if said["decision_key"] and not was_judged:
        yield "a policy decision"
    if any(not item["bundle_id"] or not item["verdict"] for item in said["policy_decisions"]):
        yield "the rules of a policy decision"
    if not {"must_refuse", "must_escalate", "approval_gates_active"} <= said["controls_active"].keys():
        yield "controls"
    if was_judged and not all(said["lineage"][name] for name in ("pack_version", "gate_version")):
        yield "lineage"
    yield from (broken.partition(":")[0].lower() for broken in rules.violations(said))


def check_rebuilding(sample: Sample) -> Finding:
    """Replay gives the same, and the records are made again byte for byte."""
    replays = sample.replays.results
    changed = {dfid: one for dfid, one in replays.items() if isinstance(one, ReplayDifference)}
    wrong = [f"Flow {dfid}: {one.change.value} at {one.path}." for dfid, one in changed.items()]
    emitted = made = 0
    for dfid in sample.flows:
        found = sample.records.get(dfid)
        stored = {record.record_id: record for record in (found.records if found else ())}
        emitted += len(stored)
        # Of what was changed nothing can be made again.
        for name, body in () if dfid in changed else _folded_again(sample, dfid):
            if name in stored:
                made += 1
                if body != stored[name].body:
                    wrong.append(f"Record {name}: its entries come to another one.")
    tried = (
        f"Replayed {counted(len(replays), 'flow')}, and made the decision records of "
        f"{counted(len(sample.flows), 'flow')} again from their entries and the pinned rules."
    )
    seen = f"{made} of {counted(emitted, 'record')} made again, {counted(len(wrong), 'difference')}."
    if not emitted:
        why = "No ended flow has a decision record."
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why=why)
    short = [] if wrong or made == emitted else [f"{counted(emitted - made, 'record')} of another version."]
    return judged(tried=tried, seen=seen, wrong=wrong, short=short)


def _folded_again(sample: Sample, dfid: UUID) -> Iterator[tuple[str, bytes]]:
    """The records of a flow, each with the bytes that its entries come to."""
    documents = {str(row.pk): row for row in sample.verdicts}

    def find_rules(said: Mapping[str, Any]) -> fold.Rules:
        row: Verdict = documents[said["proposal_id"]]
        return judged_rules.read(
            judgement=bytes(row.input), rules=bytes(row.bundle.body), verdict=bytes(row.body)
        )

    before: dict[str, Any] | None = None
    prev_hash, since = emission.GENESIS, list[Said]()
    for entry in sample.entries.get(dfid, ()):
        if entry.kind != Kind.RECORD_EMITTED:
            since.append(entry)
            continue
        said = entry.payload
        version = before["schema_version"] if before else said["fold_version"]
        if said["fold_version"] != version or version not in fold.VERSIONS:
            return
        before = fold.fold(dfid=str(dfid), previous=before, entries=since, rules=find_rules, version=version)
        whole = fold.sealed(before, prev_hash=prev_hash, key_id=said["key_id"])
        yield said["record_id"], canonical.encode(whole)
        prev_hash, since = said["record_hash"], []


_RECORDS: Final = DecisionRecord._meta.db_table
_TERMS: Final = RecordTerm._meta.db_table
_Filters = Mapping[str, tuple[RecordFilter, str, str]]
# Each filter with a value that no record has, the table that it is asked of, and the column.
_LISTED: Final[_Filters] = {
    "decision key": (RecordFilter(decision_key=_ABSENT), _RECORDS, "decision_key"),
    "subjects": (RecordFilter(subject=_ABSENT), _TERMS, "value"),
    "policy ids": (RecordFilter(policy_decision=_ABSENT), _TERMS, "value"),
    "approval mode": (RecordFilter(approval_mode=_ABSENT), _RECORDS, "approval_mode"),
    "approver": (RecordFilter(approver=actors.user(0)), _TERMS, "value"),
    "trace": (RecordFilter(trace_id="f" * 32), _RECORDS, "trace_id"),
}
# What the paper does not list, and the search offers.
_FURTHER: Final[_Filters] = {
    "status": (RecordFilter(status=_ABSENT), _RECORDS, "status"),
    "agent": (RecordFilter(agent_id=_ABSENT), _RECORDS, "agent_id"),
    "flow": (RecordFilter(dfid=UUID(int=0)), _RECORDS, "dfid"),
    "time": (RecordFilter(since=_LATER), _RECORDS, "at"),
    "scorecard": (RecordFilter(scorecard=_ABSENT), _TERMS, "value"),
    "evaluator that failed": (RecordFilter(failed_evaluator=_ABSENT), _TERMS, "value"),
}


def check_queries(sample: Sample) -> Finding:
    """Each filter of the search of records is answered by an index."""
    listed, further = _unindexed(sample, _LISTED), _unindexed(sample, _FURTHER)
    asked = len(_LISTED) + len(_FURTHER)
    return judged(
        tried=f"Asked the database for its plan of the search of decision records by each of {asked} "
        f"filters: those that are listed ({', '.join(_LISTED)}), and {', '.join(_FURTHER)}.",
        seen=f"{len(_LISTED) - len(listed)} of the {len(_LISTED)} listed, and "
        f"{len(_FURTHER) - len(further)} of the {len(_FURTHER)} others, by an index over the column that is "
        "asked for.",
        wrong=listed,
        short=further,
    )


def _unindexed(sample: Sample, filters: _Filters) -> list[str]:
    found = []
    for name, (wanted, table, column) in filters.items():
        plan = query_plans.plan_of(partial(records.search, tenant=sample.tenant, wanted=wanted))
        if not plan.is_by(column) and not query_plans.has_index(table, column):
            found.append(f"The search by {name} does not use an index over {column} ({plan}).")
    return found


def check_incidents(sample: Sample) -> Finding:
    """Flows in which something was denied, escalated or aborted, or failed, keep everything that they "
    "name."""
    wrong, short = list[str](), list[str]()
    objects = payloads = entries = 0
    with verify.snapshot():
        for dfid in sample.incidents:
            try:
                found = contents.read(tenant=sample.tenant, dfid=dfid)
            except NotSealedError:
                short.append(f"Flow {dfid} is in no checkpoint yet.")
                continue
            if found is None:
                wrong.append(f"Flow {dfid} has no entries.")
                continue
            entries += len(found.entries)
            objects += len(found.objects) + len(found.records)
            payloads += len(found.payloads)
            wrong += [
                f"Flow {dfid}: {digest[:16]}… is {why}."
                for digest, why in found.absent.items()
                if why in _LOST
            ]
    tried = (
        "Gathered everything that an evidence pack holds of the newest "
        f"{counted(len(sample.incidents), 'flow')} in which something was denied, escalated, aborted or did "
        "not succeed: entries with their proofs, evidence, statements, requests and records, receipts and "
        "other payloads."
    )
    seen = (
        f"{counted(entries, 'entry', 'entries')}, {counted(objects, 'document')} and "
        f"{counted(payloads, 'payload')} readable; {len(wrong)} missing or different."
    )
    if not sample.incidents:
        why = "Nothing was denied, escalated or aborted, or failed, in a flow that has ended."
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why=why)
    return judged(tried=tried, seen=seen, wrong=wrong, short=short)


def check_improvement(sample: Sample) -> Finding:
    """Records can be addressed, and scorecards, feedback and rules that were drafted refer to them."""
    # Also of those that are gone, and of those that are not shown since words were erased.
    names = [row.record_id for found in sample.records.values() if found for row in found.rows]
    asked = names[:: max(1, len(names) // ADDRESSED)][:ADDRESSED]
    found = [(name, records.get(tenant=sample.tenant, record_id=name)) for name in asked]
    wrong = [
        f"Record {name}: {row.mismatch if row else 'there is none of this id.'}"
        for name, row in found
        if not isinstance(row, Record) and not (row and row.is_erased)
    ]
    scored, last, other = _scores(sample)
    unscored = last - scored
    waiting = [f"{counted(unscored, 'record')} of an end not scored yet."] if unscored else []
    given = _feedback(sample)
    strays = [
        f"Feedback {item['feedback_id']} is about {item['record_id']}, which its flow did not emit."
        for dfid, item in given
        if item["record_id"] not in _emitted(sample, dfid)
    ]
    drafted = queries.list_payloads_of_kind(tenant=sample.tenant, kind=Kind.STRATEGY_RULE_PROPOSED)
    lost = _lost_records(sample.tenant, [said for _, said in drafted])
    missing = [
        *([] if given else ["Nobody has given feedback in the sample."]),
        *([] if drafted else ["No rule was drafted from precedents yet."]),
    ]
    return judged(
        tried=f"Read {counted(len(asked), 'decision record')} by their ids, scored those again that have "
        "a scorecard, by the evaluators of their suite, and looked up the records of "
        f"{counted(len(given), 'feedback entry', 'feedback entries')} in the sample and of "
        f"{counted(len(drafted), 'rule')} drafted from precedents.",
        seen=f"{len(asked) - len(wrong)} of {len(asked)} found; {scored} of {counted(last, 'last record')} "
        f"scored; {len(given) - len(strays)} of {len(given)} feedback entries are about a record of their "
        f"flow; {len(drafted)} strategy rules name {counted(len(lost), 'record')} that cannot be read.",
        wrong=[*wrong, *other, *strays, *lost],
        short=[*waiting, *missing],
    )


def _lost_records(tenant: str, rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """The records that strategy rules name and that are not there, of the first few of each."""
    return [
        f"The rule {said['rule_id']} rests on {name}, which is not there."
        for said in rules
        for name in said["record_ids"][:ADDRESSED]
        if records.get(tenant=tenant, record_id=name) is None
    ]


def _scores(sample: Sample) -> tuple[int, int, list[str]]:
    """How many of the last records are scored, of how many, and which do not come out again."""
    last, scored, wrong = 0, 0, list[str]()
    for found in sample.records.values():
        known = {row.record_id: row.document for row in (found.records if found else ())}
        ends = [document for document in known.values() if document["terminal"]]
        if not ends:
            continue
        last += 1
        newest = ends[-1]
        scored += bool(newest["scorecard"])
        subject = known.get(newest["supersedes"] or "")
        if subject is None or not newest["scorecard"] or not newest["scorecard"]["details"]:
            continue
        if evaluators.scorecard(evaluators.evaluate(subject).plain()) != newest["scorecard"]:
            wrong.append(f"Record {newest['record_id']}: its evaluators give another scorecard.")
    return scored, last, wrong


def _feedback(sample: Sample) -> list[tuple[UUID, Mapping[str, Any]]]:
    """What feedback says of records, each with its flow."""
    return [
        (dfid, entry.payload)
        for dfid, entries in sample.entries.items()
        for entry in entries
        if entry.kind == Kind.RECORD_FEEDBACK_GIVEN
    ]


def _emitted(sample: Sample, dfid: UUID) -> set[str]:
    """The ids of the records that the entries of a flow name."""
    entries = sample.entries[dfid]
    return {entry.payload["record_id"] for entry in entries if entry.kind == Kind.RECORD_EMITTED}


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} in {count}" for name, count in counter.most_common()) or "nothing"


def _check(number: int, asks: str, **fields: Any) -> Check:
    return Check(
        id=f"readiness-{number}",
        group=Group.READINESS,
        paper=f"ContextOS, readiness checklist, question {number}",
        asks=asks,
        **fields,
    )


CHECKS: Final = (
    _check(
        1,
        "The record alone explains the decision to a person: outcome, evidence, policy, approvals, controls "
        "and lineage are in it.",
        tries="Reads the newest decision record of each ended flow of the sample and looks for each part. "
        "What a record lists as unpinned makes the answer partly: not ready.",
        run=check_explanation,
        tests=("tests/audit/records/test_record_rules.py::test_a_record_that_breaks_a_rule_is_not_written",),
    ),
    _check(
        2,
        "Replay brings it out again: pinned inputs and what the tools answered are enough for the same "
        "bytes.",
        tries="Replays the flows of the sample and makes their decision records again from the entries.",
        run=check_rebuilding,
        tests=("tests/golden/test_histories.py::test_the_verdict_is_the_one_that_was_recorded",),
    ),
    _check(
        3,
        "Auditors can query it: decision key, subjects, policy ids, approval mode, approver and trace are "
        "indexed.",
        tries="Asks the database for its plan of the search by each filter, and accepts only an index over "
        "the column that is asked for.",
        run=check_queries,
        tests=(
            "tests/audit/records/test_record_queries.py::test_each_filter_is_answered_by_its_index_without_sorting",
        ),
    ),
    _check(
        4,
        "Privacy holds: payloads stay in classified stores; the record has references and hashes.",
        tries="Searches entries and records for texts of proposals, and the payloads beside the ledger for "
        "the same. Reads which class key encrypts each payload, and how long its words are kept.",
        run=privacy.check_privacy,
        tests=(
            "tests/maintenance/test_payloads.py::test_what_is_erased_is_gone_and_the_ledger_says_why_and_stays_whole",
        ),
    ),
    _check(
        5,
        "Incidents can be followed from it: denials, escalations, failures and destructive actions keep "
        "their whole trace.",
        tries="Gathers what an evidence pack would hold of the newest such flows, and names what is missing.",
        run=check_incidents,
        tests=("tests/audit/packs/test_whole_pack.py::test_a_stranger_finds_a_whole_pack_whole",),
    ),
    _check(
        6,
        "Improvement can build on it: feedback, scorecards and strategy rules refer to the id of the record.",
        tries="Reads records by their ids, scores them again, and looks up the records of feedback entries "
        "and of rules drafted from precedents. Partly where there are none of these yet.",
        run=check_improvement,
        tests=(
            "tests/maintenance/test_scoring.py::test_the_record_of_the_end_is_scored_by_one_that_takes_its_place",
            "tests/audit/records/test_record_queries.py::test_every_record_of_a_finished_history_is_shown",
        ),
    ),
)
