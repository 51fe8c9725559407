"""The queue of what waits for a person. It names every open escalation and decides none."""

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from audit.permissions import Role, roles_of, signed_in, tenant_of
from escalations import contracts, presenters, queries
from runtime.contracts import states
from runtime.queries import clock
from runtime.queries.pages import paging

DECIDERS = frozenset({Role.OPERATOR, Role.SENIOR, Role.ADMIN})


@require_safe
@signed_in
def queue(request: HttpRequest) -> HttpResponse:
    """The page, or its rows alone for a live update (`HX-Request`)."""
    tenant, now = tenant_of(request.user), clock.now()
    wanted = _filter_of(request)
    shown_closed = request.GET.get("show") == "closed"
    context = _closed(tenant, wanted) if shown_closed else _open(request, tenant, wanted)
    evidence = queries.get_evidence(
        escalations=[*context["operational"], *context["decisions"], *context["gone"]]
    )
    for part in ("operational", "decisions", "gone"):
        context[part] = presenters.rows(
            escalations=context[part], evidence=evidence, now=now, user_pk=request.user.pk or 0
        )
    context |= {
        "wanted": wanted,
        "shown_closed": shown_closed,
        "may_claim": bool(roles_of(request.user) & DECIDERS),
        "filtered": bool(request.GET.keys() - {"show", "after"}),
    }
    if "HX-Request" in request.headers:
        return render(request, "escalations/_queue.html", context)
    counts = queries.count_open(tenant=tenant)
    context |= {"counts": counts, "views": _views(request, counts)}
    return render(request, "escalations/queue.html", context)


@require_safe
@signed_in
def count(request: HttpRequest) -> HttpResponse:
    """The number beside the section's name, for live updates."""
    counts = queries.count_open(tenant=tenant_of(request.user))
    return render(request, "escalations/_count.html", {"open": counts.total, "high": counts.high})


def _open(request: HttpRequest, tenant: str, wanted: queries.Filter) -> dict[str, object]:
    after = _cursor_of(request.GET.get("after", ""))
    page = queries.list_decisions(tenant=tenant, wanted=wanted, after=after)
    last = page.rows[-1] if page.rows else None
    cursor = f"{last.deadline_at:%Y-%m-%dT%H:%M:%S.%fZ}_{last.impact_rank}_{last.pk}" if last else ""
    return {
        "operational": [] if after else queries.list_operational(tenant=tenant, wanted=wanted),
        "decisions": page.rows,
        "gone": queries.list_by_id(tenant=tenant, ids=_ids(request.GET.get("have", ""))),
        "pager": paging.pager(
            page=page, query=request.GET, key="after", last=cursor, order="nearest deadline first"
        ),
    }


def _closed(tenant: str, wanted: queries.Filter) -> dict[str, object]:
    return {
        "operational": [],
        "decisions": queries.list_closed(tenant=tenant, wanted=wanted),
        "gone": [],
        "pager": None,
    }


def _filter_of(request: HttpRequest) -> queries.Filter:
    def known(name: str, values: list[str]) -> str:
        value = request.GET.get(name, "")
        return value if value in values else ""

    return queries.Filter(
        impact=known("impact", states.Impact.values()),
        family=known("family", contracts.Family.values()),
        agent=request.GET.get("agent", "")[:128],
        kind=request.GET.get("kind", "")[:128],
        reason=request.GET.get("reason", "")[:64],
        text=request.GET.get("q", "").strip()[:100],
        mine=request.user.pk if request.GET.get("mine") == "1" else None,
    )


def _cursor_of(text: str) -> queries.Cursor | None:
    deadline, _, rest = text.partition("_")
    rank, _, escalation_id = rest.partition("_")
    ids = _ids(escalation_id)
    try:
        moment: datetime | None = parse_datetime(deadline)
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None or not ids or not (rank.isascii() and rank.isdigit()):
        return None
    return queries.Cursor(deadline_at=moment, impact_rank=min(int(rank[:4]), 100), escalation_id=ids[0])


def _ids(text: str) -> list[UUID]:
    found = []
    for part in text.split(",")[: queries.MAX_KEPT]:
        try:
            found.append(UUID(part))
        except ValueError:
            continue
    return found


def _views(request: HttpRequest, counts: queries.Counts) -> list[dict[str, object]]:
    chosen = {name: request.GET.get(name, "") for name in ("impact", "family", "mine", "show")}
    options: list[tuple[str, dict[str, str], int | None]] = [
        ("All open", {}, counts.total),
        ("High impact", {"impact": states.Impact.HIGH_IMPACT}, counts.high),
        ("Low impact", {"impact": states.Impact.LOW_IMPACT}, counts.low),
        ("Operational", {"family": contracts.Family.OPERATIONAL}, counts.operational),
        ("Mine", {"mine": "1"}, None),
        ("Closed", {"show": "closed"}, None),
    ]
    return [
        {
            "word": word,
            "url": "?" + "&".join(f"{key}={value}" for key, value in query.items())
            if query
            else "/escalations/",
            "n": n,
            "current": {name: value for name, value in chosen.items() if value} == query,
        }
        for word, query, n in options
    ]
