"""The world: all facts at a version of it beside those of now, and the history of one fact."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit.access.permissions import signed_in, tenant_of
from runtime.contexts.queries import snapshots
from runtime.core import paging
from runtime.core.mismatches import Mismatch
from runtime.core.views import labels, query_params
from runtime.kernel import ontology
from runtime.proposals.queries import judged_facts
from runtime.registry.queries import ontology_versions, people
from runtime.state.models import FactVersion
from runtime.state.queries import fact_readers, recorded_facts, sight, visible_facts, world
from runtime.state.queries.recorded_facts import Recorded
from runtime.state.queries.world import Missing, World

PAGE: Final = 100
HISTORY: Final = 50


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List facts as they are now; with `?at=` beside what they were at that version of the world, or time."""
    tenant = tenant_of(request.user)
    everything = sight.of_all(tenant)
    prefix = query_params.text(request.GET.get("prefix", ""), longest=200).replace("\x00", "")
    after = query_params.text(request.GET.get("after", ""), longest=200).replace("\x00", "")
    asked, is_wrong = _version_asked(tenant, request.GET.get("at", "").strip())
    last = world.last_version(tenant)
    now = world.read(sight=everything, version=last, prefix=prefix, after=after, most=PAGE)
    context: dict[str, Any] = {"last": last, "prefix": prefix, "asked": request.GET.get("at", "")[:40]}
    then: World | Missing | None = None
    if asked is not None:
        found = world.find_version(tenant=tenant, named=str(asked))
        if isinstance(found, Missing):
            then = found
        elif isinstance(now, World):
            paths = list(now.facts)
            then = world.read(sight=everything, version=found, within=paths, most=PAGE)
    context["missing"] = str(then) if isinstance(then, Missing) else ""
    context["is_wrong"] = is_wrong
    before = then if isinstance(then, World) else None
    # What is read at the last version is never over its time: its rows are the newest of their facts.
    rows = list(now.facts.values()) if isinstance(now, World) else []
    context["then"] = before
    context["facts"] = _compared(tenant, rows, before)
    page = paging.Page(rows=rows, more=isinstance(now, World) and now.after is not None)
    context["pager"] = paging.pager(
        page=page, query=request.GET, key="after", last=rows[-1].path if rows else "", order="by path"
    )
    return render(request, "runtime/world.html", context)


@require_safe
@signed_in
def fact(request: HttpRequest, fact: str) -> HttpResponse:
    """Show the versions of a fact, who wrote them, and which agents, kinds and open flows name it."""
    tenant = tenant_of(request.user)
    current = None if "\x00" in fact else visible_facts.get_fact(tenant=tenant, path=fact, at_version=None)
    if current is None:
        raise Http404
    before = query_params.whole(request.GET.get("before", ""))
    page = paging.cut(
        fact_readers.list_history(tenant=tenant, path=fact, before=before, most=HISTORY), HISTORY
    )
    rows = list(page.rows)
    declared = ontology_versions.find_in_force(tenant=tenant)
    compared = recorded_facts.compare(tenant, rows)
    names = people.names_of(row.writer for row in rows)
    kinds = fact_readers.list_whole_kinds(tenant=tenant)
    context = {
        "path": fact,
        "versions": [_version(row, compared, names) for row in rows],
        "oldest": rows[-1].version if rows and not page.more else None,
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="before",
            last=str(rows[-1].version) if rows else "",
            order="newest first",
        ),
        "agents": fact_readers.list_agents(kinds, tenant=tenant, path=fact),
        "kinds": fact_readers.list_kinds(kinds, path=fact),
        "contexts": [
            {"row": row, "version": version, "state": labels.badge(labels.FLOW_STATES, row.flow.state)}
            for row, version in snapshots.list_naming(tenant=tenant, path=fact)
        ],
        "decisions": [
            {
                "row": dependent.verdict,
                "version": dependent.version,
                "verdict": labels.badge(labels.VERDICTS, dependent.verdict.decision),
                "is_moved": dependent.version is not None and dependent.version != current.version,
            }
            for dependent in judged_facts.list_open(tenant=tenant, path=fact)
        ],
        "most_read": snapshots.MOST_READ,
        "is_untrusted": isinstance(declared, Mismatch),
        "declared": None
        if declared is None or isinstance(declared, Mismatch)
        else ontology.find_type(declared, fact),
    }
    return render(request, "runtime/fact.html", context)


def _version_asked(tenant: str, text: str) -> tuple[int | None, bool]:
    """The version that is asked for by its number or by a time, and whether the text is neither."""
    number = query_params.whole(text)
    if number is not None or not text:
        return number, False
    at = query_params.moment(text)
    return (None, True) if at is None else (world.version_at(tenant=tenant, at=at), False)


def _compared(tenant: str, rows: Sequence[FactVersion], then: World | None) -> list[dict[str, Any]]:
    """The facts of now, each with what it was then: the same, another value, or not there yet."""
    earlier = {} if then is None else then.facts
    compared = recorded_facts.compare(tenant, [*rows, *earlier.values()])
    names = people.names_of(row.writer for row in rows)
    found = []
    for row in rows:
        was = earlier.get(row.path)
        item = _version(row, compared, names)
        if then is not None:
            item["was"] = None if was is None else _version(was, compared, names)
            # A value may be written again: another version, and nothing that differs.
            item["is_new"] = was is None
            item["is_changed"] = was is not None and bytes(was.value) != bytes(row.value)
        found.append(item)
    return found


def _version(row: FactVersion, compared: dict[int, Recorded], names: dict[str, str]) -> dict[str, Any]:
    """A version as pages show it; the value of one that differs from its entry is not shown."""
    recorded = compared[row.pk]
    return {
        "row": row,
        "value": "" if recorded is Recorded.DIFFERENT else labels.stored_value(row.value),
        "is_different": recorded is Recorded.DIFFERENT,
        "is_not_found": recorded is Recorded.NOT_FOUND,
        "writer": _writer(row.writer, names),
    }


def _writer(writer: str, names: dict[str, str]) -> str:
    kind, _, name = writer.partition(":")
    return f"intent {name[:8]}" if kind == "intent" else labels.actor_words(writer, names)
