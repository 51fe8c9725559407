"""What would follow from an ACCEPT: the people it needs, effect sentence, and the facts that would change."""

from collections.abc import Iterable

from audit import canonical
from runtime.contracts.policy_kind import ApprovalMode
from runtime.contracts.reasons import Reason
from runtime.contracts.states import Impact
from runtime.contracts.verdict import Difference, FigureShown, Finding, Segment
from runtime.kernel import effects
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case, GateVersion
from runtime.kernel.rules import evaluate, language
from runtime.kernel.rules.language import ExpressionError


def check_consequence(case: Case) -> Iterable[Finding]:
    """What would follow from an ACCEPT: impact, effect sentence, state difference and the calls themselves.

    RENDERING_FAILED: what cannot be made into a call is not accepted.
    """
    try:
        _ = case.calls
    except (ExpressionError, canonical.CanonicalError) as error:
        yield findings.fail(
            CheckName.CONSEQUENCE, Reason.RENDERING_FAILED, f"The request cannot be made: {error}."
        )


def needs_two_people(case: Case) -> bool:
    """Whether two people must let an agent's proposal run, whatever else the gate finds.

    The first gate knew of no such thing.
    """
    if case.proposal.by_person or case.rules.kind is None or not case.gate.has(GateVersion.V1_1):
        return False
    people = case.kind.people_needed if case.gate.has(GateVersion.V1_2) else case.kind.approvals
    return people > 1 or case.impact is Impact.CRITICAL


def needs_people(case: Case) -> bool:
    """Whether one person, or two, must let an agent's proposal run, whatever else the gate finds."""
    asks = not case.proposal.by_person and case.least_approval is not ApprovalMode.NONE
    return asks or needs_two_people(case)


def check_approvals(case: Case) -> Iterable[Finding]:
    """Must a person, or two different people, let it run?

    TWO_PEOPLE_REQUIRED, at CRITICAL impact and for kinds with `approvals: 2` or the approval mode
    `two_persons`; APPROVAL_REQUIRED for the approval modes `person` and `destructive`. Not asked of a person.
    """
    if needs_two_people(case):
        yield findings.refer(
            CheckName.APPROVALS, Reason.TWO_PEOPLE_REQUIRED, "Two different people must let this run."
        )
    else:
        yield findings.refer(CheckName.APPROVALS, Reason.APPROVAL_REQUIRED, "A person must let this run.")


def effect(case: Case) -> tuple[Segment, ...]:
    """The effect sentence, made by the runtime from the kind's template, never by the agent."""
    if case.rules.kind is None:
        return ()
    # What the runtime has worked out is what will happen; what the agent stated of it stands beside.
    params = {**case.proposal.params, **{item.param: item.live for item in case.figures}}
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
        for item in case.figures
    )


def predicted(case: Case) -> tuple[Difference, ...]:
    """The facts that the effect is expected to change, with their live values."""
    if not case.is_evaluated:
        return ()
    return tuple(
        Difference(fact=item.fact, current=case.facts.world.get(item.fact), proposed=item.value)
        for item in evaluate.predictions(case.kind, case.names)
        if language.is_exact(item.value)
    )
