"""What one transaction adds to one flow: moves, entries, feedback and answers, written once, last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, QuerySet

from audit import actors, canonical, events, ledger, statements, told
from audit.records import emission as emission_of
from audit.records.fold import Rules
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ENDED, FeedbackType, FlowState
from runtime.core import idempotency, recorded_answers, transactions
from runtime.core.idempotency import IdempotentRequest
from runtime.core.models import Answer
from runtime.flows.models import Feedback, Flow
from runtime.flows.queries import calls_in_doubt, children, judged_rules, recorded_feedback
from runtime.flows.services import flow_cancellation
from runtime.kernel import lifecycle
from runtime.resources.services import reservations

# What a transaction may change of a flow.
_WRITTEN: Final = (
    "state",
    "reason",
    "version",
    "policy_kind",
    "attempts_used",
    "feedback_seq",
    "head_seq",
    "head_hash",
    "updated_at",
    "ended_at",
    "score_due",
)


def _written(*, dfid: UUID, version_read: int, **written: Any) -> tuple[QuerySet[Flow], dict[str, Any]]:
    return Flow.objects.filter(dfid=dfid, version=version_read), written


def _ended_by_itself(
    *, dfid: UUID, version_read: int, **written: Any
) -> tuple[QuerySet[Flow], dict[str, Any]]:
    rows, changes = _written(dfid=dfid, version_read=version_read, **written)
    return rows.filter(~Exists(calls_in_doubt.needing_person(dfid=dfid))), changes


_CHANGED: Final = statements.Change(_written)
_ENDED_BY_ITSELF: Final = statements.Change(_ended_by_itself)


@dataclass(kw_only=True)
class Journal:
    """Collects while the use case runs; `write()` is the transaction's last act.

    `flow` must be locked by the caller. `at` is never earlier than the flow's last update.
    """

    flow: Flow
    actor: str
    at: datetime
    entries: list[events.Event] = field(default_factory=list)
    feedback: list[Feedback] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    other_streams: dict[str, list[events.Event]] = field(default_factory=dict)
    # What the record takes from the rules of verdicts of this transaction, by proposal.
    rules: dict[str, Rules] = field(default_factory=dict)
    version_read: int = field(init=False)
    had_ended: bool = field(init=False)

    def __post_init__(self) -> None:
        self.version_read = self.flow.version
        self.had_ended = self.flow.state in ENDED
        self.at = max(self.at, self.flow.updated_at)

    def add(self, *added: events.Event) -> None:
        """Append entries, in order."""
        self.entries.extend(added)

    def record_on(self, stream: str, *added: events.Event) -> None:
        """Append entries to a stream that is not a flow's; its head is locked last of all."""
        self.other_streams.setdefault(stream, []).extend(added)

    def transition(self, to: FlowState, *, reason: str = "") -> None:
        """Move the flow, by the table. A move that the table forbids is a bug, so it raises."""
        before = FlowState(self.flow.state)
        if not lifecycle.allows(before, to):
            raise ValueError(f"a flow may not move from {before} to {to}")
        self.flow.state = to
        self.flow.reason = reason
        self.add(events.FlowMoved(from_state=before, to_state=to, reason=reason))
        if to in ENDED:
            self.flow.ended_at = self.at

    def notify_agent(self, event_type: FeedbackType, body: Mapping[str, Any]) -> None:
        """Tell the agent something, in the order of its flow."""
        self.flow.feedback_seq += 1
        self.feedback.append(
            Feedback(
                flow=self.flow,
                seq=self.flow.feedback_seq,
                event_type=event_type,
                at=self.at,
                body=canonical.encode(dict(body)),
                salt=told.new_salt(),
            )
        )

    def keep_answer(self, *, agent_pk: int, call: IdempotentRequest, body: bytes) -> None:
        """Keep a decided answer for repeats of its call, with a commitment to it in an entry of this flow."""
        self.answers.append(
            idempotency.decided(agent_pk=agent_pk, call=call, body=body, at=self.at, dfid=self.flow.dfid)
        )

    def hold_feedback(self) -> list[dict[str, Any]]:
        """Keep back what the agent would be told by this transaction, for `tell_held` to tell later."""
        held = [
            {"event_type": str(item.event_type), "body": canonical.decode(bytes(item.body))}
            for item in self.feedback
        ]
        self.flow.feedback_seq -= len(self.feedback)
        self.feedback.clear()
        return held

    def tell_held(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Tell the agent what was kept back."""
        for item in held:
            self.notify_agent(FeedbackType(item["event_type"]), item["body"])

    def write(self) -> None:
        """Store feedback, append the entries to the flow's stream, and compare-and-swap the flow row.

        At a checkpoint, at the flow's end, and when something comes after it, its DecisionRecord is written
        as well.
        """
        ends = self.flow.state in ENDED and not self.had_ended
        if ends:
            # Whatever the way out, a flow that ends no longer holds anything, and stops what works for it.
            self._stop_children(self.flow)
            self.add(*reservations.settle(flow=self.flow, at=self.at))
        emission = emission_of.prepare(
            tenant=self.flow.tenant,
            dfid=self.flow.dfid,
            head_seq=self.flow.head_seq,
            actor=self.actor,
            at=self.at,
            events=self.entries,
            find_rules=self._rules_behind,
            has_ended=self.had_ended,
        )
        if emission is not None:
            emission.store()
            # A record of the end waits for its scorecard, until one is made that has it.
            self.flow.score_due = emission.row.terminal and not emission.is_scored
            self.add(emission.event)
        committed = self._store_told(entry_seq=self.flow.head_seq + len(self.entries))
        head = ledger.append(
            tenant=self.flow.tenant,
            stream=str(self.flow.dfid),
            head=ledger.Head(
                seq=self.flow.head_seq, hash=bytes(self.flow.head_hash), at=self.flow.updated_at
            ),
            actor=self.actor,
            at=self.at,
            events=self.entries,
            told=committed,
        )
        self.flow.head_seq, self.flow.head_hash = head.seq, head.hash
        self.flow.version = self.version_read + 1
        self.flow.updated_at = self.at
        if not statements.is_waiting(self.flow):
            self._store_flow(needs_no_person=ends and not actors.is_user(self.actor))
        self.flow.is_new = False
        for stream, entries in sorted(self.other_streams.items()):
            ledger.append_to(
                tenant=self.flow.tenant, stream=stream, actor=self.actor, at=self.at, events=entries
            )

    def _store_flow(self, *, needs_no_person: bool) -> None:
        written = {name: getattr(self.flow, name) for name in _WRITTEN}
        change = _ENDED_BY_ITSELF if needs_no_person else _CHANGED
        if change.run(dfid=self.flow.dfid, version_read=self.version_read, **written) == 1:
            return
        if needs_no_person and calls_in_doubt.needs_person(flow=self.flow):
            raise ValueError("a flow with a call in doubt can only be ended by a person")
        raise transactions.ConcurrentUpdateError

    def _store_told(self, *, entry_seq: int) -> dict[str, Any]:
        """Write what the agent is told and answered; the commitments to it, for the entry of that number."""
        rows: list[Feedback | Answer] = [*self.feedback, *self.answers]
        for row in rows:
            row.entry_seq = entry_seq
        statements.insert(self.feedback)
        statements.insert(self.answers)
        committed: dict[str, Any] = {}
        if self.feedback:
            committed[told.FEEDBACK] = {
                str(event.seq): recorded_feedback.commitment_of(event) for event in self.feedback
            }
        if self.answers:
            committed[told.ANSWERS] = {
                recorded_answers.name_of(answer): recorded_answers.commitment_of(answer)
                for answer in self.answers
            }
        return committed

    def _rules_behind(self, said: Mapping[str, Any]) -> Rules:
        """What the record takes from the rules of a verdict, whose entry says this."""
        return self.rules.get(said["proposal_id"]) or judged_rules.find_stored(said)

    def _stop_children(self, parent: Flow) -> None:
        """Abort the open descendants, which `locks.lock_flow` has locked with their ancestor.

        One whose intent is under way is left to its outcome, or to its people: aborting it would claim that
        nothing happened. What is below it is stopped.
        """
        if not parent.children_opened:
            return
        for child in children.open_below([parent.pk]):
            branch = Journal(flow=child, actor=self.actor, at=self.at)
            entries = flow_cancellation.cancel_pending_work(
                flow=child, reason=Reason.PARENT_ENDED, at=branch.at
            )
            if entries is None:
                self._stop_children(child)
                continue
            branch.add(*entries)
            branch.transition(FlowState.ABORTED, reason=Reason.PARENT_ENDED)
            branch.notify_agent(
                FeedbackType.FLOW_ABORTED,
                {"reason": Reason.PARENT_ENDED.value, "parent_dfid": str(child.parent_id)},
            )
            branch.write()
