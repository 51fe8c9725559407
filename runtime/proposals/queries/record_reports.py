"""Three questions that auditors ask of DecisionRecords again and again, each answered as plain JSON.

A report reads the newest records that match, up to a bound, and says whether these were all. It counts each
flow once, by the newest of those records, which goes on from the earlier ones.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from audit import canonical, chain
from audit.packs import sources
from audit.packs.sources import Gathering, Objects
from audit.records import erasures, fold
from audit.records import queries as records
from audit.records.queries import Found, Record, RecordFilter
from audit.records.statuses import Status
from runtime.core import clock
from runtime.flows.models import Proposal
from runtime.kernel import units
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import NotReplayable, ReplayEqual

MOST_RECORDS: Final = 1000
MOST_FLOWS: Final = 200
MOST_DAYS: Final = 366
DAYS_OF_DENIALS: Final = 7
DAYS_OF_REPLAYS: Final = 30
_DENY: Final = fold.DECISIONS["REJECT"]
NO_NUMBER: Final = "the proposal has no number under this name"
_NO_PROPOSAL: Final = "nothing was proposed"


def high_value_outcomes(
    *,
    tenant: str,
    decision_key: str,
    param: str,
    over: Decimal,
    since: datetime | None = None,
    until: datetime | None = None,
) -> dict[str, Any]:
    """What was decided about amounts above `over`, newest first: approvals, evidence and lineage of each.

    The amount is the parameter `param` of the proposal, if that is still stored as it was recorded.
    """
    wanted = RecordFilter(decision_key=decision_key, since=since, until=until)
    found = records.search(tenant=tenant, wanted=wanted, size=MOST_RECORDS)
    newest = _newest_of_flows(found)
    proposals = _proposals(tenant, newest)
    outcomes, without = [], []
    for record in newest:
        amount, why_not = _amount(proposals, record, param)
        if why_not:
            without.append({"record_id": record.record_id, "why": why_not})
        elif (number := units.number_of(amount)) is not None and number > over:
            outcomes.append(_outcome(record, amount))
    return {
        "decision_key": decision_key,
        "param": param,
        "over": f"{over:f}",
        **_period(since, until),
        "outcomes": outcomes,
        "without_amount": without,
        **_extent(found, newest),
    }


def most_denials(*, tenant: str, days: int = DAYS_OF_DENIALS) -> dict[str, Any]:
    """The rules that refused most proposals in the last days, the most frequent first.

    What people aborted was refused by no rule; it is counted apart.
    """
    since = clock.now() - timedelta(days=days)
    wanted = RecordFilter(status=Status.REJECTED, since=since)
    found = records.search(tenant=tenant, wanted=wanted, size=MOST_RECORDS)
    newest = _newest_of_flows(found)
    denials: Counter[str] = Counter()
    of_rule: dict[str, set[str]] = defaultdict(set)
    for record in newest:
        refused = [item for item in record.document["policy_decisions"] if item["verdict"] == _DENY]
        for rule in (rule for item in refused for rule in item["rule_ids"]):
            denials[rule] += 1
            of_rule[rule].add(record.dfid)
    rules = sorted(denials.items(), key=lambda item: (-item[1], item[0]))
    return {
        **_period(since, None),
        "rules": [{"rule_id": rule, "denials": count, "flows": len(of_rule[rule])} for rule, count in rules],
        "by_people": sum(1 for record in newest if record.document["flow"]["verdict"] != "REJECT"),
        **_extent(found, newest),
    }


def replay_health(
    *,
    tenant: str,
    since: datetime | None = None,
    until: datetime | None = None,
    flows: int = MOST_FLOWS,
) -> dict[str, Any]:
    """How many flows of each version of a kind replay equal, of the newest flows of the period.

    Without a beginning the period is thirty days. The flows are replayed now, which takes its time.
    """
    since = since or (until or clock.now()) - timedelta(days=DAYS_OF_REPLAYS)
    found = records.search(tenant=tenant, wanted=RecordFilter(since=since, until=until), size=MOST_RECORDS)
    newest = _newest_of_flows(found)
    replayed = newest[:flows]
    sampled = {record.dfid for record in replayed}
    results = {dfid: _replayed(tenant, dfid) for dfid in sampled}
    counted = Counter(_spec(record) for record in found.records if record.dfid in sampled)
    specs: dict[str | None, Counter[str]] = defaultdict(Counter)
    for record in replayed:
        specs[_spec(record)][results[record.dfid]] += 1
    return {
        **_period(since, until),
        "decision_specs": [
            _health(spec, counted[spec], specs[spec])
            for spec in sorted(counted, key=lambda spec: (-counted[spec], spec or ""))
        ],
        **_extent(found, replayed),
        "complete": found.following is None and len(newest) <= flows,
    }


def _newest_of_flows(found: Found) -> list[Record]:
    newest: dict[str, Record] = {}
    for record in found.records:
        newest.setdefault(record.dfid, record)
    return list(newest.values())


def _period(since: datetime | None, until: datetime | None) -> dict[str, str | None]:
    named = {"from": since, "to": until}
    return {name: None if at is None else chain.time_text(at) for name, at in named.items()}


def _extent(found: Found, newest: Sequence[Record]) -> dict[str, Any]:
    """What was read for a report, and what of it could not be used."""
    return {
        "records_read": len(found.rows),
        "flows": len(newest),
        "complete": found.following is None,
        "mismatches": [other.plain() for other in found.others],
    }


def _outcome(record: Record, amount: Any) -> dict[str, Any]:
    document = record.document
    names = ("record_id", "trace_id", "timestamp", "decision_version", "status", "terminal", "subject_ids")
    return {
        **{name: document[name] for name in names},
        "dfid": record.dfid,
        "outcome": document["outputs"]["outcome"],
        "amount": amount,
        "approvals": document["approvals"],
        "evidence_refs": document["evidence_refs"],
        "lineage": document["lineage"],
    }


def _amount(proposals: Objects, record: Record, param: str) -> tuple[Any, str]:
    """The value of the parameter, or why there is none."""
    _, digest = _request(record)
    if not digest:
        return None, _NO_PROPOSAL
    if digest not in proposals.bodies:
        return None, proposals.absent[digest]
    amount = canonical.decode(proposals.bodies[digest])["params"].get(param)
    return amount, "" if units.number_of(amount) is not None else NO_NUMBER


def _request(record: Record) -> tuple[str, str]:
    """The id and the digest of the proposal that a record is about."""
    reference = str(record.document["inputs_refs"]["request"] or "")
    name, _, digest = reference.removeprefix("proposal:").partition("#sha256:")
    return name, digest


def _proposals(tenant: str, found: Iterable[Record]) -> Objects:
    """The proposals of records by their digests, as they were recorded, in three queries."""
    gathered = Gathering()
    asked = {record.dfid: _request(record) for record in found}
    ids = [UUID(name) for name, _ in asked.values() if name]
    stored = dict(Proposal.objects.filter(pk__in=ids).values_list("pk", "body"))
    erased = erasures.list_erased(tenant=tenant, flows=asked)
    for dfid, (name, digest) in asked.items():
        if name:
            gathered.take(digest, [stored[UUID(name)]] if UUID(name) in stored else [])
        if dfid in erased:
            gathered.withhold(digest, sources.ERASED)
    return gathered.objects()


def _spec(record: Record) -> str | None:
    spec: str | None = record.document["lineage"]["decision_spec"]
    return spec


def _replayed(tenant: str, dfid: str) -> str:
    result = flow_replay.replay(tenant=tenant, dfid=UUID(dfid))
    match result:
        case ReplayEqual():
            return "replay_equal"
        case NotReplayable():
            return "not_replayable"
    return "difference"


def _health(spec: str | None, count: int, results: Mapping[str, int]) -> dict[str, Any]:
    flows = sum(results.values())
    return {
        "decision_spec": spec,
        "records": count,
        "flows": flows,
        **{name: results.get(name, 0) for name in ("replay_equal", "difference", "not_replayable")},
        "replay_equal_rate": results.get("replay_equal", 0) / flows if flows else None,
    }
