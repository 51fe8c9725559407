"""The reasoning trace of a flow as a graph: a drawing, the same as a table, and the signed document."""

from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import signed_in, tenant_of
from audit.contracts.flow import NotThereError
from audit.packs.flow_reading import DamagedError
from audit.reasoning import signed
from audit.reasoning.graph import Node, Sort
from audit.reasoning.signed import SignedGraph
from audit.sealing import keys
from audit.verification.verify import snapshot
from runtime.core import clock
from runtime.core.views import labels, query_params
from runtime.flows.queries import flow_search
from runtime.flows.views import reasoning_drawing
from runtime.flows.views.reasoning_drawing import SORTS
from runtime.flows.views.record_presenters import SIGNED
from runtime.kernel import effects

_CONFLICT: Final = 409


@require_safe
@signed_in
def detail(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Show the graph of the newest verdict, or of `?decision=`; with `?download=1` its signed document."""
    tenant = tenant_of(request.user)
    decision = query_params.uuid(request.GET.get("decision", ""))
    context: dict[str, Any] = {"dfid": dfid}
    try:
        with snapshot():
            found = signed.of_flow(tenant=tenant, dfid=dfid, decision_id=str(decision or ""))
            verified = None if found is None else _verified(tenant, found)
    except DamagedError as error:
        return render(request, "runtime/reasoning.html", context | {"damaged": str(error)}, status=_CONFLICT)
    except NotThereError as error:
        return render(request, "runtime/reasoning.html", context | {"absent": str(error)})
    if found is None:
        raise Http404
    if "download" in request.GET:
        answer = HttpResponse(canonical.encode(found.plain()), content_type="application/json")
        answer["Content-Disposition"] = f'attachment; filename="reasoning-{found.graph.decision_id}.json"'
        return answer
    return render(request, "runtime/reasoning.html", context | _shown(found, verified))


def _verified(tenant: str, found: SignedGraph) -> bool | None:
    ring = keys.keyring(tenant=tenant)
    return ring.verify(found.signed, found.signature, found.key_id, at=clock.now())


def _shown(found: SignedGraph, verified: bool | None) -> dict[str, Any]:
    graph = found.graph
    proposals = flow_search.list_proposals(dfid=UUID(graph.dfid))
    return {
        "graph": graph,
        "root": graph.root,
        "key_id": found.key_id,
        "signature": found.signature.hex(),
        "signed": SIGNED[verified],
        "drawing": reasoning_drawing.draw(graph),
        "rows": [_row(node) for node in graph.nodes],
        "signers": graph.trace["signatures"],
        "redactions": graph.trace["redaction_info"],
        "others": [str(proposal.pk) for proposal in proposals if str(proposal.pk) != graph.decision_id],
    }


def _row(node: Node) -> dict[str, Any]:
    return {
        "node": node,
        "badge": SORTS[node.sort],
        "name": effects.visible(node.name),
        "words": effects.visible(_words(node)),
        "claims": ", ".join(node.claims),
        "body": labels.pretty(dict(node.body)),
    }


def _words(node: Node) -> str:
    """What a node says, in one sentence."""
    body = node.body
    match node.sort:
        case Sort.CONTEXT:
            return "The facts that the agent was given."
        case Sort.RULE:
            state = "Checked" if body["fired"] else "Not reached"
            return f"{state}, version {body['rule_version']}. Its words: {body['reason']}"
        case Sort.CONSULTATION:
            return f"The soft guard {body['provider']} flagged it (consensus {body['consensus']})."
        case Sort.CONFIDENCE:
            return f"The agent states a confidence of {body['confidence']}."
        case Sort.SYNTHESIS:
            bounds, steps = len(body["constraints"]), len(body["steps"])
            return f"Verdict {body['verdict']}. Bounds: {bounds}. Steps reported: {steps}."
