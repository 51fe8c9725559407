"""Intents, attempts, outcomes and what they hold; the circuits of targets, and looks at a target."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

from audit.events.base import At, Event, Id, Kind, Names, Numbers, Text


class IntentCreated(Event):
    kind = Kind.INTENT_CREATED
    intent_id: Id
    proposal_id: Id
    step_ids: Names
    request_digest: str
    valid_until: At


class IntentCancelled(Event):
    kind = Kind.INTENT_CANCELLED
    intent_id: Id
    reason: Text


class IntentBlocked(Event):
    """The second check, inside the worker's claim, said no.

    `subject` is the invariant or the precondition that is violated; with another code, and in entries of old,
    there is none.
    """

    kind = Kind.INTENT_BLOCKED
    intent_id: Id
    code: Text
    subject: Text | None = None


class InvariantsChecked(Event):
    """The invariants asked at a `place`: BETWEEN_STEPS, right before `step`, or AFTER it, the last one.

    `held` and `violated` are their names. A violation between steps holds the step back.
    """

    kind = Kind.INVARIANTS_CHECKED
    intent_id: Id
    place: Text
    step: str
    held: Names
    violated: Names


class ReceiptMisfit(Event):
    """A receipt does not fit the `receipt_schema` of its step, at these places of it (JSON pointers).

    `asked` says that a person is asked what becomes of the step.
    """

    kind = Kind.RECEIPT_MISFIT
    intent_id: Id
    step: str
    severity: Text
    pointers: Names
    receipt_commitment: str | None
    asked: bool


class IntentHeld(Event):
    """No call for now: a stop was pressed after the claim, or the target's circuit is open."""

    kind = Kind.INTENT_HELD
    intent_id: Id
    why: Text


class IntentInDoubt(Event):
    kind = Kind.INTENT_IN_DOUBT
    intent_id: Id
    number: int


class IntentResumed(Event):
    """`lifted` names the limits that a person was shown as crossed and resumed it against.

    `lifted_digest` is that of all findings lifted so far, as the intent keeps them; `valid_until` the new end
    of its window. Entries of old have neither.
    """

    kind = Kind.INTENT_RESUMED
    intent_id: Id
    lifted: Names = ()
    lifted_digest: str | None = None
    valid_until: At | None = None


class IntentWoken(Event):
    """A circuit has closed: so many intents that waited for it are due at once."""

    kind = Kind.INTENT_WOKEN
    target: str
    count: int


class IntentDelayed(Event):
    """A person's decision runs after its undo window; `undo_digest` is that of what a take-back restores.

    These bytes go at the end of the window, so the entry says whether they had a salt in them.
    """

    kind = Kind.INTENT_DELAYED
    intent_id: Id
    not_before: At
    undo_digest: str
    undo_salted: bool = False


class IntentReleased(Event):
    """The undo window has ended: the decision is final, and the agent is told."""

    kind = Kind.INTENT_RELEASED
    intent_id: Id


class IntentReturned(Event):
    """RESUME was taken back: the intent is with a person again, in `state`, as it was before."""

    kind = Kind.INTENT_RETURNED
    intent_id: Id
    state: Text
    valid_until: At
    lifted_digest: str
    purpose: Text
    answered: int


class IntentSuperseded(Event):
    """A person put another intent in its place, and stated whether it is known to have had no effect."""

    kind = Kind.INTENT_SUPERSEDED
    intent_id: Id
    by_intent_id: Id
    stated_without_effect: bool


class AttemptStarted(Event):
    kind = Kind.ATTEMPT_STARTED
    intent_id: Id
    number: int
    step: str
    target_key: str
    lease_until: At
    direction: Text | None = None
    purpose: Text | None = None


class AttemptFinished(Event):
    """`next_purpose` is what the next attempt is for, where there is one at `next_at`."""

    kind = Kind.ATTEMPT_FINISHED
    intent_id: Id
    number: int
    result: Text
    error_category: Text | None = None
    status_code: int | None = None
    receipt_commitment: str | None = None
    next_at: At | None = None
    next_purpose: Text | None = None


class AttemptReportedLate(Event):
    """An answer that came after the attempt's lease had passed to someone else.

    `contradicts` is the person who had stated before that the call did not take effect.
    """

    kind = Kind.ATTEMPT_REPORTED_LATE
    intent_id: Id
    number: int
    result: Text
    receipt_commitment: str | None = None
    contradicts: Text | None = None


class AttemptSettled(Event):
    """What became of calls in doubt is known: by `receipt`, by `probe` or by the person who stated it.

    `contradicts` is the person who had stated that they did not take effect.
    """

    kind = Kind.ATTEMPT_SETTLED
    intent_id: Id
    numbers: Numbers
    effect: Text
    by: Text
    contradicts: Text | None = None


class StatusQueryStarted(Event):
    """A person asks the target, by the key of a call in doubt, what became of it: the `query`th time."""

    kind = Kind.STATUS_QUERY_STARTED
    intent_id: Id
    number: int
    target_key: str
    target: str
    query: int


class StatusQueryFinished(Event):
    """What came back; it settles nothing. `answer_commitment` is that of the answer as it came.

    `found` is FOUND, NOT_FOUND, UNKNOWN, or NOT_SENT, where `why` says what held the question back.
    """

    kind = Kind.STATUS_QUERY_FINISHED
    intent_id: Id
    number: int
    target_key: str
    query: int
    found: Text
    took_ms: int
    status_code: int | None = None
    error_category: Text | None = None
    answer_commitment: str | None = None
    why: Text | None = None


class SagaAdvanced(Event):
    """One of several steps is done, or undone; without `next_step` it was the last.

    `valid_until` is the new end of the window, where a person marked the step as done.
    """

    kind = Kind.SAGA_ADVANCED
    intent_id: Id
    step: str
    direction: Text
    receipt_commitment: str | None = None
    next_step: str | None = None
    valid_until: At | None = None


class SagaDirtied(Event):
    """`step` will not be done, and those in `done` have taken effect: they are to be undone.

    `category` is the error category that the outcome will have; empty where there is none.
    """

    kind = Kind.SAGA_DIRTIED
    intent_id: Id
    step: str
    cause: Text
    done: Names
    category: Text | None = None


class SagaCompensated(Event):
    """Every effect is undone: the state has converged."""

    kind = Kind.SAGA_COMPENSATED
    intent_id: Id
    undone: Names


class OutcomeRecorded(Event):
    """`deviations` counts the expected effects that were not observed.

    `outcome_digest` is that of what the outcome says beside status and receipt. Where the kind says how grave
    a deviation is, all of them are behind `deviations_commitment`.
    """

    kind = Kind.OUTCOME_RECORDED
    intent_id: Id
    status: Text
    receipt_commitment: str | None = None
    deviations: int = 0
    outcome_digest: str | None = None
    deviations_commitment: str | None = None
    # The last numbered version of the world when it was recorded.
    world_version_id: int | None = None


class OutcomeFinding(BaseModel):
    """What is wrong with an outcome, by its code, and where in the policy kind that was asked."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    code: Text
    place: str


class OutcomeNamed(Event):
    """What the policy kind makes of the receipts of an execution that succeeded.

    `outcome` is one that the kind allows, and null where there is none. `outputs` are the names of those that
    fit; their values are behind `outputs_commitment`. What was asked is behind `receipt_commitment`. With
    findings and before `outcome:recorded`, a person is asked what becomes of it.
    """

    kind = Kind.OUTCOME_NAMED
    intent_id: Id
    outcome: Text | None
    outputs: Names
    outputs_commitment: str | None
    receipt_commitment: str | None
    findings: Annotated[tuple[OutcomeFinding, ...], Strict(False)]


class ResourceConfigured(Event):
    kind = Kind.RESOURCE_CONFIGURED
    resource: str
    capacity: int
    unit: str


class ResourceReserved(Event):
    kind = Kind.RESOURCE_RESERVED
    resource: str
    amount: int
    lease_until: At | None = None


class ResourcePinned(Event):
    """A worker's claim keeps the reservation until the flow ends; `again`: its lease had ended before."""

    kind = Kind.RESOURCE_PINNED
    resource: str
    amount: int
    again: bool = False


class ResourceCommitted(Event):
    kind = Kind.RESOURCE_COMMITTED
    resource: str
    amount: int


class ResourceReleased(Event):
    kind = Kind.RESOURCE_RELEASED
    resource: str
    amount: int
    reason: Text


class CircuitOpened(Event):
    """So many failures in a row: nobody calls the target before `retry_at`."""

    kind = Kind.CIRCUIT_OPENED
    target: str
    failures: int
    retry_at: At


class CircuitClosed(Event):
    """Calls go through again; `reason` is PROBE_SUCCEEDED, or what a person wrote."""

    kind = Kind.CIRCUIT_CLOSED
    target: str
    reason: Text


class TargetChecked(Event):
    """A person looked whether the target can be called; nothing was sent to it."""

    kind = Kind.TARGET_CHECKED
    target: str
    is_good: bool
