"""What each choice about an intent does to its reservations, its steps and its window, in sentences.

From the same rows and rules by which the decision is carried out: `execution.services.recovery`, `saga`, and
the settling of reservations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from escalations.contracts import Action
from runtime.contracts.reasons import PAUSED, QUESTIONED
from runtime.contracts.states import STANDING, Direction
from runtime.core.views import labels
from runtime.execution.services import human_steps
from runtime.flows.models import Intent
from runtime.flows.queries import calls_in_doubt, intent_plan, saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.kernel import effects, saga
from runtime.kernel.saga import Position
from runtime.registry.queries.target_endpoints import TargetEndpoint
from runtime.resources.models import Reservation

# Longer than this is said in hours.
MOST_MINUTES = 120


@dataclass(frozen=True, kw_only=True)
class _Case:
    """The facts that the sentences are made of; `reserved` is empty where nothing is."""

    intent: Intent
    plan: IntentPlan
    reserved: str
    done: tuple[str, ...]
    waiting: tuple[str, ...]
    undone_next: tuple[str, ...]
    window: timedelta
    at: datetime
    in_doubt: bool
    known_done: bool
    place: TargetEndpoint | None
    held_back: bool = False
    group: str = ""

    @property
    def step(self) -> str:
        """The step that the person is asked about."""
        return effects.visible(self.plan.step_id(self.intent.position))

    @property
    def target(self) -> str:
        """The target as pages write it."""
        return effects.visible(self.intent.target) or "the target"

    @property
    def undoes(self) -> bool:
        """Whether the call undoes a step."""
        return self.intent.direction == Direction.COMPENSATE


def of_intent(
    intent: Intent, *, place: TargetEndpoint | None, at: datetime
) -> Mapping[Action, Sequence[str]]:
    """What RESUME, MARK_DONE, MODIFY and ABORT do, a sentence each for the call, money, steps and window."""
    case = _read(intent, place=place, at=at)
    return {
        Action.RESUME: [_repeats(case), _keeps(case), *_goes_on(case), _window(case)],
        Action.MARK_DONE: _mark_done(case),
        Action.MODIFY: _modify(case),
        Action.ABORT: _abort(case),
    }


def _read(intent: Intent, *, place: TargetEndpoint | None, at: datetime) -> _Case:
    plan = IntentPlan.of(intent)
    progress = saga_progress.progress_of(intent)
    rows = Reservation.objects.filter(flow=intent.flow_id, state__in=STANDING).select_related("resource")
    held = sorted((row.resource.name, labels.amount(row.amount, row.resource.unit)) for row in rows)
    here = intent.position if intent.direction == Direction.FORWARD else intent.steps
    later = [step for step in range(here + 1, intent.steps) if step not in plan.fallbacks]
    return _Case(
        intent=intent,
        plan=plan,
        reserved=", ".join(f"{amount} of {effects.visible(name)}" for name, amount in held),
        done=plan.step_ids(progress.standing),
        waiting=plan.step_ids(later),
        undone_next=tuple(reversed(plan.step_ids(progress.standing & set(plan.undoable.values())))),
        window=intent.proposal.valid_until - intent.proposal.received_at,
        at=at,
        in_doubt=calls_in_doubt.is_in_doubt(intent=intent),
        known_done=calls_in_doubt.is_at_hand_known_done(intent=intent) or intent.flow.reason in QUESTIONED,
        place=place,
        held_back=intent.flow.reason in PAUSED,
        group=_group(plan, intent),
    )


def _group(plan: IntentPlan, intent: Intent) -> str:
    """The group that carries out the step at hand; empty where it is a call."""
    current = plan.current(intent)
    is_human = current is not None and human_steps.is_human(current.step)
    return str(current.step.body.get("group", "")) if current is not None and is_human else ""


def _repeats(case: _Case) -> str:
    if case.group:
        return f"Asks the group {effects.visible(case.group)} again, with a new deadline."
    if case.held_back:
        return f"Asks again what does not hold: {case.step} runs only if it does, else you are asked again."
    if not case.in_doubt:
        return f"Calls {case.target} again, with the same key."
    if case.place is not None and case.place.honours_keys:
        return f"Retry: cannot run twice, {case.target} honours keys."
    return f"Retry: may run twice, {case.target} does not declare that it honours keys."


def _keeps(case: _Case) -> str:
    return f"{case.reserved} stays reserved." if case.reserved else "Nothing is reserved."


def _goes_on(case: _Case) -> list[str]:
    if case.intent.steps == 1:
        return []
    if case.undoes:
        left = [step for step in case.undone_next if step != case.plan.step_id(case.intent.position)]
        return [f"Undoes {case.step} again{_then(left)}."]
    return [f"Runs {case.step}{_then(case.waiting)}. Done before: {_list(case.done)}."]


def _window(case: _Case) -> str:
    if case.undoes:
        return "What undoes a step has no validity window."
    left = case.intent.valid_until - case.at
    if left > case.window:
        return f"The validity window holds for another {_length(left)}."
    state = f"{_length(left)} are left" if left > timedelta() else "it has ended"
    return f"The validity window starts anew, {_length(case.window)} from the retry; now {state}."


def _mark_done(case: _Case) -> list[str]:
    follows = saga.after(
        intent_plan.position_of(case.intent),
        steps=case.intent.steps,
        progress=_after_this(case),
        fallbacks=case.plan.fallbacks,
    )
    if case.undoes:
        next_words = (
            f"then {case.plan.step_id(follows.step)} is undone" if isinstance(follows, Position) else ""
        )
        ended = next_words or "the flow ends as undone, and what it reserved is released"
        return [f"{case.step} counts as undone; {ended}.", "No call is made for it."]
    if isinstance(follows, Position):
        runs = effects.visible(case.plan.step_id(follows.step))
        return [
            f"{case.step} counts as done, with your receipt; {runs} runs next.",
            _keeps(case),
            f"The steps that follow get a window of {_length(case.window)} from now.",
        ]
    used = f"{case.reserved} counts as used." if case.reserved else "Nothing is reserved."
    return ["No call is made; the flow ends as executed, with your receipt.", used]


def _after_this(case: _Case) -> saga.Progress:
    progress, here = saga_progress.progress_of(case.intent), frozenset({case.intent.position})
    if case.undoes:
        return saga.Progress(done=progress.done, undone=progress.undone | here)
    return saga.Progress(done=progress.done | here, undone=progress.undone)


def _modify(case: _Case) -> list[str]:
    released = f"{case.reserved} is released first" if case.reserved else "Nothing is reserved so far"
    lines = [
        f"{released}; the changed proposal is judged and reserves its own.",
        f"It runs under a new key, with a new window of {_length(case.window)}.",
    ]
    if case.in_doubt:
        return ["Only if the call in doubt had no effect: otherwise there would be two.", *lines]
    return lines


def _abort(case: _Case) -> list[str]:
    if case.undoes:
        kept = f"Steps that stay done: {_list(case.done)}."
        return ["Nothing more is undone.", kept, *_used(case, f"{case.reserved} counts as used.")]
    lines = []
    if case.done:
        lines.append(f"Undone, newest first: {_list(case.undone_next)}. Not run: {_list(case.waiting)}.")
    elif case.waiting:
        lines.append(f"Not run: {_list(case.waiting)}.")
    undoable = case.intent.position in case.plan.undoable.values()
    if case.known_done and undoable and not case.in_doubt:
        lines.insert(0, f"{case.step} took effect: it is undone as well.")
    if case.in_doubt:
        return [*lines, *_abort_in_doubt(case, undoable=undoable)]
    if case.known_done and not undoable:
        kept = "counts as used: a receipt shows that the call took effect"
    elif case.done or case.known_done:
        kept = "stays reserved until the steps are undone"
    else:
        kept = "is released"
    return [*lines, *_used(case, f"{case.reserved} {kept}.")]


def _abort_in_doubt(case: _Case, *, undoable: bool) -> list[str]:
    """What follows from each statement about the call; without one it is the last."""
    undone = ["If the call took effect: it is undone."] if undoable else []
    if not case.reserved:
        return [*undone, "If its effect is not known: it stays listed as in doubt.", "Nothing is reserved."]
    used = "is released once that is done" if undoable else "counts as used"
    freed = "is released once the steps before it are undone" if case.done else "is released"
    return [
        *undone,
        f"If the call took effect: {case.reserved} {used}.",
        f"If it had no effect: {case.reserved} {freed}.",
        "If that is not known: the same counts as used, and the call stays listed as in doubt.",
    ]


def _used(case: _Case, words: str) -> list[str]:
    return [words] if case.reserved else ["Nothing is reserved."]


def _then(steps: Sequence[str]) -> str:
    return f", then {_list(steps)}" if steps else ""


def _list(steps: Sequence[str]) -> str:
    return ", ".join(effects.visible(step) for step in steps) or "none"


def _length(span: timedelta) -> str:
    minutes, rest = divmod(max(1, int(span.total_seconds())), 60)
    if minutes > MOST_MINUTES:
        return f"{minutes // 60} h"
    return f"{minutes} min {rest} s" if minutes and rest else f"{minutes} min" if minutes else f"{rest} s"
