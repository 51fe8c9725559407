"""DecisionRecords: a search, and one record."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from audit.records import queries
from audit.records.queries import Found, OtherRecord
from audit.sealing import keys
from runtime.core import paging
from runtime.core.mismatches import Mismatch, TamperedError
from runtime.core.views import query_params
from runtime.flows.views import record_filter, record_presenters
from runtime.proposals.views.record_report_page import REPORTS
from runtime.registry.queries import agent_list, people

PAGE: Final = 50


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List records newest first, by everything that they are found by."""
    tenant = tenant_of(request.user)
    asked = record_filter.read(request.GET.dict())
    after = query_params.whole(request.GET.get("after", ""))
    found = Found(rows=[])
    if not asked.wrong:
        found = queries.search(tenant=tenant, wanted=asked.wanted, after=after, size=PAGE)
    context = {
        "asked": asked,
        "rows": record_presenters.rows(found.rows),
        "pager": paging.pager(
            page=paging.Page(rows=found.rows, more=found.following is not None),
            query=request.GET,
            key="after",
            last=str(found.following),
            order="newest first",
        ),
        "statuses": [(value, badge.word) for value, badge in record_presenters.STATUSES.items()],
        "results": [(value, badge.word) for value, badge in record_presenters.RESULTS.items()],
        "evaluators": list(record_presenters.EVALUATORS.items()),
        "superseded": list(record_presenters.WHICH.items()),
        "modes": list(record_presenters.MODES.items()),
        "kinds": [kind.kind for kind in agent_list.list_kinds(tenant=tenant)],
        "people": [name for _, name in people.list_active()],
        "reports": REPORTS,
    }
    return render(request, "audit/records.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, record_id: str) -> HttpResponse:
    """Show one record: what it says, whether its entry and its signature confirm it."""
    tenant = tenant_of(request.user)
    found = queries.get(tenant=tenant, record_id=record_id)
    match found:
        case None:
            raise Http404
        case OtherRecord(is_erased=True):
            return render(request, "audit/record_erased.html", {"record_id": record_id})
        case OtherRecord():
            raise TamperedError([Mismatch(row="decisionrecord", row_id=record_id, recorded="", found="")])
    return render(request, "audit/record.html", record_presenters.shown(found, keys.keyring(tenant=tenant)))
