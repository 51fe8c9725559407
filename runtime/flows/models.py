"""Flows (DFID) and what an agent hears about them."""

from django.db import models
from django.db.models import CharField, F, Func, Q

from audit.quick_rows import QuickRow
from runtime.contracts import states
from runtime.contracts.reasons import Reason
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.registry.models import Agent, Bundle

# The trace id in a `traceparent`. Its numbers are written out: SQLite takes no index of an expression for one
# whose numbers are parameters.
TRACE_ID = Func(
    F("traceparent"), template="SUBSTR(%(expressions)s, 4, 32)", output_field=CharField(max_length=32)
)


class Flow(QuickRow):
    """One DecisionFlow (DIR paper, 4). The row is the lock and the ledger head of everything in it."""

    dfid = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="flows", db_index=False)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children", db_index=False
    )
    # The flow without a parent at the top of the family; its row is the lock that counts the family.
    root = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="family", db_index=False
    )
    depth = models.PositiveSmallIntegerField(default=0)
    # The parent's agent, who is told of the end in its own events.
    delegator = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="delegated_flows",
        db_index=False,
    )
    # How many children were ever opened: most flows have none, and are locked without a look for them.
    children_opened = models.PositiveIntegerField(default=0)
    end_told = models.BooleanField(default=False)
    state = models.CharField(
        max_length=24, choices=states.FlowState.pairs(), default=states.FlowState.CREATED
    )
    reason = models.CharField(max_length=64, blank=True, default="")
    version = models.PositiveIntegerField(default=0)
    trigger = models.BinaryField()
    traceparent = models.CharField(max_length=64, blank=True, default="")
    policy_kind = models.CharField(max_length=128, blank=True, default="")
    attempts_used = models.PositiveSmallIntegerField(default=0)
    attempts_allowed = models.PositiveSmallIntegerField(default=3)
    feedback_seq = models.PositiveIntegerField(default=0)
    steps_reported = models.PositiveSmallIntegerField(default=0)
    head_seq = models.PositiveBigIntegerField(default=0)
    head_hash = models.BinaryField(max_length=32, default=b"\x00" * 32)
    opened_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    # Its last decision record has no scorecard yet.
    score_due = models.BooleanField(default=False)
    # When the words of the flow were erased last: who did it and why is in its entry, `flow:erased`.
    erased_at = models.DateTimeField(null=True, blank=True)

    # Begun by this transaction, whose journal is not written yet: no row tells more of it, so nobody asks.
    is_new = False

    objects = TenantManager()

    class Meta:
        ordering = ("-dfid",)
        constraints = (
            models.CheckConstraint(condition=Q(state__in=states.FlowState.values()), name="flow_state_known"),
            models.CheckConstraint(
                condition=Q(attempts_used__lte=models.F("attempts_allowed")),
                name="flow_attempts_within_allowed",
            ),
            models.CheckConstraint(
                condition=Q(state__in=states.ENDED, ended_at__isnull=False)
                | (~Q(state__in=states.ENDED) & Q(ended_at__isnull=True)),
                name="flow_ended_at_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=Q(score_due=False) | Q(state__in=states.ENDED), name="flow_is_scored_after_its_end"
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, root__isnull=True, depth=0)
                | Q(parent__isnull=False, root__isnull=False, depth__gte=1),
                name="flow_depth_goes_with_its_parent",
            ),
            models.CheckConstraint(
                condition=Q(erased_at__isnull=True) | Q(state__in=states.ENDED),
                name="flow_erased_only_after_its_end",
            ),
            # Also how the watchdog finds it: a busy agent has a million other flows.
            models.UniqueConstraint(
                fields=("agent",),
                condition=Q(state=states.FlowState.ESCALATED, reason=Reason.AGENT_SILENT),
                name="flow_asks_once_of_a_silent_agent",
            ),
        )
        indexes = (
            models.Index(fields=("tenant", "state", "-dfid"), name="flow_by_state"),
            models.Index(fields=("agent", "-dfid"), name="flow_by_agent"),
            models.Index(fields=("tenant", "policy_kind", "-dfid"), name="flow_by_kind"),
            # The newest of all, and those of a time, since ids rise with it.
            models.Index(fields=("tenant", "-dfid"), name="flow_recent"),
            models.Index(fields=("tenant", "reason", "-dfid"), name="flow_by_reason"),
            # Most flows have none of these, and cost nothing here. Who asks for a trace says that there is
            # one, or SQLite does not take the index.
            models.Index(F("tenant"), TRACE_ID, condition=Q(traceparent__gt=""), name="flow_by_trace"),
            models.Index(fields=("parent",), condition=Q(parent__isnull=False), name="flow_by_parent"),
            models.Index(fields=("root",), condition=Q(root__isnull=False), name="flow_by_root"),
            models.Index(
                fields=("delegator",), condition=Q(delegator__isnull=False), name="flow_by_delegator"
            ),
            models.Index(
                fields=("delegator", "ended_at"),
                condition=Q(end_told=False, ended_at__isnull=False),
                name="flow_end_to_be_told",
            ),
            models.Index(fields=("dfid",), condition=Q(score_due=True), name="flow_score_due"),
            # Those whose words are due, the longest ended first.
            models.Index(
                fields=("tenant", "policy_kind", "ended_at", "dfid"),
                condition=Q(ended_at__isnull=False, erased_at__isnull=True),
                name="flow_with_words",
            ),
        )

    def __str__(self) -> str:
        return str(self.dfid)


class Feedback(QuickRow):
    """One event for the agent, in the order of its flow."""

    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="feedback", db_index=False)
    seq = models.PositiveIntegerField()
    event_type = models.CharField(max_length=32, choices=states.FeedbackType.pairs())
    at = models.DateTimeField()
    body = models.BinaryField()
    # Of the commitment to it, and which entry of the flow holds that; none in rows from before there was one.
    salt = models.BinaryField(default=b"")
    entry_seq = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ("flow", "seq")
        constraints = (models.UniqueConstraint(fields=("flow", "seq"), name="feedback_seq_once"),)

    def __str__(self) -> str:
        return f"{self.flow_id} {self.seq} {self.event_type}"


class Intent(QuickRow):
    """An accepted proposal, ready to run; also the outbox row that workers claim."""

    intent_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="intents")
    proposal = models.OneToOneField("runtime.Proposal", on_delete=models.PROTECT, related_name="intent")
    state = models.CharField(
        max_length=12, choices=states.IntentState.pairs(), default=states.IntentState.PENDING
    )
    # Rendered once, at ACCEPT: canonical bytes of `runtime.contracts.outcome.Rendered`.
    requests = models.BinaryField()
    # The walk: how many steps there are, and which call is next or under way (`runtime.kernel.saga`).
    steps = models.PositiveSmallIntegerField(default=1)
    position = models.PositiveSmallIntegerField(default=0)
    direction = models.CharField(
        max_length=12, choices=states.Direction.pairs(), default=states.Direction.FORWARD
    )
    purpose = models.CharField(max_length=8, choices=states.Purpose.pairs(), default=states.Purpose.CALL)
    # A person has answered for what the attempts up to this number may have done.
    answered = models.PositiveSmallIntegerField(default=0)
    # Why the walk turned back; empty while it goes forward.
    cause = models.CharField(max_length=64, blank=True, default="")
    cause_category = models.CharField(max_length=32, blank=True, default="")
    target = models.CharField(max_length=64, blank=True, default="")
    # Canonical bytes of [Finding]: limits, tightened since the verdict, against which a person resumed it.
    lifted = models.BinaryField(default=b"[]")
    valid_until = models.DateTimeField()
    # While the decision of a person can be taken back: when that ends, and canonical bytes of what a
    # take-back restores and of what the agent is told at its end (`runtime.execution.services.undo_windows`).
    not_before = models.DateTimeField(null=True, blank=True)
    undo = models.BinaryField(default=b"")
    failures = models.PositiveSmallIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField()
    lease_owner = models.CharField(max_length=80, blank=True, default="")
    lease_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=states.IntentState.values()), name="intent_state_known"
            ),
            models.UniqueConstraint(
                fields=("flow",), condition=Q(state__in=states.LIVE_INTENTS), name="intent_one_live_per_flow"
            ),
            models.CheckConstraint(
                condition=Q(state=states.IntentState.CLAIMED, lease_until__isnull=False)
                | (~Q(state=states.IntentState.CLAIMED) & Q(lease_until__isnull=True)),
                name="intent_lease_goes_with_its_claim",
            ),
            models.CheckConstraint(
                condition=Q(direction__in=states.Direction.values(), purpose__in=states.Purpose.values()),
                name="intent_direction_and_purpose_known",
            ),
            models.CheckConstraint(condition=Q(position__lt=F("steps")), name="intent_position_within_steps"),
            models.CheckConstraint(
                condition=Q(undo=b"") | Q(not_before__isnull=False), name="intent_undo_goes_with_its_window"
            ),
        )
        indexes = (
            models.Index(
                fields=("next_at",), condition=Q(state=states.IntentState.PENDING), name="intent_due"
            ),
            models.Index(
                fields=("lease_until",), condition=Q(state=states.IntentState.CLAIMED), name="intent_leased"
            ),
        )

    def __str__(self) -> str:
        return str(self.intent_id)


class Attempt(QuickRow):
    """One call to a target, written before the call is made."""

    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, related_name="attempt_rows", db_index=False)
    number = models.PositiveSmallIntegerField()
    step = models.CharField(max_length=64)
    direction = models.CharField(
        max_length=12, choices=states.Direction.pairs(), default=states.Direction.FORWARD
    )
    purpose = models.CharField(max_length=8, choices=states.Purpose.pairs(), default=states.Purpose.CALL)
    target_key = models.CharField(max_length=64)
    lease_owner = models.CharField(max_length=80)
    state = models.CharField(max_length=12, choices=states.AttemptState.pairs())
    error_category = models.CharField(max_length=32, blank=True, default="")
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    detail = models.CharField(max_length=300, blank=True, default="")
    started_at = models.DateTimeField()
    # When its first byte left; empty while it waits before the gate, or where it was held back there.
    sent_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # Of a call that ended UNKNOWN: what was found out since, by `receipt`, `probe` or a person, and when.
    # Empty while it is in doubt. Written by `runtime.execution.services.doubts` alone.
    effect = models.CharField(max_length=12, blank=True, default="")
    settled_by = models.CharField(max_length=160, blank=True, default="")
    settled_at = models.DateTimeField(null=True, blank=True)
    # Whose statement that nothing happened a late receipt contradicts; empty again once a person has stated
    # what became of the call in the knowledge of both.
    contradicts = models.CharField(max_length=160, blank=True, default="")

    class Meta:
        ordering = ("intent", "number")
        constraints = (
            models.UniqueConstraint(fields=("intent", "number"), name="attempt_number_once"),
            models.UniqueConstraint(
                fields=("intent",),
                condition=Q(state__in=states.OPEN_ATTEMPTS),
                name="attempt_one_open_per_intent",
            ),
            models.CheckConstraint(
                condition=Q(state__in=states.AttemptState.values()), name="attempt_state_known"
            ),
            models.CheckConstraint(
                condition=Q(effect="", settled_by="", settled_at__isnull=True)
                | (
                    Q(state=states.AttemptState.UNKNOWN, purpose=states.Purpose.CALL)
                    & Q(effect__in=states.KNOWN_EFFECTS, settled_at__isnull=False)
                    & ~Q(settled_by="")
                ),
                name="attempt_settled_only_where_unknown",
            ),
            models.CheckConstraint(
                condition=Q(contradicts="") | Q(effect=states.Effect.HAPPENED),
                name="attempt_contradicts_where_happened",
            ),
        )
        indexes = (
            models.Index(
                fields=("started_at",),
                condition=Q(state=states.AttemptState.UNKNOWN, purpose=states.Purpose.CALL, effect=""),
                name="attempt_in_doubt",
            ),
            models.Index(fields=("started_at",), condition=Q(contradicts__gt=""), name="attempt_contradicts"),
        )

    def __str__(self) -> str:
        return f"{self.intent_id} attempt {self.number}"


class StepReceipt(models.Model):
    """One finished step of an intent with several, done or undone: what is resumed from after a crash."""

    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, related_name="step_receipts", db_index=False)
    position = models.PositiveSmallIntegerField()
    step = models.CharField(max_length=64)
    direction = models.CharField(max_length=12, choices=states.Direction.pairs())
    receipt = models.BinaryField()
    recorded_at = models.DateTimeField()
    recorded_by = models.CharField(max_length=160)

    class Meta:
        ordering = ("intent", "recorded_at", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("intent", "position", "direction"), name="step_finished_once_each_way"
            ),
            models.CheckConstraint(
                condition=Q(direction__in=states.Direction.values()), name="step_receipt_direction_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.intent_id} {self.step} {self.direction}"


class Outcome(models.Model):
    """What came of an intent: the receipt, and observed effects beside expected ones."""

    intent = models.OneToOneField(Intent, primary_key=True, on_delete=models.PROTECT, related_name="outcome")
    status = models.CharField(max_length=12, choices=states.OutcomeStatus.pairs())
    error_category = models.CharField(max_length=32, blank=True, default="")
    receipt = models.BinaryField(null=True, blank=True)
    expected = models.BinaryField()
    deviations = models.BinaryField()
    # Canonical bytes of [FactChange]: what the steps wrote from their receipts.
    writes = models.BinaryField(default=b"[]")
    attempts = models.PositiveSmallIntegerField()
    duration_ms = models.PositiveIntegerField(default=0)
    recorded_by = models.CharField(max_length=160)
    recorded_at = models.DateTimeField()
    # When it was recorded, where it has deviations: those are counted of an agent, and are few.
    deviated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(deviated_at__isnull=True) | Q(deviated_at=F("recorded_at")),
                name="outcome_deviated_when_recorded",
            ),
        )
        indexes = (
            models.Index(
                fields=("deviated_at",), condition=Q(deviated_at__isnull=False), name="outcome_deviating"
            ),
        )

    def __str__(self) -> str:
        return f"{self.intent_id} {self.status}"


class Proposal(QuickRow):
    """A claim (DIR paper, 5.3) by an agent, or by a person who decides an escalation."""

    proposal_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="proposals", db_index=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="proposals", db_index=False)
    author = models.CharField(max_length=160)
    policy_kind = models.CharField(max_length=128)
    policy_version = models.CharField(max_length=64)
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    explain = models.TextField(blank=True, default="")
    received_at = models.DateTimeField()
    valid_until = models.DateTimeField()
    # Where its REJECT cost an attempt: the digest of its kind and subjects, by which tries are counted that
    # each come in a flow of their own.
    retry_key = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = (
            models.Index(fields=("flow", "proposal_id"), name="proposal_by_flow"),
            models.Index(
                fields=("agent", "retry_key", "received_at"),
                condition=Q(retry_key__gt=""),
                name="proposal_rejected_tries",
            ),
            models.Index(fields=("agent", "-received_at"), name="proposal_by_agent"),
            models.Index(
                fields=("agent", "-received_at"),
                condition=Q(retry_key__gt=""),
                name="proposal_rejected_newest",
            ),
            models.Index(fields=("digest",), name="proposal_by_digest"),
        )

    def __str__(self) -> str:
        return str(self.proposal_id)


class Verdict(QuickRow):
    """What the gate said, and the whole input it said it on."""

    proposal = models.OneToOneField(
        Proposal, primary_key=True, on_delete=models.PROTECT, related_name="verdict"
    )
    decision = models.CharField(max_length=8, choices=states.Decision.pairs())
    body = models.BinaryField()
    input = models.BinaryField()
    input_digest = models.CharField(max_length=64)
    bundle = models.ForeignKey(Bundle, on_delete=models.PROTECT, related_name="+")
    gate_version = models.CharField(max_length=16)
    judged_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(decision__in=states.Decision.values()), name="verdict_decision_known"
            ),
        )
        indexes = (models.Index(fields=("input_digest",), name="verdict_by_input"),)

    def __str__(self) -> str:
        return f"{self.proposal_id} {self.decision}"
