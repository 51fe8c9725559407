"""The queue of escalations. It lists every open one and decides none."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from audit.access.permissions import may, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import contracts, left_calls, presenters, queries
from escalations.models import Escalation
from runtime.contracts import states
from runtime.core import clock, paging
from runtime.core.views import query_params

MOST_RANK = 100


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
    """Render the page, or only its rows for a live update (`HX-Request`)."""
    tenant, wanted = tenant_of(request.user), _filter_of(request)
    swapped = "HX-Request" in request.headers
    if swapped and request.GET.get("part") == "views":
        counts = queries.count_open(tenant=tenant)
        return render(
            request,
            "escalations/_views.html",
            {"views": _views(request, counts, left=left_calls.count(tenant=tenant))},
        )
    shown_closed = request.GET.get("show") == "closed"
    if shown_closed:
        newest = queries.list_closed(tenant=tenant, wanted=wanted)
        shown = QueueView(operational=[], decisions=newest, gone=[], pager=None)
    else:
        shown = _open(request, tenant, wanted)
    parts = {"operational": shown.operational, "decisions": shown.decisions, "gone": shown.gone}
    shown_rows = [row for part in parts.values() for row in part]
    evidence = queries.get_evidence(tenant=tenant, escalations=shown_rows)
    now, user_pk = clock.now(), request.user.pk or 0
    context: dict[str, object] = {
        name: presenters.rows(escalations=part, evidence=evidence, now=now, user_pk=user_pk)
        for name, part in parts.items()
    } | {
        "pager": shown.pager,
        "wanted": wanted,
        "shown_closed": shown_closed,
        "may_claim": may(request.user, Permission.DECIDE),
        "filtered": bool(request.GET.keys() - {"show", "after", "have", "part"}),
    }
    if swapped:
        return render(request, "escalations/_queue.html", context)
    counts = queries.count_open(tenant=tenant)
    address = request.GET.copy()
    address["part"] = "views"
    context |= {
        "views": _views(request, counts, left=left_calls.count(tenant=tenant)),
        "views_url": f"{request.path}?{address.urlencode()}",
    }
    return render(request, "escalations/queue.html", context)


@require_safe
@signed_in
def count(request: HttpRequest) -> HttpResponse:
    """Render the number beside the section's name, for live updates."""
    counts = queries.count_open(tenant=tenant_of(request.user))
    return render(request, "escalations/_count.html", {"open": counts.total, "high": counts.high})


def _open(request: HttpRequest, tenant: str, wanted: queries.QueueFilter) -> QueueView:
    after = _cursor_of(request.GET.get("after", ""))
    page = queries.list_decisions(tenant=tenant, wanted=wanted, after=after)
    last = page.rows[-1] if page.rows else None
    have = (query_params.uuid(part) for part in request.GET.get("have", "").split(",")[: queries.MAX_KEPT])
    cursor = f"{last.deadline_at:%Y-%m-%dT%H:%M:%S.%fZ}_{last.impact_rank}_{last.pk}" if last else ""
    return QueueView(
        operational=[] if after else queries.list_operational(tenant=tenant, wanted=wanted),
        decisions=page.rows,
        gone=queries.list_by_id(tenant=tenant, ids=[found for found in have if found is not None]),
        pager=paging.pager(
            page=page, query=request.GET, key="after", last=cursor, order="nearest deadline first"
        ),
    )


def _filter_of(request: HttpRequest) -> queries.QueueFilter:
    def known(name: str, values: list[str]) -> str:
        value = request.GET.get(name, "")
        return value if value in values else ""

    return queries.QueueFilter(
        impact=known("impact", states.Impact.values()),
        family=known("family", contracts.Family.values()),
        agent=query_params.text(request.GET.get("agent", "")),
        kind=query_params.text(request.GET.get("kind", "")),
        reason=query_params.text(request.GET.get("reason", "")),
        text=query_params.text(request.GET.get("q", "")),
        mine=request.user.pk if request.GET.get("mine") == "1" else None,
    )


def _cursor_of(text: str) -> queries.Cursor | None:
    deadline, _, rest = text.partition("_")
    rank, _, escalation_id = rest.partition("_")
    moment, weight, last = (
        query_params.moment(deadline),
        query_params.whole(rank),
        query_params.uuid(escalation_id),
    )
    if moment is None or weight is None or last is None:
        return None
    return queries.Cursor(deadline_at=moment, impact_rank=min(weight, MOST_RANK), escalation_id=last)


def _views(request: HttpRequest, counts: queries.Counts, *, left: int) -> list[dict[str, object]]:
    chosen = {name: request.GET.get(name, "") for name in ("impact", "family", "mine", "show")}
    options: list[tuple[str, dict[str, str], int | None]] = [
        ("All open", {}, counts.total),
        ("High impact", {"impact": states.Impact.HIGH_IMPACT}, counts.high),
        ("Low impact", {"impact": states.Impact.LOW_IMPACT}, counts.low),
        ("Operational", {"family": contracts.Family.OPERATIONAL}, counts.operational),
        ("Silent agents", {"family": contracts.Family.AGENT}, counts.silent),
        ("Mine", {"mine": "1"}, None),
        ("Closed", {"show": "closed"}, None),
    ]
    views: list[dict[str, object]] = [
        {
            "word": word,
            "url": "?" + "&".join(f"{key}={value}" for key, value in query.items())
            if query
            else reverse("escalations"),
            "n": n,
            "current": {name: value for name, value in chosen.items() if value} == query,
        }
        for word, query, n in options
    ]
    # Not escalations: no decision is pending, but their effect still has to be checked.
    views.insert(
        -1, {"word": "Calls in doubt", "url": reverse("calls-in-doubt"), "n": left, "current": False}
    )
    return views
