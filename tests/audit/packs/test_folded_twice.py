"""The fold and the verifier's own, two programs that share no line: from any entries the same record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import canonical
from audit.events import Kind
from audit.packs import verify
from audit.packs.verify import Brought, Pack
from audit.records import fold
from audit.records.fold import Said
from runtime.contracts.states import Decision, Impact
from runtime.contracts.verdict import Finding, FindingOutcome, StepRequest, VerdictDocument
from runtime.flows.queries import judged_rules
from runtime.kernel.gate.gate_input import PolicyBundle
from tests.support import evidence_packs, gate_cases
from tests.support.evidence_packs import ESCALATION, FLOW, TENANT, moment, sha256

pytestmark = pytest.mark.once

OTHER = ESCALATION[:-1] + "f"
SUBJECTS = ("order:${params.symbol}", "desk:equities", "account:${params.nowhere}")
# Few values of each, so that entries meet.
HASHES = [character * 64 for character in "abc"]
SCORE = {"version": "1.0.0", "value": "0.5", "minimum": "0.5", "passed": True, "reason": "It is so."}
SCORING = {"targets": {"wall_clock_s": 5}, "minimum": {"policy": "1"}}
WORDS: Mapping[str, list[Any]] = {
    "escalation_id": [ESCALATION, OTHER],
    "proposal_id": [evidence_packs.PROPOSED, evidence_packs.CHANGED],
    "intent_id": [evidence_packs.INTENT, OTHER],
    "author": ["agent:buyer", "user:7", "user:8"],
    "policy_kind": ["ADJUST_POSITION", "OTHER"],
    "policy_version": ["1.2.0", ""],
    "context_ref": [*HASHES, ""],
    "verdict": ["ACCEPT", "ESCALATE", "REJECT"],
    "impact": ["LOW_IMPACT", "CRITICAL"],
    "family": ["DECISION", "OPERATIONAL", "AGENT"],
    "to_state": [
        "ACTIVE",
        "VALIDATING",
        "ESCALATED",
        "ACCEPTED",
        "EXECUTING",
        "PARTIAL_SUCCESS_DIRTY",
        "COMPENSATING",
        "CLOSED",
        "ABORTED",
    ],
    "action": ["OVERRIDE", "ABORT", "STOP_AGENT", "RESUME"],
    "state": ["CONFIRMED", "SUPERSEDED"],
    "status": ["SUCCEEDED", "FAILED", "COMPENSATED"],
    "result": ["SUCCEEDED", "FAILED", "UNKNOWN"],
    "sequence": [1, 2],
    "revision": [1, 2],
    "approvals": [None, 1, 2],
    "number": [1, 2],
    "numbers": [[1], [2], [1, 2]],
    "effect": ["HAPPENED", "NOT_HAPPENED"],
    "suite": ["standard@1.0.0"],
    "scores": [
        [],
        [{**SCORE, "evaluator": "policy"}],
        [{**SCORE, "evaluator": "policy"}, {**SCORE, "evaluator": "safety", "value": None, "passed": None}],
    ],
    "tokens": [0, 7],
    "tool_calls": [None, 0, 3],
    "cost_usd": [None, "0.05", "0.000001", "12", "100"],
    "payload_ref": [None, "notes:1", "notes:2"],
    "receipt_commitment": [None, *HASHES],
    "outcome_digest": [None, *HASHES],
    "outputs_commitment": [None, *HASHES],
    "outcome": [None, "filled", "partly"],
    "outputs": [[], ["price"], ["price", "quantity"]],
    "findings": [
        [],
        [{"code": "OUTCOME_NOT_ALLOWED", "place": "outcome"}],
        [{"code": "OUTPUTS_INVALID", "place": name} for name in ("outputs_schema", "outputs")],
    ],
    "step": ["order", "book"],
    "direction": [None, "FORWARD", "COMPENSATE"],
    "purpose": [None, "CALL", "PROBE"],
    "traceparent": [None, "", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x"],
    "reason": ["", "LIMIT"],
    "deviations": [0, 2],
    "agent_id": ["buyer"],
    "delegated_user_id": [None, "usr_771"],
    "scope": ["desk", "own"],
    "key": ["prices"],
    "version": [1, 2],
    "digest": [None, *HASHES],
    "rule_output_id": [evidence_packs.INTENT, OTHER],
    "decision_id": [evidence_packs.INTENT, OTHER],
}
_CALL = ("intent_id", "number")
_SIGNED = ("escalation_id", "revision", "evidence_hash", "statement_digest", "key_id", "sequence")
FIELDS: Mapping[Kind, tuple[str, ...]] = {
    Kind.FLOW_MOVED: ("to_state", "reason"),
    Kind.STEP_REPORTED: ("payload_ref",),
    Kind.MEMORY_READ: ("scope", "key", "version", "digest"),
    Kind.RULES_EVALUATED: ("rule_output_id", "output_digest"),
    Kind.DECISION_RECOMMENDED: ("decision_id", "package_digest"),
    Kind.USAGE_REPORTED: ("tokens", "tool_calls", "cost_usd"),
    Kind.ESCALATION_OPENED: ("escalation_id", "family", "impact", "approvals", "revision", "evidence_hash"),
    Kind.ESCALATION_REVISED: ("escalation_id", "impact", "approvals", "revision", "evidence_hash"),
    Kind.ESCALATION_FIRST_DECIDED: _SIGNED,
    Kind.ESCALATION_FIRST_ENDED: ("escalation_id", "sequence", "state"),
    Kind.ESCALATION_DECIDED: (*_SIGNED, "action"),
    Kind.ESCALATION_REOPENED: ("escalation_id", "sequence"),
    Kind.ESCALATION_EXPIRED: ("escalation_id",),
    Kind.INFORMATION_REQUESTED: ("escalation_id", "number"),
    Kind.INFORMATION_ANSWERED: ("escalation_id", "number", "answer_commitment"),
    Kind.INFORMATION_CLOSED: ("escalation_id", "number"),
    Kind.INTENT_SUPERSEDED: ("intent_id",),
    Kind.ATTEMPT_STARTED: (*_CALL, "step", "target_key", "direction", "purpose"),
    Kind.ATTEMPT_FINISHED: (*_CALL, "result", "receipt_commitment"),
    Kind.ATTEMPT_REPORTED_LATE: (*_CALL, "result", "receipt_commitment"),
    Kind.ATTEMPT_SETTLED: ("intent_id", "numbers", "effect"),
    Kind.INTENT_HELD: ("intent_id",),
    Kind.RECORD_SCORED: ("suite", "result", "reason", "scores"),
    Kind.OUTCOME_RECORDED: ("intent_id", "status", "receipt_commitment", "outcome_digest", "deviations"),
    Kind.OUTCOME_NAMED: (
        "intent_id",
        "outcome",
        "outputs",
        "outputs_commitment",
        "receipt_commitment",
        "findings",
    ),
    Kind.NOTE_WRITTEN: ("number",),
}
_OPENED = ("agent_id", "trigger_commitment", "traceparent", "delegated_user_id")
_PROPOSED = ("proposal_id", "author", "policy_kind", "policy_version", "proposal_digest", "context_ref")


def payloads(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads with these fields; where no words are given for one, it is a digest."""
    return st.fixed_dictionaries({name: st.sampled_from(WORDS.get(name, HASHES)) for name in names})


bundles = st.builds(
    PolicyBundle,
    kind=st.none()
    | st.builds(
        gate_cases.kind,
        approvals=st.sampled_from([1, 2]),
        approval_mode=st.sampled_from([None, "a-word", "none", "person", "destructive", "two_persons"]),
        reversible=st.booleans(),
        gate_id=st.sampled_from([None, "GATE_DESK"]),
        category=st.sampled_from([None, "trade.buy"]),
        scorecard=st.sampled_from([None, SCORING]),
        subjects=st.lists(st.sampled_from(SUBJECTS), max_size=4),
        constraints=st.sampled_from([[], gate_cases.KIND["constraints"]]),
        limits=st.sampled_from([[], [{**gate_cases.KIND["limits"][0], "on_exceed": "REJECT"}]]),
    ),
    manifest=st.none()
    | st.builds(
        gate_cases.manifest,
        model_profile=st.sampled_from([None, "profile.safe"]),
        evaluator_suite=st.sampled_from([None, "eval.desk"]),
    ),
)


def _step(name: str, undone_by: str | None) -> StepRequest:
    call: dict[str, Any] = {
        "executor": "http",
        "target": "broker",
        "method": "POST",
        "path": "/",
        "body": None,
    }
    undo = None if undone_by is None else StepRequest(step=name, key=undone_by, timeout_s=1, **call)
    return StepRequest(step=name, key=f"key-{name}", timeout_s=1, compensation=undo, **call)


steps = st.lists(
    st.builds(_step, st.sampled_from(["order", "book"]), st.sampled_from([None, "undo-1", "undo-2"])),
    max_size=2,
)


found = st.lists(
    st.builds(
        Finding,
        check=st.just("limits"),
        outcome=st.sampled_from(FindingOutcome),
        code=st.sampled_from(["LIMIT", "R_SIZE"]),
        subject=st.sampled_from(["", "L_ASK", "R_SIZE"]),
    ),
    max_size=4,
)


class Entries:
    """Entries of a flow, and the documents behind them."""

    def __init__(self) -> None:
        self.told: list[Said] = []
        self.objects: dict[str, bytes] = {}
        self.documents: dict[str, tuple[PolicyBundle, VerdictDocument]] = {}

    def add(self, kind: str, actor: str, payload: Mapping[str, Any]) -> None:
        seq = len(self.told) + 1
        self.told.append(Said(seq, str(kind), moment(seq * 1.2345), actor, dict(payload)))

    def propose(
        self,
        said: dict[str, Any],
        verdict: dict[str, Any],
        bundle: PolicyBundle,
        plan: Sequence[StepRequest],
        against: Sequence[Finding],
    ) -> None:
        """A proposal and its verdict, which always come together."""
        self.add(Kind.PROPOSAL_SUBMITTED, said["author"], said)
        known = VerdictDocument(
            gate_version="1.1.0",
            decision=Decision(verdict["verdict"]),
            findings=tuple(against),
            impact=Impact(verdict["impact"]),
            effect=(),
            predicted=(),
            # Without a kind nothing can be called.
            steps=tuple(plan) if bundle.kind else (),
            attempts_left=1,
            exhausted=False,
        )
        codes = ["LIMIT", "LIMIT", "R_SIZE"] if verdict["verdict"] != "ACCEPT" else []
        given = {**verdict, "proposal_id": said["proposal_id"], "gate_version": "1.1.0"}
        given |= {"verdict_digest": self._keep(known.to_bytes())}
        given |= {"policy_bundle_hash": self._keep(bundle.to_bytes())}
        given |= {"reasons": [{"check": "limits", "code": code} for code in codes]}
        self.documents[given["verdict_digest"]] = (bundle, known)
        self.add(Kind.VERDICT_GIVEN, said["author"], given)

    def _keep(self, content: bytes) -> str:
        self.objects[sha256(content)] = content
        return sha256(content)

    def rules(self, said: Mapping[str, Any]) -> fold.Rules:
        bundle, verdict = self.documents[said["verdict_digest"]]
        # The bundle of this entry: two verdicts may have the same bytes.
        bundle = PolicyBundle.from_bytes(self.objects[said["policy_bundle_hash"]])
        return judged_rules.of(gate_cases.case(rules=bundle), verdict)


@st.composite
def flows(draw: st.DrawFn) -> Entries:
    entries = Entries()
    kinds = st.sampled_from([*FIELDS, *[Kind.VERDICT_GIVEN] * 4])
    if draw(st.booleans()):
        entries.add(Kind.FLOW_OPENED, "agent:buyer", draw(payloads(_OPENED)))
        entries.add(Kind.CONTEXT_COMPILED, "agent:buyer", {"context_ref": draw(st.sampled_from(HASHES))})
    for kind in draw(st.lists(kinds, min_size=1, max_size=25)):
        if kind == Kind.VERDICT_GIVEN:
            verdict = draw(payloads(("verdict", "impact")))
            entries.propose(draw(payloads(_PROPOSED)), verdict, draw(bundles), draw(steps), draw(found))
        else:
            entries.add(kind, draw(st.sampled_from(["agent:buyer", "user:7"])), draw(payloads(FIELDS[kind])))
    return entries


def folded(
    entries: Entries, ends: list[int], *, stored: bool, version: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records at these entries, each from the one before it: as it was stored, or as it was made."""
    before: dict[str, Any] | None = None
    last = 0
    for end in ends:
        since = entries.told[last:end]
        before = fold.fold(dfid=FLOW, previous=before, entries=since, rules=entries.rules, version=version)
        yield end, canonical.decode(canonical.encode(before))
        before = canonical.decode(canonical.encode(before)) if stored else before
        last = end


def pack_of(entries: Entries) -> Pack:
    members = evidence_packs.with_manifest(
        {f"objects/{digest}": content for digest, content in entries.objects.items()}
    )
    return Pack(members, None, Brought())


def entry_of(said: Said) -> verify.Entry:
    content = {"kind": said.kind, "at": said.at, "actor": said.actor, "payload": dict(said.payload)}
    return verify.Entry(TENANT, FLOW, said.seq, b"", b"", b"", 0, (), content)


@settings(max_examples=150)
@given(flows(), st.data())
def test_two_folds_come_to_the_same_record(entries: Entries, data: st.DataObject) -> None:
    count = len(entries.told)
    ends = sorted(data.draw(st.sets(st.integers(1, count), min_size=1, max_size=6)))
    pack = pack_of(entries)
    retold = verify.Retold(pack)
    version = retold.version = data.draw(st.sampled_from(fold.VERSIONS))
    for said in entries.told[: ends[0]]:
        retold.take(entry_of(said))
    last = ends[0]
    for end, record in folded(entries, ends, stored=data.draw(st.booleans()), version=version):
        for said in entries.told[last:end]:
            retold.take(entry_of(said))
        retold.first = 1 + max((each for each in ends if each < end), default=0)
        last = end
        told = retold.record(end)
        emitted = {"record_id": record["record_id"]}
        retold.take(entry_of(Said(end, "record:emitted", moment(end * 1.2345), "system", emitted)))
        assert list(verify._unlike(told, record, "$")) == []
        # What is open is only what the expressions of a kind make.
        open_parts = {name for name in told if isinstance(told[name], verify.Open)}
        assert open_parts <= {"subject_ids"}


@pytest.mark.parametrize("version", fold.VERSIONS)
def test_both_folds_know_the_same_entries_that_change_a_record(version: str) -> None:
    changing = set(verify._CHANGING)
    if version not in verify._WITHOUT_ADVICE:
        changing |= verify._REFS_OF_ADVICE.keys()
    assert {kind.value for kind in Kind if fold.changes(kind, version=version)} == changing
    assert verify.FOLD_VERSIONS == fold.VERSIONS
