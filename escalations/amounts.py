"""The amounts of a case by unit: what limits of authority are compared with."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from escalations.evidence_contracts import EvidenceDocument, JudgedEvidence
from runtime.contracts.units import AmountUnits
from runtime.contracts.verdict import FigureShown, Finding
from runtime.kernel import units
from runtime.kernel.gate.findings import CheckName

NO_UNIT = ""


def of_evidence(shown: EvidenceDocument | None) -> Mapping[str, int]:
    """The largest amount of each unit that a person is shown; none where nothing was proposed."""
    if not isinstance(shown, JudgedEvidence):
        return {}
    return read(
        params=shown.proposal.params,
        figures=shown.figures or (),
        findings=shown.findings,
        known=shown.amounts,
    )


def read(
    *,
    params: Mapping[str, Any],
    figures: Iterable[FigureShown],
    findings: Iterable[Finding],
    known: AmountUnits,
) -> Mapping[str, int]:
    """The largest amount of each unit, without its sign and rounded up.

    Amounts are parameters with a unit, what the runtime has worked out for them, and the values of limits.
    Without a unit, those of limits count, else the parameters: a number may be anything.
    """
    found: dict[str, int] = {}
    plain: list[int] = []
    for name, value in [*params.items(), *((item.param, item.live) for item in figures)]:
        number = units.number_of(value)
        if number is None:
            continue
        unit = known.params.get(name, NO_UNIT)
        if unit:
            found[unit] = max(found.get(unit, 0), math.ceil(abs(number)))
        else:
            plain.append(math.ceil(abs(number)))
    for finding in findings:
        number = None if finding.check != CheckName.LIMITS else units.number_in(finding.proposed_value or "")
        if number is not None:
            unit = known.limits.get(finding.subject, NO_UNIT)
            found[unit] = max(found.get(unit, 0), math.ceil(abs(number)))
    if plain:
        found.setdefault(NO_UNIT, max(plain))
    return found
