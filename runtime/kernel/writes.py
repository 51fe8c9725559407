"""What a step writes back: facts taken from its receipt."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit import canonical
from runtime.contracts import api_schemas
from runtime.contracts.kind_steps import Write
from runtime.contracts.outcome import Deviation
from runtime.kernel.rules import language, templates
from runtime.kernel.rules.language import ErrorCode, ExpressionError


@dataclass(frozen=True, kw_only=True)
class NewFact:
    """A fact's next value, as canonical JSON."""

    path: str
    value: bytes


@dataclass(frozen=True, kw_only=True)
class TakenFact:
    """The facts to write, by path, and what of the receipt could not be made into one."""

    facts: tuple[NewFact, ...]
    deviations: tuple[Deviation, ...]


def take_none(writes: Sequence[Write], *, why: str) -> TakenFact:
    """What is left where no write may be worked out: each is recorded as not taken, with the reason."""
    missed = (Deviation(fact=one.fact, expected=one.value, observed=None, why=why) for one in writes)
    return TakenFact(facts=(), deviations=tuple(missed))


def take(writes: Sequence[Write], *, names: Mapping[str, Any], longest_bytes: int) -> TakenFact:
    """Work out every write over `names` (those of `scope.RECEIPT`). Never raises: an effect that has
    happened must be recorded, whatever its receipt looks like. Of two writes to one fact the later counts.
    """
    facts: dict[str, NewFact] = {}
    deviations, known = [], language.shared(names)
    for write in writes:
        fact = write.fact
        try:
            fact = templates.fact_path(write.fact, known)
            value = canonical.encode(
                canonical.normalise(language.compile_expression(write.value).evaluate(known))
            )
            if not re.fullmatch(api_schemas.FACT_PATH, fact, re.ASCII):
                raise ExpressionError(ErrorCode.UNSAFE_VALUE)
        except (ExpressionError, canonical.CanonicalError) as error:
            deviations.append(Deviation(fact=fact, expected=write.value, observed=None, why=str(error)))
            continue
        if len(value) > longest_bytes:
            why = f"the value is longer than {longest_bytes} bytes"
            deviations.append(Deviation(fact=fact, expected=write.value, observed=None, why=why))
            continue
        facts[fact] = NewFact(path=fact, value=value)
    return TakenFact(facts=tuple(facts[path] for path in sorted(facts)), deviations=tuple(deviations))
