"""What the ledger entries of a flow hold of its proposals, verdicts and intents, and of targets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from audit import queries
from audit.events import Kind
from runtime.contracts.states import IntentState
from runtime.core import mismatches
from runtime.flows.models import Attempt, Flow, Intent, Outcome, Proposal, StepReceipt, Verdict
from runtime.flows.queries import intent_records
from runtime.flows.queries.intent_records import IntentRecord
from runtime.registry.models import Target
from runtime.registry.queries import recorded_targets


@dataclass(frozen=True, kw_only=True)
class RecordedFlow:
    """What a flow's entries hold: digests of each proposal and verdict, and its intents, by their ids.

    And by name the last configuration of each target, since a flow may call any of them; `opened` is what its
    first entry records.
    """

    proposals: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    intents: Mapping[str, IntentRecord] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    opened: Mapping[str, Any] = field(default_factory=dict)

    def compare_trigger(self, flow: Flow) -> mismatches.Mismatch | None:
        """Whether what the agent gave as the reason of its flow is what was committed to."""
        return mismatches.compare_committed(
            "flow.trigger",
            str(flow.pk),
            tenant=flow.tenant,
            commitment=self.opened.get("trigger_commitment"),
            body=flow.trigger,
        )

    def list_unlike(self, intent: Intent) -> list[mismatches.Mismatch]:
        """What is not as recorded of an intent, its way and its outcome."""
        outcome = getattr(intent, "outcome", None)
        compared = (self.compare_intent(intent), None if outcome is None else self.compare_outcome(outcome))
        return [mismatch for mismatch in compared if mismatch is not None]

    def compare_outcome(self, outcome: Outcome) -> mismatches.Mismatch | None:
        """Whether an outcome and its receipt are those that were recorded."""
        record = self.intents.get(str(outcome.pk))
        payload = {} if record is None else record.outcome
        if payload.get("status") != outcome.status:
            return mismatches.of_values(
                "outcome.status", str(outcome.pk), payload.get("status", ""), outcome.status
            )
        digest = intent_records.outcome_digest(outcome)
        # Entries of older versions do not hold the digest.
        if payload.get("outcome_digest") not in (None, digest):
            return mismatches.Mismatch(
                row="outcome", row_id=str(outcome.pk), recorded=payload["outcome_digest"], found=digest
            )
        if outcome.receipt is None and payload["receipt_commitment"] is None:
            return None
        return mismatches.compare_committed(
            "outcome.receipt",
            str(outcome.pk),
            tenant=outcome.intent.tenant,
            commitment=payload["receipt_commitment"],
            body=outcome.receipt,
        )

    def compare_target(self, target: Target) -> mismatches.Mismatch | None:
        """Whether a target is where it was configured to be, signed for and trusted as it was then."""
        return recorded_targets.compare_target(target, self.targets.get(target.name))

    def compare_intent(self, intent: Intent) -> mismatches.Mismatch | None:
        """Whether what would be sent to targets is what was accepted, at the step that it has come to."""
        record = self.intents.get(str(intent.pk))
        digest = mismatches.NOT_RECORDED if record is None else record.request_digest
        found = mismatches.compare("intent.requests", str(intent.pk), digest, intent.requests)
        return found or compare_progress(intent, record)

    def state_at_rest(self, intent: Intent) -> IntentState | None:
        """The state of an intent that no worker may take, by its entries; None where one may."""
        record = self.intents.get(str(intent.pk))
        return None if record is None else record.at_rest

    def compare_proposal(self, proposal: Proposal) -> mismatches.Mismatch | None:
        """Whether a proposal is the one that was submitted."""
        recorded = self.proposals.get(str(proposal.pk), mismatches.NOT_RECORDED)
        return mismatches.compare("proposal.body", str(proposal.pk), recorded, proposal.body)

    def compare_verdict(self, verdict: Verdict) -> mismatches.Mismatch | None:
        """Whether input, rules and bytes of a verdict are those that were recorded with it."""
        payload = self.verdicts.get(str(verdict.pk), {})
        digest = payload.get("policy_bundle_hash", mismatches.NOT_RECORDED)
        if verdict.bundle_id != digest:
            return mismatches.Mismatch(
                row="verdict.bundle", row_id=str(verdict.pk), recorded=digest, found=verdict.bundle_id
            )
        parts = (
            ("verdict.input", "input_digest", verdict.input),
            ("bundle.body", "policy_bundle_hash", verdict.bundle.body),
            ("verdict.body", "verdict_digest", verdict.body),
        )
        for row, name, body in parts:
            found = mismatches.compare(row, str(verdict.pk), payload.get(name, mismatches.NOT_RECORDED), body)
            if found is not None:
                return found
        return None


def of_flow(*, tenant: str, dfid: Any) -> RecordedFlow:
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
    for kind, payload in entries:
        # The first entry about a row counts: another one that came later is no second chance.
        match kind:
            case Kind.FLOW_OPENED:
                opened = opened or payload
            case Kind.PROPOSAL_SUBMITTED:
                proposals.setdefault(payload["proposal_id"], payload["proposal_digest"])
            case Kind.VERDICT_GIVEN:
                verdicts.setdefault(payload["proposal_id"], payload)
            case Kind.TARGET_CONFIGURED:
                targets[payload["name"]] = payload  # when configured again, the last one counts
            case _:
                intent_records.follow(intents, kind, payload)
    return RecordedFlow(
        proposals=proposals, verdicts=verdicts, intents=intents, targets=targets, opened=opened
    )


def compare_progress(intent: Intent, record: IntentRecord | None) -> mismatches.Mismatch | None:
    """Whether an intent is where its entries have brought it, within the window that they give it.

    A window that ends earlier than recorded makes no call that was not allowed: it is left to expire.
    """
    if record is None:
        return None
    for name, recorded, held in intent_records.list_unlike(record, intent):
        if name == "valid_until" and held < recorded:
            continue
        return mismatches.of_values(f"intent.{name}", str(intent.pk), recorded, held)
    # Before its first call there is nothing more to compare, and most intents are claimed once.
    if not record.calls:
        return None
    # Whether its calls came to what was recorded: one in doubt is not settled by a rewritten row.
    rows = Attempt.objects.filter(intent=intent)
    for number, name, recorded, held in intent_records.list_unlike_calls(record, rows):
        row = f"attempt.{name}" if name else "attempt"
        return mismatches.of_values(row, f"{intent.pk} attempt {number}", recorded, held)
    if intent.steps == 1:
        return None
    # What is next follows from the steps that are done and undone.
    finished = set(StepReceipt.objects.filter(intent=intent).values_list("position", "direction"))
    if finished == record.finished:
        return None
    return mismatches.of_values("stepreceipt", str(intent.pk), sorted(record.finished), sorted(finished))
