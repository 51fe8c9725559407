"""What was typed into a decision form that was refused: kept in the session, so that no detour loses it.

A password asked for in between, a new look at the evidence: the page that follows is a GET and shows it
again. What a person must state anew for each decision is never kept.
"""

from collections.abc import Mapping
from uuid import UUID

from django.http import HttpRequest

KEY = "decision_drafts"
MOST = 5
TEXTS = frozenset({"justification", "question", "conditions", "params", "receipt"})
TYPED = "param:"


def keep(request: HttpRequest, escalation_id: UUID) -> None:
    """Keep the texts of a refused form; the oldest drafts of the session make room."""
    texts = {
        name: value
        for name, value in request.POST.items()
        if isinstance(value, str) and (name in TEXTS or name.startswith(TYPED))
    }
    if any(texts.values()):
        kept = _all(request)
        kept.pop(str(escalation_id), None)
        kept[str(escalation_id)] = texts
        request.session[KEY] = dict(list(kept.items())[-MOST:])


def get(request: HttpRequest, escalation_id: UUID) -> Mapping[str, str]:
    """What was kept for this escalation."""
    found: Mapping[str, str] = _all(request).get(str(escalation_id), {})
    return dict(found)


def forget(request: HttpRequest, escalation_id: UUID) -> None:
    """The decision was taken, or the question is out."""
    kept = _all(request)
    if kept.pop(str(escalation_id), None) is not None:
        request.session[KEY] = kept


def _all(request: HttpRequest) -> dict[str, dict[str, str]]:
    return dict(request.session.get(KEY, {}))
