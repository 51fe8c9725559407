"""What an execution that succeeded came to, in the words of its policy kind: asked of recorded receipts only.

The effect has happened: whatever is found here is told beside it, and never takes its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit import canonical
from runtime.contracts.outcome import Deviation
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.reasons import Reason
from runtime.kernel import schemas
from runtime.kernel.rules import language, safety
from runtime.kernel.rules.language import ExpressionError

# Of all outputs of an outcome together.
MAX_OUTPUT_BYTES = 65_536
OUTCOME, OUTPUTS, SCHEMA = "outcome", "outputs", "outputs_schema"
# As much of an outcome that is not allowed as is shown to people.
_SHOWN_CHARS = 64


@dataclass(frozen=True, kw_only=True)
class NamedOutcome:
    """The outcome by its own name, if it has one that is allowed; its outputs, if they fit; what is wrong."""

    outcome: str | None
    outputs: bytes | None
    output_names: tuple[str, ...]
    deviations: tuple[Deviation, ...]

    @property
    def reason(self) -> Reason | None:
        """Why a person is to look at it; None where nothing is wrong."""
        return next((item.code for item in self.deviations if item.calls_person), None)


def receipts_of(body: bytes, *, steps: Sequence[str]) -> dict[str, Any]:
    """The values of `receipt` and `steps` for what an outcome holds: one receipt, or `{step: receipt}`.

    `steps` are the ids of the steps, in order.
    """
    held = canonical.decode(body)
    by_step = {steps[0]: held} if len(steps) == 1 else held
    last: Any = next((by_step[step] for step in reversed(steps) if step in by_step), {})
    return {"receipt": last, "steps": by_step}


def ask(kind: KindDocument, *, names: Mapping[str, Any]) -> NamedOutcome:
    """What the receipts in `names` (those of `scope.ENDED`) come to. Never raises, whatever they are."""
    if safety.why_unsafe(kind):
        unasked = [OUTCOME] if kind.outcome is not None else []
        unasked += [OUTPUTS] if kind.outputs else []
        found = tuple(_wrong(place, safety.NOT_ASKED) for place in unasked)
        return NamedOutcome(outcome=None, outputs=None, output_names=(), deviations=found)
    known = language.shared(names)
    outcome, wrong = _name(kind, known)
    outputs, misfits = _take(kind, known)
    return NamedOutcome(
        outcome=outcome,
        outputs=outputs,
        output_names=tuple(sorted(kind.outputs)) if outputs is not None else (),
        deviations=(*wrong, *misfits),
    )


def _name(kind: KindDocument, names: Mapping[str, Any]) -> tuple[str | None, tuple[Deviation, ...]]:
    if kind.outcome is None:
        return None, ()
    try:
        named = language.text(kind.outcome, names)
    except ExpressionError as error:
        return None, (_wrong(OUTCOME, error.message, expected=list(kind.allowed_outcomes)),)
    if named in kind.allowed_outcomes:
        return named, ()
    wrong = _wrong(
        OUTCOME,
        "it is none of the allowed outcomes",
        expected=list(kind.allowed_outcomes),
        observed=named[:_SHOWN_CHARS],
    )
    return None, (wrong,)


def _take(kind: KindDocument, names: Mapping[str, Any]) -> tuple[bytes | None, tuple[Deviation, ...]]:
    """The outputs as canonical bytes. Without outputs of its own, the last receipt must fit the schema."""
    if kind.outputs_schema is None:
        return None, ()
    if not kind.outputs:
        return None, tuple(_misfits(kind.outputs_schema, names["receipt"]))
    taken: dict[str, Any] = {}
    for name, source in sorted(kind.outputs.items()):
        try:
            taken[name] = canonical.normalise(language.compile_expression(source).evaluate(names))
        except (ExpressionError, canonical.CanonicalError) as error:
            return None, (_wrong(f"{OUTPUTS}.{name}", str(error)),)
    body = canonical.encode(taken)
    if len(body) > MAX_OUTPUT_BYTES:
        return None, (_wrong(OUTPUTS, f"together they are longer than {MAX_OUTPUT_BYTES} bytes"),)
    misfits = tuple(_misfits(kind.outputs_schema, taken))
    return (None, misfits) if misfits else (body, ())


def _misfits(schema: Mapping[str, Any], value: Any) -> Iterator[Deviation]:
    for broken in schemas.violations(schema, value):
        yield _wrong(SCHEMA, f"{broken.pointer or '/'}: {broken.message}")


def _wrong(place: str, why: str, *, expected: Any = None, observed: Any = None) -> Deviation:
    code = Reason.OUTCOME_NOT_ALLOWED if place == OUTCOME else Reason.OUTPUTS_INVALID
    return Deviation(fact=place, expected=expected, observed=observed, why=why, code=code)
