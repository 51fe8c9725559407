"""Search of flows, and the timeline of one DFID."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from audit import canonical, presenters, queries
from audit.access.permissions import may, signed_in, tenant_of
from audit.access.roles import Permission
from audit.verification import verify
from runtime.contracts import states
from runtime.core import clock, paging
from runtime.core.views import labels, query_params, times
from runtime.execution.services import human_steps
from runtime.execution.views import saga_steps
from runtime.flows.models import Flow, Intent, Proposal
from runtime.flows.queries import children, flow_search, recorded_flow, saga_progress
from runtime.flows.queries.intent_plan import IntentPlan
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.flows.views import consultations_shown, duration_bar, erased_words, flow_words, timeline
from runtime.guards.queries import review_list
from runtime.guards.views import review_presenters
from runtime.proposals.views import proposal_presenters
from runtime.registry.queries import people

FULL_ID = 36


@require_safe
@signed_in
def search(request: HttpRequest) -> HttpResponse:
    """Flows by id, agent, kind, state, reason and time, newest first."""
    tenant = tenant_of(request.user)
    dfid = query_params.text(request.GET.get("dfid", ""))
    if (
        len(dfid) == FULL_ID
        and (whole := query_params.uuid(dfid))
        and flow_search.get_flow(tenant=tenant, dfid=whole)
    ):
        return redirect("flow", whole)
    wanted = flow_search.FlowFilter(
        dfid=dfid[:FULL_ID],
        agent=query_params.text(request.GET.get("agent", "")),
        kind=query_params.text(request.GET.get("kind", "")),
        state=request.GET.get("state", "") if request.GET.get("state") in states.FlowState.values() else "",
        reason=query_params.text(request.GET.get("reason", "")),
        since=query_params.moment(request.GET.get("since", "")),
        until=query_params.moment(request.GET.get("until", "")),
    )
    page = flow_search.list_flows(
        tenant=tenant, wanted=wanted, before=query_params.uuid(request.GET.get("before", ""))
    )
    shown = [flow.dfid for flow in page.rows]
    flagged = review_list.flows_in_review(dfids=shown)
    words = flow_words.of_flows(tenant=tenant, dfids=shown)
    rows = [
        _row(flow)
        | {
            "needs_review": review_presenters.NEEDS_REVIEW if flow.dfid in flagged else None,
            "words": words.get(flow.dfid),
        }
        for flow in page.rows
    ]
    context = {
        "wanted": wanted,
        "rows": rows,
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="before",
            last=str(page.rows[-1].dfid) if page.rows else "",
            order="newest first",
        ),
        "filtered": any(request.GET.values()),
        "paged": "before" in request.GET,
    }
    if "HX-Request" in request.headers:
        return render(request, "runtime/_flows.html", context)
    context |= {"kinds": flow_search.kinds_in_use(tenant=tenant), "states": labels.FLOW_STATES.items()}
    return render(request, "runtime/flows.html", context)


def _row(flow: Flow) -> dict[str, Any]:
    return {"flow": flow, "state": labels.badge(labels.FLOW_STATES, flow.state)}


@require_safe
@signed_in
def detail(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Show the timeline; for a live update only its head, or with `?part=side` the side column."""
    flow = _flow_or_404(request, dfid)
    after = query_params.whole(request.GET.get("after", "")) or 0
    page = flow_search.list_entries(tenant=flow.tenant, stream=str(dfid), after=after)
    lines = _lines(page.rows, flow=flow, after=after)
    until = None if flow.state in states.ENDED else clock.now()
    waiting_for = "" if until is None else _waiting_for(flow)
    stretches = duration_bar.stretches(lines, until=until, waiting_for=waiting_for)
    context = _head(flow) | {
        "lines": lines,
        "after": after,
        "cursor": lines[-1].seq if lines else after,
        "more": page.more,
        "lanes": presenters.LANES.values(),
        "stretches": stretches,
        "totals": duration_bar.totals(stretches),
    }
    if "HX-Request" in request.headers and request.GET.get("part") != "side":
        return render(request, "runtime/_flow_head.html", context)
    below = [_relative(child) for child in children.list_children(flow)]
    parent = None if flow.parent_id is None else flow_search.get_flow(tenant=flow.tenant, dfid=flow.parent_id)
    context |= {
        "parent": None if parent is None else _relative(parent),
        "children": below,
        "children_open": children.count_open(parent=flow) if below else 0,
        "before": flow_search.get_previous(flow),
    }
    swapped = "HX-Request" in request.headers
    template = "runtime/_flow_side.html" if swapped else "runtime/flow.html"
    context["may_erase"] = flow.state in states.ENDED and may(request.user, Permission.ERASE)
    context["erased"] = erased_words.find(flow)
    if context["erased"] is not None:
        return render(request, template, context)
    # Read rows and entries in one snapshot: concurrent writes of a worker are no mismatch.
    with verify.snapshot():
        known = recorded_flow.of_flow(tenant=flow.tenant, dfid=dfid)
        proposals = [_proposal(proposal, known) for proposal in flow_search.list_proposals(dfid=dfid)]
        units = {item["shown"].id: item["shown"].fact_units for item in proposals if "shown" in item}
        context |= {
            "proposals": proposals,
            "intents": [
                _intent(intent, known, units.get(str(intent.proposal_id), {}))
                for intent in flow_search.list_intents(dfid=dfid)
            ],
        }
        wrong = known.compare_trigger(flow)
        context["consultations"] = consultations_shown.of_flow(flow)
    if wrong is None:
        context["trigger"] = labels.pretty(canonical.decode(bytes(flow.trigger)))
    else:
        context["untrusted_trigger"] = [wrong]
    return render(request, template, context)


@require_safe
@signed_in
def entries(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Return the lines after the cursor, rendered as on the page."""
    flow = _flow_or_404(request, dfid)
    after = query_params.whole(request.GET.get("after", "")) or 0
    page = flow_search.list_entries(tenant=flow.tenant, stream=str(dfid), after=after)
    lines = _lines(page.rows, flow=flow, after=after)
    return render(request, "runtime/_entries.html", {"lines": lines, "flow": flow})


@require_safe
@signed_in
def entry(request: HttpRequest, dfid: UUID, seq: int) -> HttpResponse:
    """Show one entry as stored: hashes and canonical body."""
    flow = _flow_or_404(request, dfid)
    row = flow_search.get_entry(tenant=flow.tenant, stream=str(dfid), seq=seq)
    if row is None:
        raise Http404
    context = {
        "entry": row,
        "hash": bytes(row.hash).hex(),
        "prev_hash": bytes(row.prev_hash).hex(),
        "body": labels.pretty(canonical.decode(bytes(row.body))),
    }
    return render(request, "runtime/_raw_entry.html", context)


def _flow_or_404(request: HttpRequest, dfid: UUID) -> Flow:
    flow = flow_search.get_flow(tenant=tenant_of(request.user), dfid=dfid)
    if flow is None:
        raise Http404
    return flow


def _lines(rows: Any, *, flow: Flow, after: int) -> list[timeline.TimelineLine]:
    previous = flow_search.get_entry(tenant=flow.tenant, stream=str(flow.dfid), seq=after) if after else None
    return timeline.lines(
        rows,
        names=people.names_of([row.actor for row in rows]),
        begun_at=flow.opened_at,
        previous_at=previous.at if previous else None,
        texts=queries.list_texts(
            tenant=flow.tenant, commitments=[found for row in rows if (found := timeline.commitment_of(row))]
        ),
    )


def _proposal(proposal: Proposal, known: RecordedFlow) -> dict[str, Any]:
    """Return a proposal with its verdict, or the parts that do not match the ledger."""
    verdict = getattr(proposal, "verdict", None)
    compared = [known.compare_proposal(proposal), None if verdict is None else known.compare_verdict(verdict)]
    wrong = [mismatch for mismatch in compared if mismatch is not None]
    if wrong:
        return {"untrusted": wrong}
    return {"shown": proposal_presenters.shown(proposal, people.names_of([proposal.author]))}


def _intent(intent: Intent, known: RecordedFlow, units: Mapping[str, str]) -> dict[str, Any]:
    """Return an intent with its steps and outcome, or the parts that do not match the ledger.

    `units` are those of the facts of its proposal, by path.
    """
    wrong = known.list_unlike(intent)
    if wrong:
        return {"untrusted": wrong}
    steps = saga_progress.list_steps(intent)
    names = people.names_of([step.recorded_by for step in steps])
    return {
        "shown": proposal_presenters.intent_shown(intent, units),
        "standing": flow_words.AT_REST.get(intent.state, flow_words.UNDER_WAY),
        "steps": saga_steps.of_intent(steps, names=names),
    }


def _head(flow: Flow) -> dict[str, Any]:
    ended = flow.state in states.ENDED
    # The badge beside ESCALATED shows that completed steps are still to be undone.
    is_half_done = flow.state == states.FlowState.ESCALATED and saga_progress.is_dirty(flow)
    return {
        "flow": flow,
        "state": labels.badge(labels.FLOW_STATES, flow.state),
        "reviews": review_list.list_of_flow(dfid=flow.dfid),
        "needs_review": review_presenters.NEEDS_REVIEW,
        "ended": ended,
        "took": times.span((flow.ended_at or clock.now()) - flow.opened_at),
        "meaning": labels.meaning(flow.reason),
        "head_hash": bytes(flow.head_hash).hex(),
        "attempts_left": flow.attempts_allowed - flow.attempts_used,
        "half_done": labels.HALF_DONE if is_half_done else None,
    }


def _relative(flow: Flow) -> dict[str, Any]:
    # Siblings differ in the end of their UUIDv7.
    return _row(flow) | {"short": f"…{str(flow.dfid)[-8:]}"}


def _waiting_for(flow: Flow) -> str:
    match flow.state:
        case states.FlowState.ESCALATED:
            return "a person"
        case states.FlowState.CREATED | states.FlowState.ACTIVE:
            return "the agent"
        case _:
            return _awaited(flow)


def _awaited(flow: Flow) -> str:
    """Who has the step at hand: a person or the target that has taken it on, or the runtime."""
    intent = Intent.objects.filter(flow=flow, state=states.IntentState.AWAITING).first()
    current = None if intent is None else IntentPlan.of(intent).current(intent)
    if current is None:
        return "the runtime"
    return "a person" if human_steps.is_human(current.step) else "the target"
