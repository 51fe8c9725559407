"""The way through the queue: where a decision page lies in it, and where a person goes after a decision.

A page carries the queue's filter in `from=`. It is read into a `QueueFilter` and written anew, so nothing
else of it comes back in an address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from audit.access.permissions import tenant_of
from escalations import queries, queue_filter
from escalations.views import queue_judging
from runtime.core.views import addresses

COOKIE = "dir_after_decision"
COOKIE_AGE_S = 365 * 24 * 3600


class AfterDecision(StrEnum):
    """Where a person goes after a decision."""

    NEXT = "next"
    TIMELINE = "timeline"
    QUEUE = "queue"


AFTER_WORDS = {
    AfterDecision.NEXT: "Go to the next item",
    AfterDecision.TIMELINE: "View the timeline",
    AfterDecision.QUEUE: "Return to the queue",
}


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where an item lies in its queue. `position` counts from 1; it is 0 for an item that is not in it.

    `query` is the filter as a query string; the addresses are "" where there is nothing to go to.
    """

    query: str
    position: int
    total: int
    queue_url: str
    row_url: str
    previous_url: str
    next_url: str


def read_query(request: HttpRequest) -> str:
    """Return the queue's filter that the request carries, written anew; "" for the whole queue."""
    given = request.POST if request.method == "POST" else request.GET
    return _again(request, given.get("from", ""))


def read_query_or_referer(request: HttpRequest) -> str:
    """Like `read_query`; where the form has no `from`, that of the page whose form was sent."""
    if "from" in request.POST:
        return read_query(request)
    try:
        query = urlsplit(request.headers.get("Referer", "")).query
    except ValueError:
        return ""
    return _again(request, parse_qs(query).get("from", [""])[0])


def list_ids(request: HttpRequest, query: str) -> list[UUID]:
    """The open items of the queue, in its order."""
    wanted = queue_filter.read_from(query, user_pk=request.user.pk)
    keeps = queue_judging.keeps_of(request, wanted)
    return queries.list_ids(tenant=tenant_of(request.user), wanted=wanted, keeps=keeps)


def find_place(request: HttpRequest, query: str, escalation_id: UUID) -> QueuePlace:
    """Find the item in its queue. From one that is not in it, the next is the queue's first."""
    ids = list_ids(request, query)
    at = ids.index(escalation_id) if escalation_id in ids else -1
    previous = ids[at - 1] if at > 0 else None
    following = ids[at + 1] if at + 1 < len(ids) else None
    queue = queue_url(query)
    return QueuePlace(
        query=query,
        position=at + 1,
        total=len(ids),
        queue_url=queue,
        row_url=f"{queue}#row-{escalation_id}",
        previous_url="" if previous is None else item_url(previous, query),
        next_url="" if following is None else item_url(following, query),
    )


def next_after(done: UUID, *, before: Sequence[UUID], now: Sequence[UUID]) -> UUID | None:
    """Return the item that followed `done`, of those that are still open; past the end, the first.

    `before` is the queue as it was when the person decided, `now` as it is. None if nothing else is open.
    """
    still_open = [item for item in now if item != done]
    at = before.index(done) if done in before else -1
    later = set(before[at + 1 :])
    return next((item for item in still_open if item in later), still_open[0] if still_open else None)


def item_url(escalation_id: UUID, query: str, *, done: UUID | None = None) -> str:
    """Write the address of a decision page in its queue; `done` is the item that was just decided."""
    carried = {"from": query, "done": "" if done is None else str(done)}
    text = urlencode({name: value for name, value in carried.items() if value})
    address = addresses.of_page("escalation", escalation_id)
    return f"{address}?{text}" if text else address


def queue_url(query: str) -> str:
    """Write the address of the queue with its filter."""
    address = addresses.of_page("escalations")
    return f"{address}?{query}" if query else address


def choice_of(request: HttpRequest) -> AfterDecision:
    """Return where this browser goes after a decision; the next item unless the person chose otherwise."""
    kept = request.COOKIES.get(COOKIE, "")
    return AfterDecision(kept) if kept in set(AfterDecision) else AfterDecision.NEXT


def keep_choice(response: HttpResponse, chosen: AfterDecision) -> None:
    """Keep the choice in this browser, across sign-ins."""
    response.set_cookie(
        COOKIE,
        chosen.value,
        max_age=COOKIE_AGE_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _again(request: HttpRequest, given: str) -> str:
    return queue_filter.to_query(queue_filter.read_from(given, user_pk=request.user.pk))
