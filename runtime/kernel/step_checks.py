"""What is asked around the steps of an intent: before one, between two, of a receipt, and after the last.

Nothing here raises: what cannot be evaluated does not hold, and an effect that has happened is told whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.contracts.kind_steps import Step
from runtime.contracts.kind_types import OnFail
from runtime.contracts.outcome import Deviation
from runtime.contracts.policy_kind import Invariant, InvariantPlace, KindDocument
from runtime.contracts.reasons import Reason
from runtime.kernel import schemas
from runtime.kernel.rules import language, safety
from runtime.kernel.rules.language import ExpressionError

RECEIPT_SCHEMA = "receipt_schema"
REMEDIATION = "Check at the target what was done. Mark the step done with what is true, or abort to undo it."
REMEDIATION_AFTER = (
    "Check what the steps have left behind. Mark it done if that may stay, or abort to undo it."
)


@dataclass(frozen=True, kw_only=True)
class Broken:
    """What does not hold before a step: `pauses` says that a person decides, else what is done is undone."""

    reason: Reason
    name: str
    why: str
    pauses: bool


@dataclass(frozen=True, kw_only=True)
class InvariantsAsked:
    """The invariants that were asked at a place, by name; `broken` are those that did not hold."""

    place: InvariantPlace
    held: tuple[str, ...] = ()
    broken: tuple[Broken, ...] = ()

    @property
    def violated(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(one.name for one in self.broken)


def ask_invariants(kind: KindDocument, place: InvariantPlace, *, names: Mapping[str, Any]) -> InvariantsAsked:
    """Ask the invariants of a place over `names` (those of `scope.JUDGED`, with the facts of now)."""
    held, broken = list[str](), list[Broken]()
    unsafe, known = safety.why_unsafe(kind), language.shared(names)
    for one in kind.asserted(place):
        why = safety.NOT_ASKED if unsafe else _why_not(one.require, known, one.message)
        if why is None:
            held.append(one.invariant_id)
        else:
            name = one.invariant_id
            broken.append(Broken(reason=Reason.INVARIANT_VIOLATED, name=name, why=why, pauses=True))
    return InvariantsAsked(place=place, held=tuple(held), broken=tuple(broken))


def ask_preconditions(step: Step, *, names: Mapping[str, Any]) -> tuple[Broken, ...]:
    """The preconditions of a step that do not hold; `names` are those of `scope.BEFORE_STEP`."""
    known = language.shared(names)
    asked = ((one, _why_not(one.require, known, one.message)) for one in step.preconditions)
    return tuple(
        Broken(reason=Reason.PRECONDITION_FAILED, name=one.id, why=why, pauses=one.on_fail is OnFail.ESCALATE)
        for one, why in asked
        if why is not None
    )


def misfits(step: Step, receipt: Mapping[str, Any]) -> Iterator[Deviation]:
    """Where a receipt does not fit the step's `receipt_schema`: a deviation for each place."""
    if step.receipt_schema is None:
        return
    for broken in schemas.violations(step.receipt_schema, dict(receipt)):
        yield Deviation(
            fact=f"{step.id}{broken.pointer or '/'}",
            expected=broken.message,
            observed=_at(receipt, broken.pointer),
            why=RECEIPT_SCHEMA,
            code=Reason.RECEIPT_INVALID,
            severity=step.misfit.severity,
            remediation=step.misfit.remediation or REMEDIATION,
        )


def after(kind: KindDocument, asked: InvariantsAsked) -> Iterator[Deviation]:
    """The invariants that do not hold once all steps are done, as deviations."""
    known = {one.invariant_id: one for one in kind.asserted(asked.place)}
    for one in asked.broken:
        pinned: Invariant = known[one.name]
        yield Deviation(
            fact=one.name,
            expected=pinned.require,
            observed=None,
            why=one.why,
            code=Reason.INVARIANT_VIOLATED_AFTER,
            severity=pinned.severity,
            remediation=REMEDIATION_AFTER,
        )


def _why_not(require: str, names: Mapping[str, Any], message: str | None) -> str | None:
    try:
        return None if language.require(require, names) else message or "it does not hold"
    except ExpressionError as error:
        return f"could not be evaluated: {error.message}"


def _at(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer; None where there is nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
