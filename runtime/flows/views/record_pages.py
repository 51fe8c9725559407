"""DecisionRecords: a search, one record, and what people think of it."""

from collections.abc import Mapping
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit import assessments
from audit.access.permissions import may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.records import feedback, queries
from audit.records.queries import Found, OtherRecord, Read, Record
from audit.sealing import keys
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import ids, paging, transactions
from runtime.core.mismatches import Mismatch, TamperedError
from runtime.core.views import error_page, query_params
from runtime.flows.services import record_feedback
from runtime.flows.views import record_filter, record_presenters
from runtime.proposals.views.record_report_page import REPORTS
from runtime.registry.queries import agent_list, people

PAGE: Final = 50
BUSY: Final = Problem(code=ProblemCode.BUSY, detail="The database is busy. Nothing was saved; send it again.")


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
        "assessments": [(value, badge.word) for value, badge in record_presenters.ASSESSMENTS.items()],
        "kinds": [kind.kind for kind in agent_list.list_kinds(tenant=tenant)],
        "people": [name for _, name in people.list_active()],
        "reports": REPORTS,
    }
    return render(request, "audit/records.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, record_id: str) -> HttpResponse:
    """Show one record: what it says, whether its entry and its signature confirm it, what people think."""
    tenant = tenant_of(request.user)
    found = queries.get(tenant=tenant, record_id=record_id)
    if found is not None and found.is_erased:
        return render(request, "audit/record_erased.html", {"record_id": record_id})
    return _page(request, _shown(found, record_id))


@require_POST
@require(Permission.GIVE_FEEDBACK)
def give_feedback(request: HttpRequest, record_id: str) -> HttpResponse:
    """Say what the signed-in person thinks of a record."""
    tenant = tenant_of(request.user)
    found = queries.get(tenant=tenant, record_id=record_id)
    if found is not None and found.is_erased:
        raise Http404
    record = _shown(found, record_id)
    entered = {name: request.POST.get(name, "") for name in ("assessment", "correction", "reason")}
    try:
        given = record_feedback.give(
            tenant=tenant,
            record=record,
            author=request.user,
            form_id=query_params.uuid(request.POST.get("form_id", "")),
            **entered,
        )
    except transactions.BusyError:
        given = BUSY
    if isinstance(given, Problem):
        error_page.record(request, given)
        return _page(request, record, problem=given, entered=entered)
    return redirect(f"{reverse('record', args=[record_id])}#feedback")


def _shown(found: Read | None, record_id: str) -> Record:
    """A record that may be shown."""
    match found:
        case None:
            raise Http404
        case OtherRecord():
            raise TamperedError([Mismatch(row="decisionrecord", row_id=record_id, recorded="", found="")])
    return found


def _page(
    request: HttpRequest,
    record: Record,
    *,
    problem: Problem | None = None,
    entered: Mapping[str, str] | None = None,
) -> HttpResponse:
    """The page of a record; after a refusal with its message and what was entered."""
    tenant = tenant_of(request.user)
    given = feedback.list_of_record(tenant=tenant, record=record)
    context = record_presenters.shown(record, keys.keyring(tenant=tenant)) | {
        "feedback": record_presenters.feedback(given),
        "may_give_feedback": may(request.user, Permission.GIVE_FEEDBACK),
        # Of the form: sent twice, it is one.
        "form_id": ids.new_id(),
        "assessments": list(record_presenters.ASSESSMENTS.items()),
        "corrections": list(record_presenters.CORRECTIONS.items()),
        "longest": assessments.LONGEST,
        "problem": problem,
        "entered": entered or {},
    }
    return render(request, "audit/record.html", context, status=200 if problem is None else problem.status)
