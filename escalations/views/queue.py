"""The queue of escalations. It lists every open one and decides none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from audit.access.permissions import may, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import left_calls, presenters, queries, queue_counts, queue_filter, queue_groups, queue_order
from escalations.contracts import Family
from escalations.evidence_contracts import AnyEvidence
from escalations.models import Escalation
from escalations.queue_filter import QueueFilter, Sort
from escalations.views import filter_bar, queue_judging
from runtime.core import clock, paging
from runtime.core.views import query_params

MOST_RANK = 100
ORDER_WORDS = {
    Sort.DEADLINE: ("nearest deadline first", "Later deadlines"),
    Sort.IMPACT: ("highest impact first", "Lower impact"),
    Sort.AGE: ("oldest first", "Newer"),
}


@dataclass(frozen=True, slots=True)
class QueueView:
    """The rows of one response. `gone` are closed ones that the open page still shows."""

    operational: Sequence[Escalation]
    decisions: Sequence[Escalation]
    gone: Sequence[Escalation]
    pager: paging.Pager | None


@require_safe
@signed_in
def queue(request: HttpRequest) -> HttpResponse:
    """Render the page, or for a live update (`HX-Request`) its rows, which bring the counts along."""
    tenant = tenant_of(request.user)
    given = [(name, value) for name, value in request.GET.items() if value]
    if len(given) < len(request.GET):
        # A form sends the fields that ask nothing, too: a link to share has none of them.
        return redirect(f"{request.path}?{urlencode(given)}" if given else request.path)
    wanted = queue_filter.read(request.GET, user_pk=request.user.pk)
    swapped = "HX-Request" in request.headers
    if swapped and request.GET.get("part") == "views":
        return render(request, "escalations/_views.html", _tabs(request, tenant, wanted))
    shown_closed = request.GET.get("show") == "closed"
    if shown_closed:
        newest = queries.list_closed(tenant=tenant, wanted=wanted)
        shown = QueueView(operational=[], decisions=newest, gone=[], pager=None)
    else:
        shown = _open(request, tenant, wanted)
    query = queue_filter.to_query(wanted)
    rows = [*shown.operational, *shown.decisions, *shown.gone]
    evidence = queries.get_evidence(tenant=tenant, escalations=rows)
    context = _groups(request, shown, evidence, "" if shown_closed else query) | {
        "pager": shown.pager,
        "next_word": ORDER_WORDS[wanted.sort][1],
        "wanted": wanted,
        "query": query,
        "shown_closed": shown_closed,
        "may_decide": may(request.user, Permission.DECIDE) and not shown_closed,
        "filtered": bool(query),
    }
    if swapped and shown_closed:
        return render(request, "escalations/_queue.html", context)
    context |= _tabs(request, tenant, wanted)
    if swapped:
        context["counts"] = queries.count_open(tenant=tenant)
        return render(request, "escalations/_queue_live.html", context)
    address = request.GET.copy()
    address["part"] = "views"
    context |= {
        "views_url": f"{request.path}?{address.urlencode()}",
        "selects": filter_bar.selects(
            tenant=tenant,
            wanted=wanted,
            known=evidence,
            every=None if shown_closed else _every(shown, wanted),
        ),
        "found": None if shown_closed else _found(tenant, wanted, shown),
        "most_judged": queries.MAX_WALKED,
    }
    return render(request, "escalations/queue.html", context)


@require_safe
@signed_in
def count(request: HttpRequest) -> HttpResponse:
    """Render the number beside the section's name, for live updates."""
    counts = queries.count_open(tenant=tenant_of(request.user))
    return render(request, "escalations/_count.html", {"counts": counts})


def _tabs(request: HttpRequest, tenant: str, wanted: QueueFilter) -> dict[str, object]:
    tabs = filter_bar.tabs(request, wanted, tenant=tenant, left=left_calls.count(tenant=tenant))
    own = next((tab for tab in tabs if tab.current and tab.pk), None)
    return {"views": tabs, "own_view": own}


def _groups(
    request: HttpRequest, shown: QueueView, evidence: Mapping[UUID, AnyEvidence], query: str
) -> dict[str, Any]:
    """The groups of each part of the page, from the evidence that matches the ledger."""
    parts = {"operational": shown.operational, "decisions": shown.decisions, "gone": shown.gone}
    now, user_pk = clock.now(), request.user.pk or 0
    return {
        name: queue_groups.views(
            escalations=part,
            rows=presenters.rows(escalations=part, evidence=evidence, now=now, user_pk=user_pk, query=query),
            evidence=evidence,
        )
        for name, part in parts.items()
    }


def _open(request: HttpRequest, tenant: str, wanted: QueueFilter) -> QueueView:
    after = _cursor_of(request.GET.get("after", ""), wanted.sort)
    keeps = queue_judging.keeps_of(request, wanted)
    page = queries.list_decisions(tenant=tenant, wanted=wanted, after=after, keeps=keeps)
    operational = [] if after else queries.list_operational(tenant=tenant, wanted=wanted, keeps=keeps)
    have = (query_params.uuid(part) for part in request.GET.get("have", "").split(",")[: queries.MAX_KEPT])
    return QueueView(
        operational=operational,
        decisions=page.rows,
        gone=queries.list_by_id(tenant=tenant, ids=[one for one in have if one is not None]),
        pager=paging.pager(
            page=page,
            query=request.GET,
            key="after",
            last=_cursor_text(page.rows[-1], wanted.sort) if page.rows else "",
            order=ORDER_WORDS[wanted.sort][0],
        ),
    )


def _every(shown: QueueView, wanted: QueueFilter) -> Sequence[Escalation] | None:
    """The rows of a page that shows all that is open; None where there may be more."""
    is_one_page = shown.pager is not None and not shown.pager.first_url and not shown.pager.next_url
    is_whole = wanted.asks_all and is_one_page and len(shown.operational) < queries.OPERATIONAL_SHOWN
    return [*shown.operational, *shown.decisions] if is_whole else None


def _found(tenant: str, wanted: QueueFilter, shown: QueueView) -> int | None:
    """How many open escalations match; None where a person's rights decide and not all were judged."""
    of_decisions = replace(wanted, family=Family.DECISION)
    number, decisions = queue_counts.count_matching(tenant=tenant, wanted=[wanted, of_decisions])
    if not wanted.is_personal:
        return number
    if wanted.family not in ("", Family.DECISION):
        decisions = 0
    judged_all = decisions <= queries.MAX_WALKED and number - decisions <= queries.OPERATIONAL_SHOWN
    is_one_page = shown.pager is not None and not shown.pager.first_url and not shown.pager.next_url
    return len(shown.operational) + len(shown.decisions) if judged_all and is_one_page else None


def _cursor_text(row: Escalation, sort: Sort) -> str:
    values = (getattr(row, name.removeprefix("-")) for name in queue_order.DECISIONS[sort])
    return "_".join(
        f"{value:%Y-%m-%dT%H:%M:%S.%fZ}" if isinstance(value, datetime) else str(value) for value in values
    )


def _cursor_of(text: str, sort: Sort) -> queries.Cursor | None:
    """Read the place after which a page begins; one of another order is ignored."""
    columns, parts = queue_order.DECISIONS[sort], text.split("_")
    if len(parts) != len(columns):
        return None
    found: list[Any] = []
    for name, part in zip(columns, parts, strict=True):
        if name.endswith("_at"):
            found.append(query_params.moment(part))
        elif name.endswith("_rank"):
            rank = query_params.whole(part)
            found.append(None if rank is None else min(rank, MOST_RANK))
        else:
            found.append(query_params.uuid(part))
    return None if None in found else found
