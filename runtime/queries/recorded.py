"""What the ledger recorded of rows that are about to be used: their bytes are compared with its digests.

A digest column beside the bytes proves nothing, since whoever changes one can change the other. So the digest
comes from the entry, which is found by its stream and the ids in its payload: no row says itself where its
entry is, and rows of every age can be compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit import canonical, queries, row_checks
from audit.events import Kind, RowMismatched
from runtime.contracts.states import IntentState
from runtime.models import (
    Agent,
    Attempt,
    Flow,
    Guard,
    Intent,
    Manifest,
    Outcome,
    PolicyKind,
    Proposal,
    Review,
    Snapshot,
    StepReceipt,
    Target,
    Verdict,
)
from runtime.queries import intent_records
from runtime.queries.intent_records import IntentRecord

_MOST_CONFIRMED = 10_000
_NOT_RECORDED = ""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Bytes of a row that are not what was recorded; `recorded` is empty where no entry is about them."""

    row: str
    row_id: str
    recorded: str
    found: str

    def event(self) -> RowMismatched:
        """The entry that tells it."""
        return RowMismatched(
            row=self.row, row_id=self.row_id, recorded_digest=self.recorded, found_digest=self.found
        )


class TamperedError(Exception):
    """A page was to show rows that are not what was recorded: it names them instead."""

    def __init__(self, found: Sequence[Mismatch]) -> None:
        super().__init__(", ".join(f"{item.row} {item.row_id}" for item in found))
        self.found = found


def require(*compared: Mismatch | None) -> None:
    """For a page that has nothing to show without these rows.

    Raises:
        TamperedError: where one of them is not what was recorded.
    """
    found = [item for item in compared if item is not None]
    if found:
        raise TamperedError(found)


@dataclass(frozen=True, kw_only=True)
class OfFlow:
    """What a flow's entries hold: digests of each proposal and verdict, and its intents, by their ids.

    And by name the last configuration of each target, since a flow may call any of them; `opened` is what its
    first entry records.
    """

    proposals: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    intents: Mapping[str, IntentRecord] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    opened: Mapping[str, Any] = field(default_factory=dict)

    def compare_trigger(self, flow: Flow) -> Mismatch | None:
        """Whether what the agent gave as the reason of its flow is what was committed to."""
        return compare_committed(
            "flow.trigger",
            str(flow.pk),
            tenant=flow.tenant,
            commitment=self.opened.get("trigger_commitment"),
            body=flow.trigger,
        )

    def list_unlike(self, intent: Intent) -> list[Mismatch]:
        """What is not as recorded of an intent, its way and its outcome."""
        outcome = getattr(intent, "outcome", None)
        compared = (self.compare_intent(intent), None if outcome is None else self.compare_outcome(outcome))
        return [mismatch for mismatch in compared if mismatch is not None]

    def compare_outcome(self, outcome: Outcome) -> Mismatch | None:
        """Whether an outcome and its receipt are those that were recorded."""
        record = self.intents.get(str(outcome.pk))
        said = {} if record is None else record.outcome
        if said.get("status") != outcome.status:
            return unlike("outcome.status", str(outcome.pk), said.get("status", ""), outcome.status)
        digest = intent_records.outcome_digest(outcome)
        # Entries of older versions do not hold the digest.
        if said.get("outcome_digest") not in (None, digest):
            return Mismatch(
                row="outcome", row_id=str(outcome.pk), recorded=said["outcome_digest"], found=digest
            )
        if outcome.receipt is None and said["receipt_commitment"] is None:
            return None
        return compare_committed(
            "outcome.receipt",
            str(outcome.pk),
            tenant=outcome.intent.tenant,
            commitment=said["receipt_commitment"],
            body=outcome.receipt,
        )

    def compare_target(self, target: Target) -> Mismatch | None:
        """Whether a target is where it was configured to be, signed for and trusted as it was then."""
        return compare_target(target, self.targets.get(target.name))

    def compare_intent(self, intent: Intent) -> Mismatch | None:
        """Whether what would be sent to targets is what was accepted, at the step that it has come to."""
        record = self.intents.get(str(intent.pk))
        digest = _NOT_RECORDED if record is None else record.request_digest
        found = compare("intent.requests", str(intent.pk), digest, intent.requests)
        return found or compare_progress(intent, record)

    def state_at_rest(self, intent: Intent) -> IntentState | None:
        """The state of an intent that no worker may take, by its entries; None where one may."""
        record = self.intents.get(str(intent.pk))
        return None if record is None else record.at_rest

    def compare_proposal(self, proposal: Proposal) -> Mismatch | None:
        """Whether a proposal is the one that was submitted."""
        recorded = self.proposals.get(str(proposal.pk), _NOT_RECORDED)
        return compare("proposal.body", str(proposal.pk), recorded, proposal.body)

    def compare_verdict(self, verdict: Verdict) -> Mismatch | None:
        """Whether input, rules and bytes of a verdict are those that were recorded with it."""
        said = self.verdicts.get(str(verdict.pk), {})
        digest = said.get("policy_bundle_hash", _NOT_RECORDED)
        if verdict.bundle_id != digest:
            return Mismatch(
                row="verdict.bundle", row_id=str(verdict.pk), recorded=digest, found=verdict.bundle_id
            )
        parts = (
            ("verdict.input", "input_digest", verdict.input),
            ("bundle.body", "policy_bundle_hash", verdict.bundle.body),
            ("verdict.body", "verdict_digest", verdict.body),
        )
        for row, name, body in parts:
            found = compare(row, str(verdict.pk), said.get(name, _NOT_RECORDED), body)
            if found is not None:
                return found
        return None


def of_flow(*, tenant: str, dfid: Any) -> OfFlow:
    """What the entries of one flow recorded, and those about targets, in one query."""
    proposals: dict[str, str] = {}
    verdicts: dict[str, Mapping[str, Any]] = {}
    intents: dict[str, IntentRecord] = {}
    targets: dict[str, Mapping[str, Any]] = {}
    opened: Mapping[str, Any] = {}
    kinds = (Kind.FLOW_OPENED, Kind.PROPOSAL_SUBMITTED, Kind.VERDICT_GIVEN, *intent_records.KINDS)
    entries = queries.list_payloads_and_of_kind(
        tenant=tenant, stream=str(dfid), kinds=kinds, kind=Kind.TARGET_CONFIGURED
    )
    for kind, said in entries:
        # The first entry about a row counts: another one that came later is no second chance.
        match kind:
            case Kind.FLOW_OPENED:
                opened = opened or said
            case Kind.PROPOSAL_SUBMITTED:
                proposals.setdefault(said["proposal_id"], said["proposal_digest"])
            case Kind.VERDICT_GIVEN:
                verdicts.setdefault(said["proposal_id"], said)
            case Kind.TARGET_CONFIGURED:
                targets[said["name"]] = said  # when configured again, the last one counts
            case _:
                intent_records.follow(intents, kind, said)
    return OfFlow(proposals=proposals, verdicts=verdicts, intents=intents, targets=targets, opened=opened)


def compare_progress(intent: Intent, record: IntentRecord | None) -> Mismatch | None:
    """Whether an intent is where its entries have brought it, within the window that they give it.

    A window that ends earlier than recorded makes no call that was not allowed: it is left to expire.
    """
    if record is None:
        return None
    for name, recorded, held in intent_records.list_unlike(record, intent):
        if name == "valid_until" and held < recorded:
            continue
        return unlike(f"intent.{name}", str(intent.pk), recorded, held)
    # Before its first call there is nothing to compare, and most intents are claimed once.
    return (_compare_calls(intent, record) or _compare_finished(intent, record)) if record.calls else None


def _compare_calls(intent: Intent, record: IntentRecord) -> Mismatch | None:
    """Whether its calls came to what was recorded: one in doubt is not settled by a rewritten row."""
    rows = Attempt.objects.filter(intent=intent)
    for number, name, recorded, held in intent_records.list_unlike_calls(record, rows):
        row = f"attempt.{name}" if name else "attempt"
        return unlike(row, f"{intent.pk} attempt {number}", recorded, held)
    return None


def _compare_finished(intent: Intent, record: IntentRecord) -> Mismatch | None:
    """Whether the steps that are done and undone are those of the entries: what is next follows from them."""
    if intent.steps == 1:
        return None
    held = set(StepReceipt.objects.filter(intent=intent).values_list("position", "direction"))
    if held == record.finished:
        return None
    return unlike("stepreceipt", str(intent.pk), sorted(record.finished), sorted(held))


def configured_columns(said: Mapping[str, Any], row: Target) -> Iterator[tuple[str, object, object]]:
    """Each column of a target: its name, what the entry records, and what the row holds."""
    yield "base_url", said["base_url"], row.base_url
    yield "signed", said["signed"], bool(row.secret_env)
    if said.get("secret_env") is not None:
        yield "secret_env", said["secret_env"], row.secret_env
    yield "refuses", canonical.encode(said.get("refuses", ())), _bytes(row.refuses)
    yield "honours_keys", said.get("honours_keys", False), bool(row.honours_keys)
    yield "health", said.get("health") or "", row.health


def compare_target(row: Target, said: Mapping[str, Any] | None) -> Mismatch | None:
    """Whether a target's row matches its last entry; `said` is None where there is no entry."""
    if said is None:
        return Mismatch(
            row="target",
            row_id=row.name,
            recorded=_NOT_RECORDED,
            found=canonical.digest(row.base_url.encode()),
        )
    for name, recorded, stored in configured_columns(said, row):
        if recorded != stored:
            return unlike(f"target.{name}", row.name, recorded, stored)
    return None


def compare_guard(row: Guard) -> Mismatch | None:
    """Whether a soft guard is the one that was configured last, in one query."""
    said = queries.list_payloads_of_kind(tenant=row.tenant, kind=Kind.GUARD_CONFIGURED)
    recorded = [payload["digest"] for _, payload in said if payload["guard_id"] == row.guard_id]
    return compare("guard.body", row.guard_id, recorded[-1] if recorded else _NOT_RECORDED, row.body)


def compare_configured(row: Target) -> Mismatch | None:
    """Whether a target is what was configured last, in one query; of a claim see `of_flow`."""
    return compare_target(row, list_configured(tenant=row.tenant).get(row.name))


def list_configured(*, tenant: str) -> Mapping[str, Mapping[str, Any]]:
    """By name what the last entry about each target records."""
    said = queries.list_payloads_of_kind(tenant=tenant, kind=Kind.TARGET_CONFIGURED)
    return {payload["name"]: payload for _, payload in said}


def compare_manifest(agent: Agent, row: Manifest, *, by: Kind = Kind.MANIFEST_ACTIVATED) -> Mismatch | None:
    """Whether a manifest is the one that was activated. Asks the ledger once per process and version.

    A draft has an entry of another kind: `by` MANIFEST_REGISTERED.
    """
    return _compare_version("manifest.body", _place_of_manifest(agent, row, by), "agent_id", row.body)


def compare_kind(row: PolicyKind, *, by: Kind = Kind.KIND_ACTIVATED) -> Mismatch | None:
    """Whether a policy kind is the one that was activated. Asks the ledger once per process and version.

    A draft has an entry of another kind: `by` KIND_REGISTERED.
    """
    return _compare_version("policykind.body", _place_of_kind(row, by), "policy_kind", row.body)


def compare_drafted_manifest(agent: Agent, row: Manifest) -> Mismatch | None:
    """Whether a manifest is what its author saved, and by whom: asked before it is activated."""
    drafted = Kind.MANIFEST_REGISTERED
    place = _place_of_manifest(agent, row, drafted)
    author = _compare_author("manifest.created_by", place, "agent_id", row.created_by)
    return compare_manifest(agent, row, by=drafted) or author


def compare_drafted_kind(row: PolicyKind) -> Mismatch | None:
    """Whether a kind is what its author saved, and by whom: asked before it is activated."""
    drafted = Kind.KIND_REGISTERED
    author = _compare_author(
        "policykind.created_by", _place_of_kind(row, drafted), "policy_kind", row.created_by
    )
    return compare_kind(row, by=drafted) or author


def _place_of_manifest(agent: Agent, row: Manifest, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return agent.tenant, f"agent:{agent.agent_id}", kind, agent.agent_id, row.version


def _place_of_kind(row: PolicyKind, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return row.tenant, "system", kind, row.kind, row.version


def _compare_author(
    column: str, place: tuple[str, str, Kind, str, str], named: str, author: str
) -> Mismatch | None:
    tenant, stream, kind, name, version = place
    acts = queries.list_acts(tenant=tenant, stream=stream, kinds=(kind,))
    authors = [actor for actor, said in acts if said[named] == name and said["version"] == version]
    if authors[:1] == [author]:
        return None
    return unlike(column, f"{name} {version}", authors[0] if authors else "", author)


# Entries never change, so what was confirmed once stays confirmed; what was not is asked for again.
_confirmed: set[tuple[Any, ...]] = set()


def _compare_version(
    row: str, place: tuple[str, str, Kind, str, str], named: str, body: object
) -> Mismatch | None:
    found = row_checks.digest_of(body)
    if (*place, found) in _confirmed:
        return None
    tenant, stream, kind, name, version = place
    recorded = [
        said["digest"]
        for _, said in queries.list_payloads(tenant=tenant, stream=stream, kinds=(kind,))
        if said[named] == name and said["version"] == version
    ]
    mismatch = _compare_digests(row, f"{name} {version}", recorded[0] if recorded else _NOT_RECORDED, found)
    if mismatch is not None:
        return mismatch
    if len(_confirmed) >= _MOST_CONFIRMED:
        _confirmed.clear()
    _confirmed.add((*place, found))
    return None


def compare(row: str, row_id: str, recorded: str, body: object) -> Mismatch | None:
    """Compare a cell's bytes with the digest that an entry holds (empty for none); None where equal."""
    return _compare_digests(row, row_id, recorded, row_checks.digest_of(body))


def compare_context(row: Snapshot) -> Mismatch | None:
    """Whether a context is the one that was given to its agent, in one query."""
    ref, kinds = row.context_ref, (Kind.CONTEXT_COMPILED,)
    told = queries.list_payloads(tenant=row.flow.tenant, stream=str(row.flow_id), kinds=kinds)
    recorded = ref if any(said["context_ref"] == ref for _, said in told) else _NOT_RECORDED
    return compare("snapshot.body", ref, recorded, row.body)


def compare_findings(row: Review) -> Mismatch | None:
    """Whether what a guard found is what was committed to, in two queries."""
    kinds = (Kind.REVIEW_FLAGGED,)
    told = queries.list_payloads(tenant=row.tenant, stream=str(row.flow_id), kinds=kinds)
    commitments = [said["findings_commitment"] for _, said in told if said["review_id"] == str(row.pk)]
    return compare_committed(
        "review.findings",
        str(row.pk),
        tenant=row.tenant,
        commitment=commitments[0] if commitments else None,
        body=row.findings,
    )


def compare_committed(
    row: str, row_id: str, *, tenant: str, commitment: str | None, body: object
) -> Mismatch | None:
    """Whether a cell holds the bytes behind an entry's commitment, which is None where no entry has one."""
    if commitment and queries.is_committed(tenant=tenant, commitment=commitment, body=body):
        return None
    found = row_checks.digest_of(body)
    return Mismatch(row=row, row_id=row_id, recorded=commitment or _NOT_RECORDED, found=found)


def unlike(row: str, row_id: str, recorded: object, found: object) -> Mismatch:
    """Two values of a column that are not bytes, compared by the digests of their texts."""
    told, held = (canonical.digest(str(value).encode()) for value in (recorded, found))
    return Mismatch(row=row, row_id=row_id, recorded=told, found=held)


def _compare_digests(row: str, row_id: str, recorded: str, found: str) -> Mismatch | None:
    if found and recorded == found:
        return None
    return Mismatch(row=row, row_id=row_id, recorded=recorded, found=found)


def _bytes(cell: object) -> object:
    return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) else cell
