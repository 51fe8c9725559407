"""Reservations: which flow holds how much of a resource, until when; and why others ended."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from runtime.contracts.states import ReservationState
from runtime.core import clock, paging
from runtime.core.views import labels, query_params, times
from runtime.resources.models import Reservation
from runtime.resources.queries import reservation_list

ENDED = "ended"


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List active reservations, or ended ones with `?show=ended`; of one resource with `?resource=`."""
    tenant, now = tenant_of(request.user), clock.now()
    resource = query_params.text(request.GET.get("resource", ""), longest=500)
    ended = request.GET.get("show") == ENDED
    page = reservation_list.list_reservations(
        tenant=tenant,
        resource=resource,
        standing=not ended,
        before=query_params.whole(request.GET.get("before", "")),
    )
    context = {
        "rows": [_row(row, now) for row in page.rows],
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="before",
            last=str(page.rows[-1].pk) if page.rows else "",
            order="newest first",
        ),
        "resources": reservation_list.list_names(tenant=tenant),
        "resource": resource,
        "ended": ended,
    }
    swapped = "HX-Request" in request.headers
    return render(request, "runtime/_reservations.html" if swapped else "runtime/reservations.html", context)


def _row(row: Reservation, now: datetime) -> dict[str, Any]:
    lease = row.lease_until
    return {
        "row": row,
        "amount": labels.amount(row.amount, row.resource.unit),
        "state": labels.badge(labels.RESERVATIONS, row.state),
        "lease_left": "" if lease is None else times.span(lease - now) if lease > now else "expired",
        "is_pinned": row.state == ReservationState.PINNED,
        "why": labels.meaning(row.reason),
    }
