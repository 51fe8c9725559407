"""A stored context as its agent received it: rendered, and as raw bytes."""

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import signed_in, tenant_of
from runtime.contexts.queries import snapshots
from runtime.core import mismatches
from runtime.core.views import labels
from runtime.flows.views import erased_words


@require_safe
@signed_in
def detail(request: HttpRequest, dfid: UUID, context_ref: str) -> HttpResponse:
    """Show one snapshot, if it matches the ledger; with `?raw=1` only its stored bytes."""
    snapshot = snapshots.get_snapshot(tenant=tenant_of(request.user), dfid=dfid, context_ref=context_ref)
    if snapshot is None:
        raise Http404
    erased = erased_words.find(snapshot.flow)
    if erased is not None:
        return erased_words.page(request, erased, what="context")
    body = bytes(snapshot.body)
    if "raw" in request.GET:
        answer = HttpResponse(body, content_type="application/json")
        answer["Content-Disposition"] = f'attachment; filename="context-{context_ref[:16]}.json"'
        return answer
    mismatches.require(snapshots.compare_recorded(snapshot))
    content = canonical.decode(body)
    versions = content["versions"]
    context = {
        "flow": snapshot.flow,
        "snapshot": snapshot,
        "size": len(body),
        "facts": [
            {
                "path": f"{namespace}.{name}",
                "value": labels.plain_value(value),
                "version": versions[f"{namespace}.{name}"],
            }
            for namespace, names in content["facts"].items()
            for name, value in names.items()
        ],
        "history": [
            {
                "type": str(event["event_type"]),
                "at": str(event["at"]),
                "data": labels.plain_value(event["data"]),
            }
            for event in content["recent_history"]
        ],
        "memory": [dict(item) | {"value": labels.plain_value(item["value"])} for item in content["memory"]],
        "artifacts": content["artifacts"],
        "schemas": content["schemas"],
        "budget": sorted(content["budget"].items()),
        "mission": content["mission"],
        # Older contexts, from before the token budget, do not have this member.
        "trimmed": content.get("trimmed", []),
        "raw": body.decode(),
    }
    return render(request, "runtime/context.html", context)
