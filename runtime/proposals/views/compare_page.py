"""Two flows side by side: their timelines by stage, and what differs between them, in words."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from audit.verification.verify import snapshot
from runtime.core import clock, id_search
from runtime.core.views import query_params
from runtime.core.views.labels import Badge
from runtime.flows.models import Flow
from runtime.flows.queries import explored_flows, flow_search
from runtime.flows.queries.explored_flows import FlowKeys
from runtime.proposals.views import compared_flows
from runtime.proposals.views.compared_flows import NONE, PHASES, Side

SAME: Final = Badge("idle", "check", "Same")
DIFFERS: Final = Badge("warn", "high", "Differs")
ONLY: Final = {"a": Badge("info", "next", "Only in A"), "b": Badge("info", "next", "Only in B")}
# After flow, proposal, parameters and verdict.
_FACTS_AT: Final = 4
_HASH_DIGITS: Final = 64
_NOT_FOUND: Final = "No flow has this id."
_SEVERAL: Final = "More than one flow has this in its id. Give more of it."
_NO_ID: Final = "A flow id has hexadecimal digits and hyphens, as 019aa000-…."


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Compare flow `a` with flow `b`, each given by any part of its id; without both, ask for them."""
    tenant = tenant_of(request.user)
    typed = {name: query_params.text(request.GET.get(name, "")) for name in ("a", "b")}
    wrong: dict[str, str] = {}
    found: dict[str, Flow] = {}
    for name, text in typed.items():
        if text:
            flow = _find(tenant, text)
            if isinstance(flow, str):
                wrong[name] = flow
            else:
                found[name] = flow
    context: dict[str, Any] = {"typed": typed, "wrong": wrong}
    if len(found) == len(typed):
        with snapshot():
            at = clock.now()
            a, b = (compared_flows.read(found[name], at) for name in ("a", "b"))
        groups = _groups(a, b)
        context |= {
            "sides": [("A", a), ("B", b)],
            "groups": groups,
            "differing": sum(row["badge"] is not SAME for group in groups for row in group["rows"]),
            "same_flow": a.flow.pk == b.flow.pk,
            "phases": [
                {"title": title, "sides": [("A", a.phases[phase]), ("B", b.phases[phase])]}
                for phase, title in PHASES.items()
                if a.phases[phase] or b.phases[phase]
            ],
        }
    return render(request, "runtime/compare.html", context)


def _find(tenant: str, text: str) -> Flow | str:
    """The one flow with this in its id, or why there is none."""
    digits = id_search.digits_of(text)
    if not digits:
        return _NO_ID
    rows: Sequence[Flow]
    if len(digits) == id_search.DIGITS:
        whole = query_params.uuid(digits)
        one = None if whole is None else flow_search.get_flow(tenant=tenant, dfid=whole)
        rows = [] if one is None else [one]
    else:
        rows = explored_flows.search(tenant=tenant, wanted=FlowKeys(part=digits), before=None, size=2)
    if not rows:
        return _NOT_FOUND
    return rows[0] if len(rows) == 1 else _SEVERAL


def _groups(a: Side, b: Side) -> list[dict[str, Any]]:
    """The parts of both, name by name, in the order of the first flow that has them."""
    groups = []
    for title in dict.fromkeys((*a.texts, *b.texts)):
        left, right = a.texts.get(title, {}), b.texts.get(title, {})
        rows = [_row(name, left.get(name), right.get(name)) for name in dict.fromkeys((*left, *right))]
        groups.append({"title": title, "rows": rows})
    return [*groups[:_FACTS_AT], _facts(a, b), *groups[_FACTS_AT:]] if a.facts or b.facts else groups


def _facts(a: Side, b: Side) -> dict[str, Any]:
    """The facts that differ, and how many are the same."""
    units = {**a.units, **b.units}
    left, right = (compared_flows.facts_of(side, units) for side in (a, b))
    rows = [_row(name, left.get(name), right.get(name)) for name in sorted({*left, *right})]
    differing = [row for row in rows if row["badge"] is not SAME]
    same = len(rows) - len(differing)
    if same:
        differing.append(_row("The same in both", f"{same} facts", f"{same} facts"))
    return {"title": "Context facts", "rows": differing}


def _row(name: str, left: str | None, right: str | None) -> dict[str, Any]:
    if left is None or right is None:
        badge = ONLY["b" if left is None else "a"]
    else:
        badge = SAME if left == right else DIFFERS
    return {
        "name": name,
        "a": NONE if left is None else left,
        "b": NONE if right is None else right,
        "badge": badge,
        "is_code": len(left or right or "") == _HASH_DIGITS,
    }
