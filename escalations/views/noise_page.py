"""The page of rules and agents that ask for nothing: what to retire, and what to reject at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from escalations import contracts, noise, queries
from escalations.evidence_contracts import JudgedEvidence
from escalations.models import Escalation
from escalations.noise import Advice, EndedCase, Noise
from escalations.services import decision_pace
from runtime.contracts.units import AmountUnits
from runtime.core import clock
from runtime.core.views import labels, times
from runtime.core.views.labels import Badge

MOST = 500
DAYS = (7, 30, 90)
ADVICE: Mapping[Advice, Badge] = {
    Advice.RETIRE: Badge("accent", "edit", "Raise the limit, or retire the rule"),
    Advice.REJECT: Badge("warn", "cross", "Let it reject: people abort nearly all"),
    Advice.STAFF: Badge("warn", "clock", "Half of them expire unanswered"),
    Advice.WATCH: Badge("danger", "high", "Let through nearly always, and some ended badly"),
}


@dataclass(frozen=True, slots=True)
class NoiseRow:
    """One line of the page; `limit` and `values` are written in the unit of the finding."""

    noise: Noise
    meaning: str
    limit: str
    values: Sequence[str]
    took: str
    advice: Badge | None


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the sums over the escalations that ended in the last days."""
    given = request.GET.get("days", "")
    days = int(given) if given in {str(number) for number in DAYS} else DAYS[1]
    cases, units, is_cut = _cases(tenant_of(request.user), days)
    context = {
        "rules": [_row(found, units) for found in noise.by_rule(cases)],
        "agents": [_row(found, units) for found in noise.by_agent(cases)],
        "days": days,
        "choices": DAYS,
        "cut_at": MOST if is_cut else None,
    }
    return render(request, "escalations/noise.html", context)


Units = Mapping[tuple[str, str, str], str]


def _cases(tenant: str, days: int) -> tuple[list[EndedCase], Units, bool]:
    """Read the newest ended escalations before an intent, of which the evidence matches the ledger."""
    rows = Escalation.objects.of(tenant).filter(
        family=contracts.Family.DECISION, resolved_at__gte=clock.now() - timedelta(days=days)
    )
    newest = list(rows.exclude(state=contracts.State.WITHDRAWN).order_by("-resolved_at")[: MOST + 1])
    shown = queries.get_evidence(tenant=tenant, escalations=newest[:MOST])
    outcomes = decision_pace.outcomes_of({row.flow_id for row in newest})
    cases: list[EndedCase] = []
    units: dict[tuple[str, str, str], str] = {}
    for row in newest[:MOST]:
        evidence = shown.get(row.pk)
        if not isinstance(evidence, JudgedEvidence) or row.resolved_at is None:
            continue
        for finding in evidence.referred:
            case = EndedCase(
                kind=evidence.policy_kind,
                check=finding.check,
                rule=finding.subject,
                code=finding.code,
                agent_id=evidence.agent_id,
                ended=row.resolution,
                outcome=outcomes.get(row.flow_id, ""),
                took_s=int((row.resolved_at - row.opened_at).total_seconds()),
                value=finding.proposed_value or "",
                limit=finding.limit or "",
            )
            cases.append(case)
            units.setdefault(_unit_key(case), _unit(evidence.amounts, case))
    return cases, units, len(newest) > MOST


def _row(found: Noise, units: Units) -> NoiseRow:
    case, unit = found.first, units.get(_unit_key(found.first), "")
    return NoiseRow(
        noise=found,
        meaning=labels.meaning(case.code),
        limit=labels.amount_in(case.limit, unit),
        values=[labels.amount_in(str(value), unit) for value in found.values or ()],
        took=times.span(timedelta(seconds=found.median_s)),
        advice=None if found.advice is None else ADVICE[found.advice],
    )


def _unit_key(case: EndedCase) -> tuple[str, str, str]:
    return case.kind, case.check, case.rule


def _unit(amounts: AmountUnits, case: EndedCase) -> str:
    return amounts.of_finding(case.check, case.rule)
