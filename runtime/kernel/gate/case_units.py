"""The units of everything that a judged case shows: of its kind's amounts, and of the facts it reads."""

import contextlib
from typing import Any

from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.units import AmountUnits
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.rules import kind_units, language, safety, templates
from runtime.kernel.rules.language import ExpressionError


def of_case(kind: KindDocument | None, judgement: Judgement) -> AmountUnits:
    """Return the units of a judged proposal; of facts, those for which the kind names one, by path.

    Where the kind may not be evaluated over the proposal, no path is made, and no fact has a unit.
    """
    known, asked = kind_units.of_kind(kind, judgement.facts.resources or ()), judgement.proposal
    params, constraints = asked.params, asked.execution_constraints
    if kind is None or safety.why_not_asked(kind, params=params, constraints=constraints):
        return known
    return known.model_copy(update={"facts": _of_facts(kind, params)})


def _of_facts(kind: KindDocument, params: Any) -> dict[str, str]:
    names, found = language.Names({"params": params}), {}
    # The linter refuses a fact that the two name in different units.
    named = [(item.fact, item.unit) for item in kind.depends_on]
    named += [(item.fact, item.unit) for item in kind.predicts]
    for template, unit in named:
        if unit is not None:
            with contextlib.suppress(ExpressionError):
                found[templates.fact_path(template, names)] = unit
    return found
