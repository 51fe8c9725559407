"""One step of a workflow: may it be taken, and where does the flow stand after it? Pure.

What an agent reports is a claim: it can keep a step from being taken, and never allows what the gate refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

from audit import canonical
from runtime.contracts.kind_types import OnFail
from runtime.contracts.reasons import Reason
from runtime.contracts.workflow import (
    INTERRUPT,
    AllowedStep,
    BudgetChecker,
    BudgetOf,
    Core,
    Next,
    OnMissing,
    PrecedesChecker,
    RateChecker,
    ReportedStep,
    Router,
    SequenceChecker,
    StateChecker,
    StepPath,
    ThresholdRouter,
    ValidateRouter,
    ValueRouter,
    WorkflowDocument,
    WorkflowFold,
)
from runtime.kernel.rules import language

# A proposal is a step of this instruction.
PROPOSE = "PROPOSE"
# Subjects of findings that no policy of the document makes.
GRAPH, NEXT, VISITS = "graph", "next", "max_visits"
_FAILED, _PASSED = "FAIL", "PASS"


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of a budget, and the whole of it, in the same unit."""

    left: int
    whole: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A step before it is taken. `left` has what remains of each budget; one that is not in it has no cap."""

    instruction: str
    now_ms: int
    input: Mapping[str, Any]
    left: Mapping[BudgetOf, Remainder]


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a step is not allowed: the policy (or `graph`, `next`, `max_visits`) and its words."""

    subject: str
    message: str
    on_fail: OnFail = OnFail.REJECT
    code: Reason = Reason.POLICY_VIOLATION
    retry_after_ms: int = 0


def begin(workflow: WorkflowDocument) -> WorkflowFold:
    """Where a flow stands before its first step."""
    return WorkflowFold(reliability=workflow.reliability.start)


# While a person decides how a flow continues, whatever its fold says.
AWAITING = Objection(
    NEXT,
    "A person decides how this flow continues. Wait for ESCALATION_RESOLVED in the feedback.",
    code=Reason.AWAITING_HUMAN_INPUT,
)


def check(workflow: WorkflowDocument, fold: WorkflowFold, asked: Asked) -> tuple[Objection, ...]:
    """Everything that speaks against the step; none allows it."""
    known = workflow.instructions.get(asked.instruction)
    if known is None or calls_person(fold):
        said = f"{asked.instruction} is not an instruction of {workflow.workflow} {workflow.version}."
        return (AWAITING if calls_person(fold) else Objection(GRAPH, said),)
    found = [*_entry(workflow, fold, asked.instruction)]
    visits = fold.visits.get(asked.instruction, 0)
    if known.max_visits is not None and visits >= known.max_visits:
        found.append(Objection(VISITS, f"{asked.instruction} was taken {visits} times, as often as allowed."))
    for checker in workflow.checkers:
        objection: Objection | None
        match checker:
            case SequenceChecker():
                objection = _sequence(checker, fold, known.core)
            case StateChecker():
                objection = _state(checker, fold, asked) if checker.on == asked.instruction else None
            case RateChecker():
                objection = _rate(checker, fold, asked) if checker.on == asked.instruction else None
            case BudgetChecker():
                if checker.on == asked.instruction:
                    objection = _budget(checker, fold, asked, start=workflow.reliability.start)
                else:
                    objection = None
            case PrecedesChecker():
                objection = _precedes(checker, fold, asked) if checker.on == asked.instruction else None
            case _:
                assert_never(checker)
        if objection is not None and not _is_allowed(fold, asked, objection):
            found.append(objection)
    return tuple(found)


def _is_allowed(fold: WorkflowFold, asked: Asked, objection: Objection) -> bool:
    allowed = fold.allowed
    return (
        allowed is not None
        and objection.on_fail is OnFail.ESCALATE
        and objection.subject in allowed.policies
        and asked.instruction == allowed.instruction
        and input_digest(asked.input) == allowed.input_digest
    )


def input_digest(given: Mapping[str, Any]) -> str:
    """What stands for the input of a step, where the same step has to be known again."""
    return canonical.digest(canonical.encode(dict(given)))


def may_be_allowed(instruction: str, objections: Sequence[Objection]) -> bool:
    """Whether a person may allow a step that is refused: by checkers alone that say so.

    Of a proposal the gate asks a person, with all else that speaks against it.
    """
    return instruction != PROPOSE and all(one.on_fail is OnFail.ESCALATE for one in objections)


def calls_person(fold: WorkflowFold) -> bool:
    """Whether a router has called a person, who has not let the flow continue yet."""
    return fold.pending is not None and fold.pending.instruction == INTERRUPT


def is_deadlocked(fold: WorkflowFold, instruction: str, objections: Sequence[Objection]) -> bool:
    """Whether the very step that a router demands is refused, so that no step at all can be taken.

    A rate only makes it wait.
    """
    if fold.pending is None or fold.pending.instruction != instruction:
        return False
    return any(objection.code is Reason.POLICY_VIOLATION for objection in objections)


def resume(fold: WorkflowFold) -> WorkflowFold:
    """Where the flow stands once a person has lifted the demand: any edge may be taken again."""
    return fold.model_copy(update={"pending": None})


def allow(fold: WorkflowFold, step: AllowedStep) -> WorkflowFold:
    """Where the flow stands once a person has allowed a refused step: as before; the agent asks again."""
    return fold.model_copy(update={"allowed": step})


def redirect(fold: WorkflowFold, instruction: str) -> WorkflowFold:
    """Where the flow stands once a person has chosen what comes next; checkers are still asked of it.

    The demand keeps the policy that called the person, so a validation counts as before.
    """
    policy = NEXT if fold.pending is None else fold.pending.policy
    pending = Next(instruction=instruction, policy=policy, reason="A person chose it.")
    return fold.model_copy(update={"pending": pending})


def permit(workflow: WorkflowDocument, fold: WorkflowFold, asked: Asked) -> WorkflowFold:
    """The fold with the permit of an allowed step spent; time never goes back."""
    spent = dict(fold.permits)
    for checker in workflow.checkers:
        if isinstance(checker, RateChecker) and checker.on == asked.instruction:
            held = spent.get(checker.id, ())
            moment = max((asked.now_ms, *held[-1:]))
            spent[checker.id] = (*held, moment)[-checker.times :]
    return fold.model_copy(update={"permits": spent})


def take(
    workflow: WorkflowDocument, fold: WorkflowFold, step: ReportedStep, *, now_ms: int, routes: bool = True
) -> WorkflowFold:
    """Where the flow stands after a step that was allowed; `pending` is what a router demands now.

    Without `routes` none demands anything: once a flow has proposed, what it still reports decides nothing,
    and what a router would have demanded (`routed`) is for people to review.
    """
    known = workflow.instructions[step.instruction]
    result = step.output.get("result")
    passed = {core: held for core, held in fold.passed_since.items() if core is not step.core}
    if result != _FAILED:
        passed = {core: tuple(sorted({*held, step.core})) for core, held in passed.items()}
    passed[step.core] = ()
    return fold.model_copy(
        update={
            "position": step.instruction,
            "visits": {**fold.visits, step.instruction: fold.visits.get(step.instruction, 0) + 1},
            "last_at_ms": {**fold.last_at_ms, step.instruction: now_ms},
            "passed_since": passed,
            "reliability": fold.reliability - known.cost,
            "pending": routed(workflow, fold, step) if routes else None,
            "allowed": None,
            "last": step,
        }
    )


def routed(workflow: WorkflowDocument, fold: WorkflowFold, step: ReportedStep) -> Next | None:
    """What a router demands after a step, taken where the flow stood at `fold`; None where none does."""
    return _validation(workflow, fold, step) or _route(workflow, step)


def _entry(workflow: WorkflowDocument, fold: WorkflowFold, instruction: str) -> Iterator[Objection]:
    if fold.pending is not None:
        if instruction != fold.pending.instruction:
            said = f"{fold.pending.instruction} comes next, by {fold.pending.policy}: {fold.pending.reason}"
            yield Objection(NEXT, said)
    elif fold.position is None:
        if instruction != workflow.start:
            yield Objection(GRAPH, f"The workflow begins with {workflow.start}, not with {instruction}.")
    elif (fold.position, instruction) not in workflow.edges:
        yield Objection(GRAPH, f"No edge leads from {fold.position} to {instruction}.")


def _sequence(checker: SequenceChecker, fold: WorkflowFold, core: Core) -> Objection | None:
    since = fold.passed_since.get(checker.before)
    if core is not checker.to or since is None or checker.between in since:
        return None
    said = f"After a {checker.before} step, {checker.between} must pass before {checker.to}."
    return Objection(checker.id, said, checker.on_fail)


def _state(checker: StateChecker, fold: WorkflowFold, asked: Asked) -> Objection | None:
    history = {} if fold.last is None else {"last": fold.last.model_dump(mode="json")}
    names = language.Names({"input": dict(asked.input), "history": history})
    try:
        if language.require(checker.require, names):
            return None
    except language.ExpressionError as error:
        return Objection(checker.id, f"{checker.id} could not be evaluated: {error.message}.")
    return Objection(checker.id, f"{checker.id} does not hold.", checker.on_fail)


def _rate(checker: RateChecker, fold: WorkflowFold, asked: Asked) -> Objection | None:
    held = fold.permits.get(checker.id, ())
    if len(held) < checker.times:
        return None
    wait_ms = held[0] + checker.per_s * 1000 - max(asked.now_ms, held[-1])
    if wait_ms <= 0:
        return None
    said = f"{asked.instruction} is allowed {checker.times} times in {checker.per_s} s."
    return Objection(checker.id, said, checker.on_fail, Reason.RATE_LIMITED, wait_ms)


def _budget(checker: BudgetChecker, fold: WorkflowFold, asked: Asked, *, start: int) -> Objection | None:
    of_flow = Remainder(fold.reliability, start)
    held = of_flow if checker.of is BudgetOf.RELIABILITY else asked.left.get(checker.of)
    # As it is written, not as a binary float has it: 0.29 of 100 is 29.
    if held is None or held.left > Fraction(str(checker.above)) * held.whole:
        return None
    said = (
        f"{held.left} of {held.whole} of {checker.of} is left, "
        f"and {asked.instruction} needs more than {checker.above:.4g} of the whole."
    )
    return Objection(checker.id, said, checker.on_fail)


def _precedes(checker: PrecedesChecker, fold: WorkflowFold, asked: Asked) -> Objection | None:
    at_ms = fold.last_at_ms.get(checker.by)
    if at_ms is None:
        return Objection(checker.id, f"{checker.by} must come before {asked.instruction}.", checker.on_fail)
    if checker.within_s is None or asked.now_ms - at_ms <= checker.within_s * 1000:
        return None
    said = f"{checker.by} must be at most {checker.within_s} s before {asked.instruction}."
    return Objection(checker.id, said, checker.on_fail)


def _validation(workflow: WorkflowDocument, fold: WorkflowFold, step: ReportedStep) -> Next | None:
    """What a validation that this step answers demands; None where it passed, or the step answers none."""
    pending = fold.pending
    router = next(
        (item for item in workflow.routers if pending is not None and item.id == pending.policy), None
    )
    if not isinstance(router, ValidateRouter) or step.instruction != router.by:
        return None
    result = step.output.get("result")
    if result == _PASSED:
        return None
    if result == _FAILED:
        return Next(instruction=router.failed, policy=router.id, reason=f"{router.by} reported {_FAILED}.")
    return Next(instruction=router.by, policy=router.id, reason=f"{router.by} has not reported {_PASSED}.")


def _route(workflow: WorkflowDocument, step: ReportedStep) -> Next | None:
    for router in workflow.routers:
        if router.on == step.instruction and (routed := _match(router, step)) is not None:
            return routed
    return None


def _match(router: Router, step: ReportedStep) -> Next | None:
    if isinstance(router, ValidateRouter):
        if router.by is None:
            return _require(router, step)
        return Next(instruction=router.by, policy=router.id, reason=f"{router.by} must check {router.on}.")
    found, value = _read(router.key, step)
    if isinstance(router, ThresholdRouter) and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        found = False
    if not found:
        if router.on_missing is OnMissing.GO_ON:
            return None
        return Next(instruction=router.to, policy=router.id, reason=f"{router.key} was not reported.")
    match router:
        case ThresholdRouter(below=None, above=bound):
            matches, reason = value > bound, f"{router.key} is above {bound:g}."
        case ThresholdRouter(below=bound):
            matches, reason = value < bound, f"{router.key} is below {bound:g}."
        case ValueRouter(equals=wanted):
            # Bytes, not ==: Python holds True equal to 1.
            wanted_bytes = canonical.encode(wanted)
            matches = canonical.encode(value) == wanted_bytes
            reason = f"{router.key} is {wanted_bytes.decode()}."
        case _:
            assert_never(router)
    return Next(instruction=router.to, policy=router.id, reason=reason) if matches else None


def _require(router: ValidateRouter, step: ReportedStep) -> Next | None:
    names = language.Names({"input": step.input, "output": step.output})
    try:
        if language.require(router.require or "", names):
            return None
        reason = f"{router.id} does not hold."
    except language.ExpressionError as error:
        reason = f"{router.id} could not be evaluated: {error.message}."
    return Next(instruction=router.failed, policy=router.id, reason=reason)


def _read(path: StepPath, step: ReportedStep) -> tuple[bool, Any]:
    first, *names = path.split(".")
    value: Any = step.output if first == "output" else step.input
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return True, value
