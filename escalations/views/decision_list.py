"""The page of decisions: who decided what, when and why, and what came of it."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from escalations import contracts, decision_search
from escalations.decision_search import Cursor
from escalations.services import recorded_decisions
from escalations.services.recorded_decisions import Found
from escalations.views import decision_export, decision_filter, decision_rows
from runtime.core import paging
from runtime.core.views import labels
from runtime.registry.queries import agent_list

PAGE = 50
MOST_EXAMINED = 2_000


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List decisions newest first by person, action, subject, words and time; with `format=` as a file."""
    tenant = tenant_of(request.user)
    asked = decision_filter.read(request.GET.dict())
    form = request.GET.get("format", "")
    before = Cursor.read(request.GET.get("before", ""))
    kept = [(name, value) for name, value in asked.typed.items() if value]
    if form in decision_export.FORMATS:
        if asked.wrong:
            return decision_export.refusal(asked)
        found = recorded_decisions.search(
            tenant=tenant,
            wanted=asked.wanted,
            before=before,
            size=decision_export.MOST,
            most_examined=decision_export.MOST + 1,
        )
        rest = [*kept, ("format", form), ("before", str(found.following))]
        rest_url = request.build_absolute_uri(f"{reverse('decisions')}?{urlencode(rest)}")
        return decision_export.answer(
            found.records, asked.typed, form=form, rest_url=rest_url if found.following else ""
        )
    found = Found(records=[], following=None, examined=0)
    if not asked.wrong:
        found = recorded_decisions.search(
            tenant=tenant, wanted=asked.wanted, before=before, size=PAGE, most_examined=MOST_EXAMINED
        )
    context = {
        "asked": asked,
        "rows": [decision_rows.shown(record) for record in found.records],
        # Where the search by rule has ended before the page was full.
        "examined": found.examined if found.following and len(found.records) < PAGE else 0,
        "following": found.following,
        "pager": paging.pager(
            page=paging.Page(rows=found.records, more=found.following is not None),
            query=request.GET,
            key="before",
            last=str(found.following),
            order="newest first",
        ),
        "actions": [(action.value, action.spec.word) for action in contracts.ACTIONS if not action.spec.asks],
        "kinds": [kind.kind for kind in agent_list.list_kinds(tenant=tenant)],
        "people": decision_search.list_people(),
        "files": [
            (form.upper(), f"?{urlencode([*kept, ('format', form)])}") for form in decision_export.FORMATS
        ],
        "most": labels.number(decision_export.MOST),
    }
    return render(request, "escalations/decisions.html", context)
