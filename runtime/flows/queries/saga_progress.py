"""The progress of an intent with several steps, from its rows."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from audit import canonical, statements
from runtime.contracts.reasons import PAUSED
from runtime.contracts.states import (
    LIVE_INTENTS,
    AttemptState,
    Direction,
    Effect,
    FlowState,
    IntentState,
    Purpose,
    StepState,
)
from runtime.flows.models import Attempt, Flow, Intent, StepReceipt
from runtime.flows.queries import intent_plan
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.kernel import saga
from runtime.kernel.saga import Progress
from runtime.registry.models import Agent


@dataclass(frozen=True, kw_only=True)
class StepShown:
    """One step as people see it. `is_current`: the walk has come to it, or goes back over it.

    `recorded_at` and `recorded_by` are those of what was last recorded of it, if anything was.
    """

    step: str
    target: str
    state: StepState
    is_current: bool
    has_undo: bool
    recorded_at: datetime | None
    recorded_by: str


def progress_of(intent: Intent) -> Progress:
    """What is done and undone, from the rows of finished steps."""
    if intent.steps == 1:
        return Progress()
    rows = list(StepReceipt.objects.filter(intent=intent).values_list("position", "direction"))
    return Progress(
        done=frozenset(at for at, direction in rows if direction == Direction.FORWARD),
        undone=frozenset(at for at, direction in rows if direction == Direction.COMPENSATE),
        harmless=IntentPlan.of(intent).harmless,
    )


def receipts_of(intent: Intent) -> dict[str, Any]:
    """The receipts of the finished forward steps by their ids, in their order; none of a single call."""
    if intent.steps == 1:
        return {}
    rows = StepReceipt.objects.filter(intent=intent, direction=Direction.FORWARD).order_by("position")
    return {row.step: canonical.decode(bytes(row.receipt)) for row in rows}


def get_effect(*, proposals: Collection[UUID]) -> Effect:
    """The effects that these proposals have had, although they did not succeed.

    A step that is in doubt may have been done, and a compensation in doubt may not have undone it: UNKNOWN.
    """
    finished = StepReceipt.objects.filter(intent__proposal__in=proposals)
    unknown = Attempt.objects.filter(
        intent__proposal__in=proposals, state=AttemptState.UNKNOWN, purpose=Purpose.CALL
    )
    known: dict[str, set[tuple[UUID, str]]] = {way: set() for way in Direction.values()}
    in_doubt: dict[str, set[tuple[UUID, str]]] = {way: set() for way in Direction.values()}
    for intent_id, step, direction in finished.values_list("intent", "step", "direction"):
        known[direction].add((intent_id, step))
    # A single call has no row of its step: what a person is asked about is known from its receipt alone.
    succeeded = Attempt.objects.filter(intent__proposal__in=proposals, state=AttemptState.SUCCEEDED)
    for intent_id, step, direction in succeeded.values_list("intent", "step", "direction"):
        known[direction].add((intent_id, step))
    calls = unknown.exclude(effect=Effect.NOT_HAPPENED)
    for intent_id, step, direction, effect in calls.values_list("intent", "step", "direction", "effect"):
        (known if effect == Effect.HAPPENED else in_doubt)[direction].add((intent_id, step))
    harmless = _harmless(known[Direction.FORWARD])
    undone = known[Direction.COMPENSATE] | harmless
    done = known[Direction.FORWARD] - undone
    if done - in_doubt[Direction.COMPENSATE]:
        return Effect.HAPPENED
    return Effect.UNKNOWN if done or in_doubt[Direction.FORWARD] - undone else Effect.NOT_HAPPENED


def _harmless(done: Collection[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
    """Those of these steps of intents that have no effect in the world."""
    found = set[tuple[UUID, str]]()
    for intent in Intent.objects.filter(pk__in={intent_id for intent_id, _ in done}):
        plan = IntentPlan.of(intent)
        found |= {(intent.pk, step) for step in plan.step_ids(plan.harmless)}
    return found


def may_have_taken_effect(*, proposals: Collection[UUID]) -> bool:
    """Whether these proposals have, or may have, taken effect, although their flow is aborted."""
    return get_effect(proposals=proposals) is not Effect.NOT_HAPPENED


def is_dirty(flow: Flow) -> bool:
    """Whether some of its steps have taken effect that are to be undone."""
    return _DIRTY.exists(dfid=flow.pk)


def has_dirty_flows(*, agent: Agent, besides: Intent | None = None) -> bool:
    """Whether a flow of the agent, other than that of `besides`, is partially executed.

    It is being undone, or paused between two steps until a person decides.
    """
    rows = _dirty().filter(flow__agent=agent)
    return (rows if besides is None else rows.exclude(pk=besides.pk)).exists()


def list_dirty_flows(agent: Agent, *, limit: int) -> list[UUID]:
    """The flows that keep an agent locked until their state has converged, oldest first."""
    rows = _dirty().filter(flow__agent=agent).order_by("created_at")
    return list(rows.values_list("flow_id", flat=True)[:limit])


def _dirty() -> QuerySet[Intent]:
    undone = Q(direction=Direction.COMPENSATE, state__in=LIVE_INTENTS)
    paused = Q(
        direction=Direction.FORWARD,
        state=IntentState.WITH_PERSON,
        flow__state=FlowState.ESCALATED,
        flow__reason__in=[reason.value for reason in PAUSED],
    )
    steps = StepReceipt.objects.filter(intent=OuterRef("pk"))
    return Intent.objects.filter(undone | (paused & Exists(steps)))


def _of_dirty(*, dfid: UUID) -> QuerySet[Intent, Any]:
    return statements.any_of(_dirty().filter(flow=dfid, direction=Direction.COMPENSATE))


_DIRTY: Final = statements.Read(_of_dirty)


def list_steps(intent: Intent) -> tuple[StepShown, ...]:
    """The steps of an intent with several, in order; none for a single one, whose attempts tell all."""
    if intent.steps == 1:
        return ()
    plan = IntentPlan.of(intent)
    if not plan.steps:
        return ()
    is_live = intent.state in LIVE_INTENTS
    states = saga.states(
        intent_plan.position_of(intent),
        steps=intent.steps,
        progress=progress_of(intent),
        fallbacks=plan.fallbacks,
        is_live=is_live,
    )
    last = {
        row.position: row for row in StepReceipt.objects.filter(intent=intent).order_by("recorded_at", "pk")
    }
    return tuple(
        StepShown(
            step=step.step,
            target=step.target or step.executor,
            state=state,
            is_current=is_live and at == intent.position,
            has_undo=step.compensation is not None,
            recorded_at=last[at].recorded_at if at in last else None,
            recorded_by=last[at].recorded_by if at in last else "",
        )
        for at, (step, state) in enumerate(zip(plan.steps, states, strict=True))
    )
