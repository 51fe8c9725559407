"""What must hold after every step, whoever did what: read from the rows, the ledger and the target."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from audit import canonical
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations import evidence_contracts
from escalations.contracts import State
from escalations.models import Escalation, Evidence
from runtime.contracts.reasons import Reason
from runtime.contracts.states import (
    ENDED,
    LIVE_INTENTS,
    AgentStatus,
    Decision,
    Direction,
    FlowState,
    IntentState,
    OutcomeStatus,
)
from runtime.flows.models import Attempt, Feedback, Flow, Intent, Outcome, StepReceipt, Verdict
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.kernel import lifecycle
from runtime.proposals.queries import verdict_replay
from runtime.registry.models import Agent
from runtime.state.models import FactVersion
from tests.support import resources_pack


@dataclass
class Watch:
    """The checks, and what the last look left to compare with."""

    last_entry: int = 0
    heads: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    states: dict[str, FlowState] = field(default_factory=dict)
    versions: dict[UUID, int] = field(default_factory=dict)

    def check(self, effects: Mapping[str, int], sent_again: Mapping[str, int]) -> None:
        """Every invariant. `sent_again`: how often a person resumed a call whose effect was there, by key."""
        check_effects(effects, sent_again)
        resources_pack.check()
        self._check_entries()
        self._check_flows()
        check_sequences()

    def _check_entries(self) -> None:
        """Each entry follows the one before, and each flow has moved by the table to where it stands."""
        new = LedgerEntry.objects.filter(pk__gt=self.last_entry).order_by("pk")
        for pk, stream, seq, kind, body, prev_hash, own_hash in new.values_list(
            "pk", "stream", "seq", "kind", "body", "prev_hash", "hash"
        ):
            head_seq, head_hash = self.heads.get(stream, (0, bytes(32)))
            assert (seq, bytes(prev_hash)) == (head_seq + 1, head_hash), (stream, seq)
            self.last_entry, self.heads[stream] = pk, (seq, bytes(own_hash))
            if kind == "flow:opened":
                self.states[stream] = FlowState.CREATED
            elif kind == "flow:moved":
                payload = canonical.decode(bytes(body))["payload"]
                before, after = FlowState(payload["from_state"]), FlowState(payload["to_state"])
                assert self.states[stream] is before, (stream, payload)
                assert lifecycle.allows(before, after), (stream, payload)
                self.states[stream] = after
        for dfid, state in Flow.objects.values_list("dfid", "state"):
            assert self.states[str(dfid)] == state

    def _check_flows(self) -> None:
        """An ended flow has nothing left to do, and a waiting one has somebody who waits for it."""
        for dfid, version in Flow.objects.values_list("dfid", "version"):
            assert version >= self.versions.get(dfid, 0), "a flow went back to an older version"
            self.versions[dfid] = version
        assert not Intent.objects.filter(state__in=LIVE_INTENTS, flow__state__in=ENDED).exists()
        open_ones = Escalation.objects.filter(state=State.OPEN).values_list("flow_id", flat=True)
        waiting = Flow.objects.filter(state=FlowState.ESCALATED).values_list("dfid", flat=True)
        assert sorted(open_ones) == sorted(waiting), "ESCALATED is a flow with one open escalation"
        doubtful = Intent.objects.filter(state__in=(IntentState.IN_DOUBT, IntentState.WITH_PERSON))
        assert not doubtful.exclude(flow__state=FlowState.ESCALATED).exists()


def check_effects(effects: Mapping[str, int], sent_again: Mapping[str, int]) -> None:
    """No effect without an accepted intent, and none twice unless a person sent it again."""
    made = Attempt.objects.select_related("intent__proposal__verdict")
    calls = {attempt.target_key: attempt for attempt in made}
    for key, count in effects.items():
        if count:
            assert calls[key].intent.proposal.verdict.decision == Decision.ACCEPT
            assert count <= 1 + sent_again.get(key, 0), f"{calls[key]} took effect {count} times"
    check_endings({key: attempt for key, attempt in calls.items() if effects.get(key)})


def check_endings(happened: Mapping[str, Attempt]) -> None:
    """What the runtime says of an intent that no person has decided on is what the target did.

    DONE: each step, and nothing undone. Any other end: nothing, or each done step undone.
    """
    with_people = set(Escalation.objects.filter(intent__isnull=False).values_list("intent_id", flat=True))
    steps: dict[UUID, dict[Direction, set[str]]] = defaultdict(lambda: {way: set() for way in Direction})
    for attempt in happened.values():
        steps[attempt.intent_id][Direction(attempt.direction)].add(attempt.step)
    for intent in Intent.objects.exclude(state__in=LIVE_INTENTS).exclude(pk__in=with_people):
        done, undone = steps[intent.pk][Direction.FORWARD], steps[intent.pk][Direction.COMPENSATE]
        if intent.state == IntentState.DONE:
            wanted = intent.steps - len(IntentPlan.of(intent).fallbacks)  # each runs in place of another
            assert (len(done), undone) == (wanted, set()), intent.pk
        else:
            assert done == undone, (intent.pk, intent.state, done, undone)
    undone_after: dict[UUID, int] = {}
    undoing = StepReceipt.objects.filter(direction=Direction.COMPENSATE).order_by("pk")
    for intent_id, position in undoing.values_list("intent", "position"):
        assert position < undone_after.get(intent_id, position + 1), "what was done last is undone first"
        undone_after[intent_id] = position
    dirty = Intent.objects.filter(direction=Direction.COMPENSATE, state__in=LIVE_INTENTS).exists()
    locked = Agent.objects.filter(status=AgentStatus.LOCKED, status_reason=Reason.PARTIAL_SUCCESS_DIRTY)
    assert dirty or not locked.exists(), "an agent is locked for a state that has converged"


def check_sequences() -> None:
    """Numbers that count from one have no gap and no second."""
    numbered = {
        "feedback": Feedback.objects.values_list("flow", "seq"),
        "attempts": Attempt.objects.values_list("intent", "number"),
        "evidence": Evidence.objects.values_list("escalation", "revision"),
        "facts": FactVersion.objects.values_list("path", "version"),
    }
    for what, rows in numbered.items():
        found: dict[object, list[int]] = defaultdict(list)
        for owner, number in rows:
            found[owner].append(number)
        for owner, numbers in found.items():
            assert sorted(numbers) == list(range(1, len(numbers) + 1)), (what, owner, sorted(numbers))
    told = Counter(Feedback.objects.values_list("flow", flat=True))
    for dfid, feedback_seq in Flow.objects.values_list("dfid", "feedback_seq"):
        assert told[dfid] == feedback_seq


def check_evidence() -> None:
    """What people were shown is read back as it was stored."""
    for row in Evidence.objects.all():
        assert evidence_contracts.read_evidence(bytes(row.body)).to_bytes() == bytes(row.body), row


def check_end() -> None:
    """When all is drained, every flow has ended, nothing is held, and every verdict is what it was."""
    assert not Flow.objects.exclude(state__in=ENDED).exists()
    assert resources_pack.used()[0] == 0
    assert not Agent.objects.filter(status=AgentStatus.LOCKED).exists()
    wrong = Outcome.objects.filter(status=OutcomeStatus.SUCCEEDED).exclude(intent__state=IntentState.DONE)
    assert not wrong.exists()
    assert isinstance(verify_database(), Whole)
    check_evidence()
    assert verdict_replay.replay() == verdict_replay.Equal(Verdict.objects.count())
