"""Policy kinds: the rules in force, as they were registered."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.permissions import signed_in, tenant_of
from runtime.models import PolicyKind
from runtime.queries.pages import agents, people
from runtime.views import presenters


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """The active version of each kind."""
    rows = [_summary(row) for row in agents.list_kinds(tenant=tenant_of(request.user))]
    return render(request, "runtime/kinds.html", {"rows": rows})


@require_safe
@signed_in
def detail(request: HttpRequest, kind: str) -> HttpResponse:
    """One kind: parameters, limits, rules, dependencies, steps; another version by `?version=`."""
    versions = agents.list_kind_versions(tenant=tenant_of(request.user), kind=kind)
    asked = request.GET.get("version", "")
    row = next((version for version in versions if version.version == asked), None)
    if row is None:
        if asked or not versions:
            raise Http404
        row = versions[0]
    body = canonical.decode(bytes(row.body))
    context = _summary(row) | {
        "versions": versions,
        "body": body,
        "params": _schema_rows(body.get("params_schema") or {}),
        "limits": body.get("limits") or [],
        "rules": body.get("rules") or [],
        "constraints": body.get("constraints") or [],
        "depends_on": [
            item if isinstance(item, dict) else {"fact": item, "unless": ""}
            for item in body.get("depends_on") or ()
        ],
        "steps": body.get("steps") or [],
        "claims": body.get("claims") or [],
        "raw": presenters.pretty(body),
        "created_by": presenters.actor_words(row.created_by, people.names_of([row.created_by])),
        "activated_by": presenters.actor_words(row.activated_by, people.names_of([row.activated_by])),
    }
    return render(request, "runtime/kind.html", context)


def _summary(row: PolicyKind) -> dict[str, Any]:
    body = canonical.decode(bytes(row.body))
    return {
        "kind": row,
        "effect": body.get("effect", ""),
        "reversible": bool(body.get("reversible")),
        "rule_count": len(body.get("rules") or ()) + len(body.get("limits") or ()),
        "targets": sorted({str(step["target"]) for step in body.get("steps") or () if step.get("target")}),
        "tier_title": {
            "T0": "Routine: confidence 0.6",
            "T1": "Moderate: confidence 0.7",
            "T2": "Elevated: confidence 0.8",
            "T3": "Highest: always a person unless waived",
        }.get(row.risk_tier, row.risk_tier),
    }


def _schema_rows(schema: dict[str, Any]) -> list[dict[str, str]]:
    required = set(schema.get("required") or ())
    made = []
    for name, part in (schema.get("properties") or {}).items():
        if not isinstance(part, dict):
            continue
        rest = {key: value for key, value in part.items() if key not in ("type", "description", "title")}
        kind = part.get("type", "any")
        made.append(
            {
                "name": str(name),
                "type": " or ".join(kind) if isinstance(kind, list) else str(kind),
                "required": "required" if name in required else "optional",
                "rest": ", ".join(f"{key} {presenters.plain_value(value)}" for key, value in rest.items()),
                "words": str(part.get("description") or part.get("title") or ""),
            }
        )
    return made
