"""DARE's five conformance checks, on what this installation has done."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.models import Exists, OuterRef

from audit import actors, canonical, cells
from audit import queries as entries_of
from audit.events import Kind
from audit.records import rules
from audit.sealing import keys
from dir_console.conformance import bypass, ledger
from dir_console.conformance.items import Answer, Check, Finding, Group, counted, judged
from dir_console.conformance.sample import Sample
from escalations.contracts import Action, DecisionState
from escalations.models import Decision, Evidence
from runtime.contracts.states import Decision as VerdictDecision
from runtime.flows.models import Attempt, Intent, Verdict
from runtime.proposals.queries.replay_results import NotReplayable, ReplayDifference, ReplayEqual

# The newest intents and decisions of which the entries are read as well.
INTENTS: Final = 200
DECISIONS: Final = 50
_RUNS: Final = tuple(action for action in Action if action.spec.submits_proposal)


def check_decisions_before_calls(sample: Sample) -> Finding:
    """Each attempt belongs to a proposal that the gate accepted; its request is the one that was recorded."""
    attempts = Attempt.objects.filter(intent__tenant=sample.tenant)
    accepted = Verdict.objects.filter(proposal=OuterRef("intent__proposal"), decision=VerdictDecision.ACCEPT)
    total, without = attempts.count(), attempts.filter(~Exists(accepted))
    wrong = [
        f"The call {number} of intent {intent} has no verdict that accepts it."
        for intent, number in without.values_list("intent_id", "number")[:100]
    ]
    called = Intent.objects.filter(tenant=sample.tenant, attempt_rows__number=1).select_related("proposal")
    newest = list(called.order_by("-intent_id")[:INTENTS])
    wrong += _unlinked(sample.tenant, newest)
    tried = (
        f"Counted all {counted(total, 'attempt')} to call a target, and those of an intent without an "
        f"accepting verdict. For the newest {counted(len(newest), 'intent')} that made a call, compared the "
        "stored requests with the digest in their entry, and looked for the accepting verdict before it."
    )
    seen = f"{counted(without.count(), 'attempt')} without a verdict that accepts it, of {total}."
    if not total:
        return Finding(
            answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why="No target was ever called here."
        )
    return judged(tried=tried, seen=seen, wrong=wrong)


def _unlinked(tenant: str, intents: Sequence[Intent]) -> list[str]:
    """Intents whose entries do not lead from an accepting verdict to the stored requests."""
    told: dict[str, dict[Kind, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    streams = {str(intent.flow_id) for intent in intents}
    kinds = (Kind.VERDICT_GIVEN, Kind.INTENT_CREATED)
    said = entries_of.list_dated_by_stream(tenant=tenant, streams=streams, kinds=kinds)
    for stream, entries in said.items():
        for kind, _, payload in entries:
            told[stream][kind].append(payload)
    wrong = []
    for intent in intents:
        name, of_flow = str(intent.intent_id), told[str(intent.flow_id)]
        created = next((each for each in of_flow[Kind.INTENT_CREATED] if each["intent_id"] == name), None)
        if created is None:
            wrong.append(f"No entry records the intent {name}.")
            continue
        if created["request_digest"] != cells.digest_of(intent.requests):
            wrong.append(f"The requests of intent {name} are not those whose digest its entry has.")
        accepted = {
            each["proposal_id"]
            for each in of_flow[Kind.VERDICT_GIVEN]
            if each["verdict"] == VerdictDecision.ACCEPT
        }
        if created["proposal_id"] not in accepted or created["proposal_id"] != str(intent.proposal_id):
            wrong.append(f"No entry says that the proposal of intent {name} was accepted.")
    return wrong


def check_no_bypass(sample: Sample) -> Finding:
    """The parts that are tried one by one below, together."""
    parts = [(check, check.run(sample)) for check in bypass.CHECKS]
    wrong = [f"{check.id}: {found.why}" for check, found in parts if found.answer is Answer.NO]
    short = [f"{check.id}: {found.why}" for check, found in parts if found.answer is Answer.PARTLY]
    short += [f"{check.id}: {found.why}" for check, found in parts if found.answer is Answer.NOT_APPLICABLE]
    return judged(
        tried="The parts of the section below, each of which says what it tried.",
        seen=", ".join(f"{check.id}: {found.answer.value}" for check, found in parts) + ".",
        wrong=wrong,
        short=short,
    )


def check_replay(sample: Sample) -> Finding:
    """Replay the newest ended flows."""
    replays = sample.replays
    results = list(replays.results.items())
    equal = [result for _, result in results if isinstance(result, ReplayEqual)]
    erased = [dfid for dfid, result in results if isinstance(result, NotReplayable)]
    wrong = [
        f"Flow {dfid}: {result.change.value} at {result.path}, entry {result.seq}."
        for dfid, result in results
        if isinstance(result, ReplayDifference)
    ]
    wrong += [f"Flow {dfid} is gone." for dfid, result in results if result is None]
    verdicts = sum(result.verdicts for result in equal)
    tried = (
        f"Replayed the newest {counted(len(results), 'ended flow')}: chain, every stored row against its "
        "entry, receipts of targets included, and every verdict judged again."
    )
    seen = (
        f"{counted(len(equal), 'flow')} equal with {counted(verdicts, 'verdict')}, {len(wrong)} different, "
        f"{len(erased)} not replayable because words were erased"
        + (f"; {replays.left} more left out, since the time was over." if replays.left else ".")
    )
    if not results:
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why="No flow has ended yet.")
    short = [] if equal else ["Words of every flow of the sample were erased."]
    return judged(tried=tried, seen=seen, wrong=wrong, short=short)


def check_approvals(sample: Sample) -> Finding:
    """The newest decisions are signed and bound to their evidence; what ran with a person has such a "
    "decision."""
    rows = Decision.objects.filter(escalation__tenant=sample.tenant).select_related("escalation")
    newest = list(rows.order_by("-decided_at", "-pk")[:DECISIONS])
    wrong, unknown = _unsigned(sample.tenant, newest)
    by_people = Attempt.objects.filter(
        intent__tenant=sample.tenant, intent__proposal__author__startswith=actors.USER
    )
    decided = Decision.objects.filter(
        escalation__flow=OuterRef("intent__flow"), action__in=_RUNS, state=DecisionState.IN_EFFECT
    )
    free = by_people.filter(~Exists(decided))
    wrong += [
        f"The call {number} of intent {intent} has a person as author, and no decision in effect."
        for intent, number in free.values_list("intent_id", "number")[:100]
    ]
    records = [record for found in sample.records.values() if found for record in found.records]
    wrong += [
        f"Record {record.record_id}: {broken}."
        for record in records
        for broken in rules.violations(record.document)
        if broken.startswith("Approval")
    ]
    tried = (
        f"Verified the newest {counted(len(newest), 'decision')} of people: signature, statement and "
        "evidence against their entries. Looked for calls by a person's proposal without a decision, among "
        f"all {by_people.count()}; and for missing approvals in {counted(len(records), 'decision record')}."
    )
    seen = (
        f"{counted(len(newest), 'decision')} checked, {counted(len(unknown), 'signature')} by a key that is "
        f"not known here, {counted(free.count(), 'call')} without a decision."
    )
    if not newest and not wrong:
        return Finding(
            answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why="No person has decided anything yet."
        )
    return judged(tried=tried, seen=seen, wrong=wrong, short=unknown)


def _unsigned(tenant: str, decisions: Sequence[Decision]) -> tuple[list[str], list[str]]:
    """What is wrong with decisions, and whose signature cannot be checked here."""
    streams = {str(row.escalation.flow_id) for row in decisions}
    kinds = (Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED)
    said = entries_of.list_dated_by_stream(tenant=tenant, streams=streams, kinds=kinds)
    entries = {
        (payload["escalation_id"], payload.get("sequence", 1)): (at, payload)
        for found in said.values()
        for _, at, payload in found
    }
    shown = Evidence.objects.filter(escalation__in={row.escalation_id for row in decisions})
    evidence = {
        (pk, revision): body for pk, revision, body in shown.values_list("escalation", "revision", "body")
    }
    ring = keys.keyring(tenant=tenant)
    wrong, unknown = [], []
    for row in decisions:
        name = f"The decision {row.sequence} on {row.escalation_id}"
        told = entries.get((str(row.escalation_id), row.sequence))
        statement = cells.bytes_of(row.statement) or b""
        if told is None:
            wrong.append(f"{name} has no entry.")
            continue
        at, payload = told
        if canonical.digest(statement) != payload["statement_digest"]:
            wrong.append(f"{name} is not the one whose digest its entry has.")
            continue
        is_signed = ring.verify(statement, cells.bytes_of(row.signature) or b"", payload["key_id"], at=at)
        if is_signed is None:
            unknown.append(f"{name} is signed by {payload['key_id']}, which is not known here.")
        elif not is_signed:
            wrong.append(f"{name} is not signed by {payload['key_id']}.")
        stated = canonical.decode(statement)["evidence_hash"]
        if {stated, payload["evidence_hash"]} != {
            cells.digest_of(evidence.get((row.escalation_id, row.revision)))
        }:
            wrong.append(f"{name} names other evidence than what is stored as revision {row.revision}.")
    return wrong, unknown


def _check(number: int, **fields: Any) -> Check:
    return Check(id=f"dare-{number}", group=Group.DARE, paper=f"DARE, conformance check {number}", **fields)


CHECKS: Final = (
    _check(
        1,
        asks="No tool runs without a record of a policy decision that is linked to the hash of its request.",
        tries="Counts all attempts to call a target whose proposal has no accepting verdict, and follows "
        f"the newest {INTENTS} intents from the digest of their requests to the entry of that verdict.",
        run=check_decisions_before_calls,
        tests=(
            "tests/promises/test_no_effect_without_an_intent.py::test_only_what_was_accepted_reaches_the_target",
        ),
    ),
    _check(
        2,
        asks="There is no path from the runtime to tools or memory that goes past the checks (network, "
        "identity, SDK).",
        tries="Takes the parts of the section about bypass paths together.",
        run=check_no_bypass,
        tests=("tests/web/test_every_write_url.py::test_an_agent_key_writes_nothing_but_its_handshake",),
    ),
    _check(
        3,
        asks="Replay brings out the same run at the border to tools and memory, from recorded snapshots and "
        "pinned rules.",
        tries="Replays the newest ended flows, as `manage.py replay` does.",
        run=check_replay,
        tests=(
            "tests/golden/test_flows.py::test_a_recorded_flow_replays_equal",
            "tests/golden/test_streams.py::test_everything_is_made_again_as_it_was_stored",
        ),
    ),
    _check(
        4,
        asks="The audit ledger is hash-chained, shows tampering, and can be verified.",
        tries=f"Verifies the newest {ledger.ENTRIES} entries, the newest checkpoint and that it goes on "
        "from the one before; changes a byte in memory, which must be noticed.",
        run=ledger.check_ledger,
        tests=(
            "tests/verification/test_tamper_matrix.py::test_a_change_is_named_as_the_table_says",
            "tests/audit/packs/test_checkpoints_side_by_side.py::test_each_case_is_named_as_the_table_says",
        ),
    ),
    _check(
        5,
        asks="Approvals by people are signed, and what needs one does not run without it.",
        tries=f"Verifies the newest {DECISIONS} decisions of people against their entries and their "
        "evidence, and looks for calls that needed one and had none.",
        run=check_approvals,
        tests=("tests/promises/test_what_you_saw_is_what_you_signed.py::test_another_hash_signs_nothing",),
    ),
)
