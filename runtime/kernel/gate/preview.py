"""What would follow from an ACCEPT: impact, effect sentence, state difference and the calls themselves."""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from audit import canonical
from runtime.contracts.policy_kind import Step
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Direction, Impact
from runtime.contracts.verdict import Difference, FigureShown, Finding, Segment, StepRequest
from runtime.kernel import effects, idempotency
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case, GateVersion
from runtime.kernel.rules import evaluate, request_rendering
from runtime.kernel.rules.figures import Figured
from runtime.kernel.rules.language import ErrorCode, ExpressionError

NAME = "consequence"
DEFAULT_TIMEOUT_S = 10


def check(case: Case) -> Iterable[Finding]:
    """RENDERING_FAILED: what cannot be made into a call is not accepted."""
    try:
        steps(case)
    except (ExpressionError, canonical.CanonicalError) as error:
        yield findings.fail(NAME, Reason.RENDERING_FAILED, f"The request cannot be made: {error}.")


def impact(case: Case) -> Impact:
    """The impact category; HIGH_IMPACT where it cannot be worked out (fail closed)."""
    if not _is_asked(case):
        return Impact.HIGH_IMPACT
    return evaluate.impact(case.kind, case.names)


def effect(case: Case) -> tuple[Segment, ...]:
    """The effect sentence, made by the runtime from the kind's template, never by the agent."""
    if case.rules.kind is None:
        return ()
    # What the runtime has worked out is what will happen; what the agent stated of it stands beside.
    params = {**case.proposal.params, **{item.param: item.live for item in _figures(case)}}
    return tuple(
        Segment(text=piece[-1], value=piece[0] == "value")
        for piece in effects.render(case.kind.effect, params)
    )


def figures(case: Case) -> tuple[FigureShown, ...]:
    """The parameters that the runtime worked out for itself, beside what was stated."""
    return tuple(
        FigureShown(
            param=item.param,
            stated=item.stated,
            live=item.live,
            stated_text=effects.shown_in(case.kind.effect, item.param, item.stated),
            live_text=effects.shown_in(case.kind.effect, item.param, item.live),
        )
        for item in _figures(case)
    )


def predicted(case: Case) -> tuple[Difference, ...]:
    """The facts that the effect is expected to change, with their live values."""
    if not _is_asked(case):
        return ()
    return tuple(
        Difference(fact=item.fact, current=case.facts.world.get(item.fact), proposed=item.value)
        for item in evaluate.predictions(case.kind, case.names)
        if _is_kept(item.value)
    )


def steps(case: Case) -> tuple[StepRequest, ...]:
    """Every call of the intent, rendered once: CEL map order differs from process to process.

    Raises:
        ExpressionError: when a path or body cannot be made, or holds a number that JSON would not keep.
    """
    dfid, intent_id = case.proposal.dfid, case.proposal.intent_id
    found = []
    for step in case.kind.steps:
        rendered = request_rendering.render_step(case.kind, step, case.names, dfid=dfid, intent_id=intent_id)
        call = _request(case, step, rendered, Direction.FORWARD)
        undoing = None
        # What undoes a step is made only where a later one can fail after it.
        if len(case.kind.steps) > 1:
            undoing = request_rendering.render_compensation(
                case.kind, step, case.names, dfid=dfid, intent_id=intent_id, key=call.key
            )
        if undoing is not None:
            compensation = _request(case, step, undoing, Direction.COMPENSATE)
            call = call.model_copy(update={"compensation": compensation})
        found.append(call)
    return tuple(found)


def _figures(case: Case) -> tuple[Figured, ...]:
    if not _is_asked(case):
        return ()
    return tuple(item for item in case.worked_out if _is_kept(item.stated) and _is_kept(item.live))


def _request(case: Case, step: Step, made: request_rendering.Rendered, direction: Direction) -> StepRequest:
    if not _is_kept(made.body):
        raise ExpressionError(ErrorCode.OVERFLOW)
    proposal = case.proposal
    key = idempotency.target_key(
        tenant=proposal.tenant,
        dfid=proposal.dfid,
        intent_id=proposal.intent_id,
        step=made.step,
        direction=direction,
    )
    return StepRequest(
        step=made.step,
        executor=made.executor,
        target=made.target,
        method=made.method,
        path=made.path,
        body=made.body,
        key=key,
        timeout_s=made.timeout_s or DEFAULT_TIMEOUT_S,
        probe=request_rendering.render_probe(step, case.names, intent_id=proposal.intent_id, key=key),
        fallback=step.id in case.kind.fallbacks,
    )


def _is_asked(case: Case) -> bool:
    """Whether the kind's expressions have all that they read, and may be evaluated over it."""
    has_rules = case.rules.kind is not None and case.rules.manifest is not None
    if not has_rules or case.facts.unsafe is not None:
        return False
    return not case.gate.has(GateVersion.V1_1) or not case.misfits


def at_most(value: str | None, bound: str | None) -> bool:
    """Whether a number in text is not above another; without numbers, whether the two are the same."""
    if value == bound:
        return True
    try:
        return value is not None and bound is not None and Decimal(value) <= Decimal(bound)
    except InvalidOperation:
        return False


def _is_kept(value: Any) -> bool:
    """Whether readers of the stored bytes get the same numbers: 2^60 in a float would come back rounded."""
    if isinstance(value, dict):
        return all(_is_kept(member) for member in value.values())
    if isinstance(value, list):
        return all(_is_kept(member) for member in value)
    return not isinstance(value, float) or abs(value) <= canonical.MAX_SAFE_INTEGER
