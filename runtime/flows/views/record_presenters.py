"""DecisionRecords for people: badges, the rows of a list, and the parts of one record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.urls import reverse

from audit.assessments import Assessment, Correction
from audit.records import dsse, evaluators, fold
from audit.records.feedback import FeedbackShown
from audit.records.queries import OtherRecord, Read, Record, Superseded
from audit.records.statuses import Status
from audit.sealing.keys import Keyring
from runtime.core.views import labels, query_params, times
from runtime.core.views.labels import Badge
from runtime.registry.queries import people

STATUSES: Final[Mapping[str, Badge]] = {
    Status.DECIDED: Badge("ok", "check", "Decided", "Accepted, and done"),
    Status.IN_FLIGHT: Badge("accent", "bolt", "In flight", "Accepted, and being carried out"),
    Status.ESCALATED: Badge("warn", "refer", "Escalated", "Waits for a person"),
    Status.DEFERRED: Badge("info", "clock", "Deferred", "Waits for the agent"),
    Status.REJECTED: Badge("danger", "cross", "Rejected", "Refused by the gate or by a person"),
    Status.CLOSED: Badge("idle", "exit", "Closed", "Ended otherwise than decided"),
}
# By how many people must agree; the lightest first, as in `audit.records.fold`.
MODES: Final[Mapping[str, str]] = {
    "none": "No person",
    "person": "One person",
    "destructive": "One person, cannot be undone",
    "two_persons": "Two people",
}
VERDICTS: Final[Mapping[str, Badge]] = {
    "allow": Badge("ok", "check", "Allow"),
    "require_approval": Badge("warn", "refer", "Require approval"),
    "deny": Badge("danger", "cross", "Deny"),
}
ASSESSMENTS: Final[Mapping[str, Badge]] = {
    Assessment.RIGHT: Badge("ok", "check", "Right", "The decision was right"),
    Assessment.WRONG: Badge("danger", "cross", "Wrong", "Something else should have been decided"),
    Assessment.UNSAFE: Badge("danger", "high", "Unsafe", "It could have done harm, whatever came of it"),
    Assessment.UNNECESSARY_ESCALATION: Badge(
        "info", "refer", "Unnecessary escalation", "No person needed to be asked"
    ),
    Assessment.MISSING_ESCALATION: Badge(
        "warn", "refer", "Missing escalation", "A person should have been asked"
    ),
}
CORRECTIONS: Final[Mapping[str, str]] = {
    Correction.ALLOW: "Let it run",
    Correction.ALLOW_CHANGED: "Let it run with changes",
    Correction.REFUSE: "Refuse it",
    Correction.ASK_A_PERSON: "Ask a person",
}
SIGNED: Final[Mapping[bool | None, Badge]] = {
    True: Badge("ok", "check", "Signature verified"),
    False: Badge("danger", "high", "Signature is wrong", "The named key did not sign it while it was valid"),
    None: Badge("warn", "ask", "Key not known", "No entry has begun the key that is named"),
}
RESULTS: Final[Mapping[str, Badge]] = {
    evaluators.PASSED: Badge("ok", "check", "Passed", "No score is below its minimum"),
    evaluators.FAILED: Badge("danger", "cross", "Failed", "At least one score is below its minimum"),
    evaluators.UNSCORED: Badge("idle", "ask", "Not scored", "No evaluator could give a score"),
}
SCORED: Final[Mapping[bool | None, Badge]] = {
    True: Badge("ok", "check", "Enough"),
    False: Badge("danger", "cross", "Too low"),
    None: Badge("idle", "ask", "No score"),
}
EVALUATORS: Final[Mapping[str, str]] = {
    "policy": "Policy",
    "utility": "Utility",
    "latency": "Latency",
    "safety": "Safety",
    "cost": "Cost",
}
WHICH: Final[Mapping[str, str]] = {
    Superseded.HIDDEN: "Leave out",
    Superseded.SHOWN: "Show as well",
    Superseded.ALONE: "Show only these",
}
SUPERSEDED: Final = Badge("idle", "exit", "Superseded", "A later record has taken its place")
MATCHES: Final = Badge("ok", "check", "Matches its ledger entry", "The entry holds the hash of this record")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordRow:
    """One line of a list. Of a record that is not shown only the id and `untrusted`, which says why."""

    record_id: str
    untrusted: str = ""
    is_erased: bool = False
    dfid: str = ""
    at: datetime | None = None
    decision: str = ""
    status: Badge | None = None
    superseded: Badge | None = None
    outcome: str = ""
    score: Badge | None = None
    failed: str = ""
    agent_id: str = ""
    subjects: Sequence[str] = ()
    mode: str = ""
    approvers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """What a record refers to: what it is, its id or digest, and a page about it where there is one."""

    what: str
    name: str
    digest: str
    url: str


def rows(found: Sequence[Read]) -> list[RecordRow]:
    """The lines of a list, with one query for the names of people."""
    approvers = [_approvers(row.document) for row in found if isinstance(row, Record)]
    names = people.names_of([actor for each in approvers for actor in each])
    return [_row(row, names) for row in found]


def _row(row: Read, names: Mapping[str, str]) -> RecordRow:
    if isinstance(row, OtherRecord):
        return RecordRow(record_id=row.record_id, untrusted=row.mismatch, is_erased=row.is_erased)
    document = row.document
    return RecordRow(
        record_id=row.record_id,
        dfid=row.dfid,
        at=datetime.fromisoformat(document["timestamp"]),
        decision=decision(document),
        status=labels.badge(STATUSES, document["status"]),
        superseded=SUPERSEDED if row.superseded_by else None,
        outcome=document["outputs"]["outcome"],
        score=_result(document),
        failed=", ".join(line["title"] for line in _scores(document) if line["passed"] is False),
        agent_id=document["actor"]["id"],
        subjects=document["subject_ids"],
        mode=mode(document["approval_mode_effective"]),
        approvers=[labels.actor_words(actor, names) for actor in _approvers(document)],
    )


def outcomes(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outcomes of a report, with badges and the names of people."""
    names = people.names_of([actor for each in found for actor in _approvers(each)])
    return [
        {
            **each,
            "at": datetime.fromisoformat(each["timestamp"]),
            "badge": labels.badge(STATUSES, each["status"]),
            "approvers": [labels.actor_words(actor, names) for actor in _approvers(each)],
            "amount": labels.number(each["amount"]),
        }
        for each in found
    ]


def decision(document: Mapping[str, Any]) -> str:
    """The kind and its version; empty before anything was proposed."""
    parts = (document["decision_key"], document["decision_version"])
    return "@".join(part for part in parts if part)


def mode(value: str) -> str:
    """An approval mode in words."""
    return MODES.get(value, value)


def _approvers(document: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(given["approver"] for given in document["approvals"]))


def shown(record: Record, ring: Keyring) -> dict[str, Any]:
    """The parts of one record, for its page."""
    document = record.document
    actor = document["actor"]
    is_claim = actor.get("delegated_user_source") == fold.BY_CLAIM
    named = [*_approvers(document), "" if is_claim else actor["delegated_user_id"] or ""]
    names = people.names_of(named)
    at = datetime.fromisoformat(document["timestamp"])
    signed = ring.verify(dsse.statement(record.body), record.signature, record.key_id, at=at)
    return {
        "record": document,
        "entry": record.entry,
        "rules": (document["lineage"]["pack_version"] or "").removeprefix("bundle@sha256:"),
        "none_so_far": "none" if document["terminal"] else "none yet",
        "at": at,
        "decision": decision(document),
        "status": labels.badge(STATUSES, document["status"]),
        "mode": mode(document["approval_mode_effective"]),
        "superseded": SUPERSEDED if record.superseded_by else None,
        "superseded_by": record.superseded_by,
        "scores": document["scorecard"] | {"result": _result(document), "lines": _scores(document)},
        "matches": MATCHES,
        "signed": SIGNED[signed],
        "signature": record.signature.hex(),
        "person": labels.actor_words(named[-1], names) if named[-1] else "",
        "claimed_user": actor["delegated_user_id"] if is_claim else "",
        "inputs": [reference(record.dfid, item) for item in _inputs(document)],
        "evidence": [reference(record.dfid, item) for item in document["evidence_refs"]],
        "policies": [
            item | {"badge": labels.badge(VERDICTS, item["verdict"])} for item in document["policy_decisions"]
        ],
        "approvals": [_approval(given, names) for given in document["approvals"]],
        "calls": document["tool_lineage"],
        "cost": labels.amount_in(document["budget_usage"]["cost_usd_cents"], "cents USD"),
        "took": times.span(timedelta(milliseconds=document["budget_usage"]["wall_clock_ms"])),
        "body": labels.pretty(document),
    }


def _result(document: Mapping[str, Any]) -> Badge | None:
    scorecard = document["scorecard"]
    return labels.badge(RESULTS, scorecard["result"]) if scorecard else None


def _scores(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scores of a record, in the order of the suite's evaluators as people read them."""
    scorecard = document["scorecard"]
    details = scorecard.get("details", {})
    order = [*(name for name in EVALUATORS if name in details), *(details.keys() - EVALUATORS.keys())]
    return [
        details[name]
        | {
            "title": EVALUATORS.get(name, name),
            "value": scorecard[name],
            "badge": SCORED[details[name]["passed"]],
        }
        for name in order
    ]


def feedback(given: Sequence[FeedbackShown]) -> list[dict[str, Any]]:
    """What people said of a record, with their names."""
    names = people.names_of([item.author for item in given])
    return [
        {
            "row": item,
            "author": labels.actor_words(item.author, names),
            "badge": labels.badge(ASSESSMENTS, item.assessment),
            "correction": CORRECTIONS.get(item.correction, item.correction),
            "reason": None if item.reason is None else labels.visible_lines(item.reason),
        }
        for item in given
    ]


def _inputs(document: Mapping[str, Any]) -> list[str]:
    inputs = document["inputs_refs"]
    trigger = f"trigger:{inputs['trigger']}" if inputs["trigger"] else ""
    attached = [f"attachment:{item}" for item in inputs["attachments"]]
    return [item for item in (inputs["request"], trigger, *attached) if item]


def _approval(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        **given,
        "name": labels.actor_words(given["approver"], names),
        "at": datetime.fromisoformat(given["decided_at"]),
        "mode": mode(given["approval_mode_effective"]),
    }


def reference(dfid: str, text: str) -> Reference:
    """A reference of a record, such as `evidence:ID/1#sha256:…`, in its parts."""
    what, _, rest = text.partition(":")
    name, _, digest = rest.partition("#sha256:")
    match what:
        case "context":
            return Reference("Context", "", name, reverse("flow-context", args=[dfid, name]))
        case "evidence":
            escalation, _, revision = name.partition("/")
            known = query_params.uuid(escalation)
            url = reverse("escalation", args=[known]) if known else ""
            return Reference("Evidence", f"revision {revision}", digest, url)
        case "proposal" | "verdict" | "outcome":
            return Reference(what.capitalize(), "", digest, reverse("flow", args=[dfid]))
        case "memory":
            return Reference("Memory", name, digest, "")
        case "rule_output" | "decision_package":
            said = what.replace("_", " ").capitalize()
            return Reference(said, name, digest, reverse("flow", args=[dfid]))
    return Reference(what.capitalize(), "", rest, "")
