"""The replay of a flow in words, for the page of the flow."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import signed_in, tenant_of
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import Change, ReplayDifference

_WORDS = {
    Change.POLICY: "The rules are not those that were in force.",
    Change.CONTEXT: "The context is not the one that the agent was given.",
    Change.SCORECARD: "The scorecard is not the one that was recorded, or evaluators give another one.",
    Change.EVIDENCE: "The evidence is not what the person was shown.",
    Change.TRANSCRIPT: "What the target answered is not what was recorded.",
    Change.TAMPERED: "An entry or a row is not what was recorded.",
}


def words_of(change: str) -> str:
    """What was changed, in words; the name of a change that this version does not know."""
    return _WORDS[Change(change)] if change in Change.__members__.values() else change


@require_safe
@signed_in
def fragment(request: HttpRequest, dfid: UUID) -> HttpResponse:
    """Replay the flow and return the answer as a part of its page."""
    result = flow_replay.replay(tenant=tenant_of(request.user), dfid=dfid)
    if result is None:
        raise Http404
    context: dict[str, Any] = {"answer": result.plain()}
    if isinstance(result, ReplayDifference):
        context |= {
            "words": _WORDS[result.change],
            "recorded": _text(result.recorded),
            "found": _text(result.found),
        }
    return render(request, "runtime/_flow_replay.html", context)


def _text(value: Any) -> str:
    """A value for people; JSON where it is no text."""
    return value if isinstance(value, str) else canonical.encode(value).decode()
