"""The catalogue of DecisionSpecs: what each policy kind in force allows, asks for, and decided lately."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from audit.records.statuses import Status
from escalations import decision_specs
from escalations.decision_specs import DecisionSpec, SpecFilter
from runtime.core import clock, paging
from runtime.core.views import labels, query_params
from runtime.flows.views import record_presenters
from runtime.registry.queries import people

_LONGEST: Final = 200
# The statuses in which a decision ends or waits; the others are on the way to one of them.
_SHOWN: Final = (Status.DECIDED, Status.REJECTED, Status.CLOSED, Status.ESCALATED)


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the specs by key, filtered by the address."""
    given = request.GET
    typed = {
        name: query_params.text(given.get(name, ""), longest=_LONGEST)
        for name in ("q", "approval_mode", "agent_id", "after")
    }
    wanted = SpecFilter(text=typed["q"], approval_mode=typed["approval_mode"], agent_id=typed["agent_id"])
    found = decision_specs.search(
        tenant=tenant_of(request.user), wanted=wanted, at=clock.now(), after=typed["after"]
    )
    names = people.names_of([spec.row.activated_by for spec in found.specs])
    context = {
        "typed": typed,
        "modes": [(mode, record_presenters.MODES.get(mode, mode)) for mode in decision_specs.modes()],
        "rows": [_row(spec, names) for spec in found.specs],
        "days": decision_specs.PERIOD.days,
        "pager": paging.pager(
            page=paging.Page(rows=found.specs, more=found.following is not None),
            query=given,
            key="after",
            last=str(found.following),
            order="by name",
        ),
    }
    return render(request, "escalations/specs.html", context)


def _row(spec: DecisionSpec, names: Any) -> dict[str, Any]:
    lately, contract = spec.activity, spec.contract
    return {
        "kind": spec.row,
        "contract": contract,
        "mode": "" if contract is None else record_presenters.MODES.get(contract.least_approval, ""),
        "by": labels.actor_words(spec.row.activated_by, names),
        "agents": spec.agents,
        "flows": lately.flows,
        "statuses": [
            (status.value, record_presenters.STATUSES[status].word, lately.by_status[status])
            for status in _SHOWN
            if status in lately.by_status
        ],
        "outcomes": sorted(lately.by_outcome.items()),
        "escalated": _share(lately.escalated, lately.flows),
        "overridden": _share(lately.overridden, lately.flows),
    }


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({round(100 * part / whole)} %)" if whole else "none"
