"""The bench of a call in doubt: its key, where to look it up, and its target's answer as it came."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from audit.access.permissions import actor_of, require, tenant_of
from audit.access.roles import Permission
from escalations import presenters
from escalations.contracts import State
from escalations.models import Escalation
from escalations.views import posts
from runtime.contracts.problem import Problem
from runtime.contracts.states import QueryResult
from runtime.core import transactions
from runtime.core.views import error_page, labels
from runtime.core.views.labels import Badge
from runtime.execution.queries import status_queries as asked_before
from runtime.execution.queries.status_queries import StatusQuery
from runtime.execution.services import status_queries
from runtime.flows.models import Attempt
from runtime.kernel import effects
from runtime.registry.queries import people, recorded_targets, target_endpoints
from runtime.registry.queries.target_endpoints import TargetEndpoint

NOT_ASKED = "The target was not asked"


@dataclass(frozen=True, slots=True)
class AnswerView:
    """The newest answer; `body` is the text as it came, escaped and cut, `still` until when it may change."""

    badge: Badge
    meaning: str
    asked_by: str
    asked_at: datetime
    took_ms: int
    status_code: int | None
    category: str
    headers: Sequence[tuple[str, str]]
    body: str
    is_cut: bool
    is_tampered: bool
    still: datetime | None


@dataclass(frozen=True, slots=True)
class BenchView:
    """One call: `why_not` says why its target cannot be asked, `link` is a page of the target's console."""

    intent_id: UUID
    number: int
    key: str
    target: str
    link: str
    link_host: str
    honours_keys: bool
    why_not: str
    answer: AnswerView | None


@posts.post_here
@require(Permission.DECIDE)
def ask(request: HttpRequest, intent_id: UUID, number: int) -> HttpResponse:
    """Ask the target what became of a call, and show the page with its answer. It settles nothing."""
    about = Escalation.objects.of(tenant_of(request.user)).filter(intent=intent_id, state=State.OPEN).first()
    back = f"{reverse('calls-in-doubt')}#call-{intent_id}-{number}"
    if about is not None:
        back = f"{reverse('escalation', args=[about.pk])}#bench"
    try:
        found = status_queries.ask(
            tenant=tenant_of(request.user), intent_id=intent_id, number=number, actor=actor_of(request.user)
        )
    except transactions.BusyError:
        found = posts.BUSY
    if isinstance(found, Problem):
        return error_page.page(request, found, back=back, title=NOT_ASKED)
    messages.info(request, f"{presenters.QUERY_RESULTS[found].word}. Nothing was settled by it.")
    return redirect(back)


def of_calls(calls: Sequence[Attempt], *, tenant: str) -> Mapping[tuple[UUID, int], BenchView]:
    """Build the benches of calls, by intent and number."""
    if not calls:
        return {}
    places = recorded_targets.list_places(tenant=tenant)
    newest = asked_before.list_newest(tenant=tenant, calls=calls)
    names = people.names_of([query.asked_by for query in newest.values()])
    return {
        (call.intent_id, call.number): _bench(
            call,
            places=places,
            query=newest.get((str(call.intent_id), call.target_key)),
            names=names,
        )
        for call in calls
    }


def _bench(
    call: Attempt,
    *,
    places: Mapping[str, TargetEndpoint],
    query: StatusQuery | None,
    names: Mapping[str, str],
) -> BenchView:
    step = asked_before.step_of(call.intent, key=call.target_key)
    place = None if step is None else places.get(step.target)
    refused = status_queries.refuse_asking(call)
    why_not = "" if refused is None else refused.detail
    if not why_not and place is None:
        why_not = "The target is not configured, or its row does not match the ledger."
    link = "" if place is None else target_endpoints.link_to(place, key=call.target_key)
    return BenchView(
        intent_id=call.intent_id,
        number=call.number,
        key=call.target_key,
        target=effects.visible(step.target if step is not None else call.intent.target),
        link=link,
        link_host=link.removeprefix("https://").partition("/")[0],
        honours_keys=place is not None and place.honours_keys,
        why_not=why_not,
        answer=None if query is None else _answer(call, query, names),
    )


def _answer(call: Attempt, query: StatusQuery, names: Mapping[str, str]) -> AnswerView:
    raw = query.raw or {}
    over_at = asked_before.surely_over_at(call)
    early = query.found is QueryResult.NOT_FOUND and query.asked_at < over_at
    return AnswerView(
        badge=presenters.NOT_ANSWERED if query.found is None else presenters.QUERY_RESULTS[query.found],
        meaning=presenters.QUERY_MEANINGS.get(query.found or "", ""),
        asked_by=labels.actor_words(query.asked_by, names),
        asked_at=query.asked_at,
        took_ms=query.took_ms,
        status_code=query.status_code,
        category=query.why or query.error_category,
        headers=[(effects.visible(name), effects.visible(value)) for name, value in raw.get("headers", ())],
        body=labels.visible_lines(raw.get("body", "")),
        is_cut=raw.get("is_cut", False),
        is_tampered=query.is_tampered,
        still=over_at if early else None,
    )
