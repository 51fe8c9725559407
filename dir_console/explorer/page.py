"""The page of the search over flows, records and entries by every key."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from audit.events import Kind
from dir_console.explorer import asked as keys
from dir_console.explorer import narrowing
from dir_console.explorer.asked import KEYS, AskedKeys
from dir_console.explorer.sections import SIZE, Search
from runtime.contracts import reasons
from runtime.core import paging
from runtime.core.views import labels, query_params
from runtime.flows.queries import flow_search
from runtime.flows.views import flow_words, record_presenters, timeline
from runtime.registry.queries import name_search, people
from runtime.resources.queries import reservation_list

Row = TypeVar("Row")
OFFERED: Final = 200
# Beside each other in the form: what they are about.
GROUPS: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("Flow", ("dfid", "agent", "kind", "state", "reason", "resource", "subject", "approver")),
    ("Ids and hashes", ("record", "escalation", "intent", "proposal", "trace", "hash", "context")),
    ("Entries", ("stream", "event", "actor")),
    ("Time", ("from", "to")),
)


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the form, and what has all the keys of the address, by type."""
    tenant = tenant_of(request.user)
    asked = keys.read(request.GET.dict())
    context: dict[str, Any] = {
        "asked": asked,
        "groups": _groups(tenant, asked),
        "is_asked": bool(asked.names),
    }
    if asked.names and not asked.wrong:
        narrowed = narrowing.narrow(tenant=tenant, asked=asked)
        search = Search(tenant=tenant, asked=asked, narrowed=narrowed)
        context |= {
            "named": narrowed.named,
            "is_cut": narrowed.is_cut,
            "most": narrowing.MOST,
            "sections": [_flows(request, search), _records(request, search), _entries(request, search)],
        }
    return render(request, "console/explore.html", context)


def _groups(tenant: str, asked: AskedKeys) -> list[dict[str, Any]]:
    """The fields of the form, with what each offers."""
    choices = {
        "state": [(value, badge.word) for value, badge in labels.FLOW_STATES.items()],
        "event": [(kind.value, kind.value) for kind in Kind],
    }
    offered = {
        "agent": [agent.agent_id for agent in name_search.list_agents(tenant=tenant, part="", size=OFFERED)],
        "kind": flow_search.kinds_in_use(tenant=tenant),
        "reason": [reason.value for reason in reasons.Reason],
        "resource": reservation_list.list_names(tenant=tenant),
        "approver": [name for _, name in people.list_active()],
    }
    return [
        {
            "title": title,
            "fields": [
                {
                    "name": name,
                    "label": KEYS[name],
                    "value": asked.typed[name],
                    "choices": choices.get(name),
                    "offered": offered.get(name),
                    "wrong": asked.wrong.get(name, ""),
                    "is_code": name not in {"agent", "kind", "approver", "from", "to"},
                }
                for name in names
            ],
        }
        for title, names in GROUPS
    ]


def _section(request: HttpRequest, search: Search, name: str, title: str) -> dict[str, Any]:
    return {"name": name, "title": title, "unanswered": search.unanswered(name), "rows": []}


def _pager(request: HttpRequest, page: paging.Page[Row], key: str, last: object) -> paging.Pager:
    return paging.pager(page=page, query=request.GET, key=key, last=str(last), order="newest first")


def _flows(request: HttpRequest, search: Search) -> dict[str, Any]:
    section = _section(request, search, "flows", "Flows")
    if section["unanswered"]:
        return section
    page = paging.cut(search.flows(query_params.uuid(request.GET.get("flows_before", ""))), SIZE)
    words = flow_words.of_flows(tenant=search.tenant, dfids=[flow.dfid for flow in page.rows])
    section["rows"] = [
        {
            "flow": flow,
            "state": labels.badge(labels.FLOW_STATES, flow.state),
            "words": words.get(flow.dfid),
        }
        for flow in page.rows
    ]
    section["pager"] = _pager(request, page, "flows_before", page.rows[-1].dfid if page.rows else "")
    return section


def _records(request: HttpRequest, search: Search) -> dict[str, Any]:
    section = _section(request, search, "records", "Decision records")
    if section["unanswered"]:
        return section
    found = search.records(query_params.whole(request.GET.get("records_before", "")))
    page = paging.Page(rows=found.rows, more=found.following is not None)
    section["rows"] = record_presenters.rows(found.rows)
    section["pager"] = _pager(request, page, "records_before", found.following)
    return section


def _entries(request: HttpRequest, search: Search) -> dict[str, Any]:
    section = _section(request, search, "entries", "Ledger entries")
    if section["unanswered"]:
        return section
    page = paging.cut(search.entries(query_params.whole(request.GET.get("entries_before", ""))), SIZE)
    section["rows"] = timeline.lines(page.rows, names=people.names_of([row.actor for row in page.rows]))
    section["pager"] = _pager(request, page, "entries_before", page.rows[-1].pk if page.rows else "")
    return section
