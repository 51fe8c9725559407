"""Conversations as pages: the list with the dead letters, and one as a thread. What agents say is a claim."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import actors
from audit.access.permissions import signed_in, tenant_of
from audit.live.topics import Topic
from runtime.contracts.message import ConversationState, DeadReason, MessageState
from runtime.conversations.models import Message
from runtime.conversations.queries import conversation_list
from runtime.conversations.queries.mailboxes import Opened
from runtime.core import paging
from runtime.core.views import labels, query_params
from runtime.core.views.labels import Badge
from runtime.kernel import conversation as rules

STATES: Final[Mapping[str, Badge]] = {
    ConversationState.OPEN: Badge("ok", "check", "Open"),
    ConversationState.STOPPED: Badge("danger", "stop", "Stopped"),
}
MESSAGES: Final[Mapping[str, Badge]] = {
    MessageState.WAITING: Badge("info", "wait", "Waiting"),
    MessageState.TAKEN: Badge("ok", "check", "Taken"),
    MessageState.DEAD: Badge("danger", "cross", "Dead letter"),
}
REASONS: Final[Mapping[str, str]] = {
    DeadReason.EXPIRED: "Nobody took it in time.",
    DeadReason.CONVERSATION_STOPPED: "Its conversation was stopped.",
    DeadReason.ERASED: "Its words were erased.",
    DeadReason.TAMPERED: "It does not match the ledger.",
}
REGISTRY: Final = "the registry"


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List conversations, the newest first, and the newest dead letters."""
    tenant, asked = tenant_of(request.user), request.GET
    after = query_params.uuid(asked.get("after", ""))
    only_stopped, text = asked.get("state") == "stopped", asked.get("q", "").replace("\x00", "")[:200]
    page = conversation_list.list_page(tenant=tenant, after=after, text=text, only_stopped=only_stopped)
    context = {
        "rows": [
            {"row": row, "state": labels.badge(STATES, row.state), "name": labels.visible_lines(row.name)}
            for row in page.rows
        ],
        "pager": paging.pager(
            page=page,
            query=asked,
            key="after",
            last=str(page.rows[-1].pk) if page.rows else "",
            order="newest first",
        ),
        "dead": [shown(Opened(row=row, envelope=None)) for row in conversation_list.list_dead(tenant=tenant)],
        "asked": {"q": text, "state": "stopped" if only_stopped else ""},
        "filtered": bool(text or only_stopped),
        "topic": Topic.CONVERSATIONS,
        "paged": after is not None,
    }
    swapped = "HX-Request" in request.headers
    return render(request, f"runtime/{'_conversations' if swapped else 'conversations'}.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Show a conversation as a thread, with the envelope of each message."""
    row = conversation_list.find(tenant=tenant_of(request.user), conversation_id=conversation_id)
    if row is None:
        raise Http404("There is no such conversation.")
    context = {
        "conversation": row,
        "name": labels.visible_lines(row.name),
        "state": labels.badge(STATES, row.state),
        "messages_shown": [shown(opened) for opened in conversation_list.thread(row)],
        "most": rules.MOST_MESSAGES,
        "most_at_once": rules.MOST_AT_ONCE,
        "window_s": rules.WINDOW_S,
        "stream": actors.conversation(row.pk),
    }
    swapped = "HX-Request" in request.headers
    return render(request, f"runtime/{'_conversation' if swapped else 'conversation'}.html", context)


def shown(opened: Opened) -> dict[str, Any]:
    """A message as the pages show it: who, what, and what became of it. Its words are untrusted text."""
    row, envelope = opened.row, opened.envelope
    return {
        "row": row,
        "state": labels.badge(MESSAGES, row.state),
        "why": REASONS.get(row.reason, row.reason),
        "sender": _name(row, of_sender=True),
        "recipient": _name(row, of_sender=False),
        "payload": None if envelope is None else labels.pretty(envelope["payload"]),
        "headers": None if envelope is None else labels.pretty(envelope["headers"]),
        "fault": "" if opened.fault is None else REASONS[opened.fault],
    }


def _name(row: Message, *, of_sender: bool) -> str:
    agent = row.sender if of_sender else row.recipient
    return REGISTRY if agent is None else agent.agent_id
