"""What an intent has rendered since its ACCEPT, read at its position."""

from dataclasses import dataclass
from functools import lru_cache

from pydantic import ValidationError

from runtime.contracts.outcome import RenderedIntent
from runtime.contracts.policy_kind import OnUnknown
from runtime.contracts.states import Direction
from runtime.contracts.verdict import StepRequest
from runtime.flows.models import Intent


@dataclass(frozen=True, kw_only=True)
class CurrentCall:
    """The call that is next or under way, and what follows where its result is unknown."""

    step: StepRequest
    on_unknown: OnUnknown


def read(intent: Intent) -> RenderedIntent | None:
    """What was rendered; None for bytes that are no such thing, which must not be retried forever."""
    requests: object = intent.requests
    # A database can hold a text where bytes belong; what wrote it was not the runtime.
    return None if isinstance(requests, str) else _parse(bytes(intent.requests))


@lru_cache(maxsize=256)
def _parse(requests: bytes) -> RenderedIntent | None:
    try:
        return RenderedIntent.from_bytes(requests)
    except ValidationError:
        return None


def current(intent: Intent) -> CurrentCall | None:
    """The call at the intent's position; None where nothing can be called."""
    rendered = read(intent)
    if rendered is None or intent.position >= len(rendered.steps):
        return None
    step = rendered.steps[intent.position]
    call = step.compensation if intent.direction == Direction.COMPENSATE else step
    if call is None:
        return None
    # Without a path to ask by, only a person can know.
    unasked = rendered.on_unknown is OnUnknown.PROBE and call.probe is None
    return CurrentCall(step=call, on_unknown=OnUnknown.PERSON if unasked else rendered.on_unknown)


def step_id(intent: Intent, position: int) -> str:
    """The id of a step; its number where the requests cannot be read."""
    rendered = read(intent)
    if rendered is None or position >= len(rendered.steps):
        return str(position)
    return rendered.steps[position].step


def is_followed(intent: Intent) -> bool:
    """Whether routes or writes of the kind may follow a result of the intent."""
    rendered = read(intent)
    return rendered is not None and rendered.followed


def fallbacks(intent: Intent) -> frozenset[int]:
    """The places of the steps that only a route runs."""
    rendered = read(intent)
    return frozenset() if rendered is None else rendered.fallbacks


def can_be_undone(intent: Intent) -> bool:
    """Whether the intent is at a forward step that has a compensation."""
    if intent.direction != Direction.FORWARD:
        return False
    here = current(intent)
    return here is not None and here.step.compensation is not None


def undoable(intent: Intent) -> dict[str, int]:
    """The steps that have a compensation, with their places."""
    rendered = read(intent)
    steps = () if rendered is None else rendered.steps
    return {step.step: at for at, step in enumerate(steps) if step.compensation is not None}


def target_at(intent: Intent, position: int) -> str:
    """The target of a step and of what undoes it."""
    rendered = read(intent)
    if rendered is None or position >= len(rendered.steps):
        return ""
    return rendered.steps[position].target
