"""What was typed into a decision form that was refused: kept in the session, so that no detour loses it.

A password asked for in between, a new look at the evidence: the page that follows is a GET and shows it
again. What a person must state anew for each decision is never kept.
"""

from collections.abc import Mapping

from django.http import HttpRequest

from escalations import forms

KEY = "decision_drafts"
MOST = 5
MOST_FIELDS = 100
LONGEST_NAME = 200
TEXTS = frozenset({"justification", "question", "conditions", "params", "receipt", "reason"})


def keep(request: HttpRequest, about: object) -> None:
    """Keep the texts of a refused form; the oldest drafts of the session make room.

    `about` names the case: the id of an escalation, or a call. The session is read with every request, so
    what is longer than any form takes is left out: a text that was cut short would say something else.
    """
    typed = [
        (name, value)
        for name, value in request.POST.items()
        if isinstance(value, str) and _is_kept(name, value)
    ]
    texts = dict(typed[:MOST_FIELDS])
    if any(texts.values()):
        kept = _all(request)
        kept.pop(str(about), None)
        kept[str(about)] = texts
        request.session[KEY] = dict(list(kept.items())[-MOST:])


def _is_kept(name: str, value: str) -> bool:
    is_text = name in TEXTS or (name.startswith(forms.TYPED) and len(name) <= LONGEST_NAME)
    return is_text and len(value) <= forms.LONGEST_TEXT


def get(request: HttpRequest, about: object) -> Mapping[str, str]:
    """What was kept for this case."""
    found: Mapping[str, str] = _all(request).get(str(about), {})
    return dict(found)


def forget(request: HttpRequest, about: object) -> None:
    """The decision was taken, the question is out, or what became of the call is stated."""
    kept = _all(request)
    if kept.pop(str(about), None) is not None:
        request.session[KEY] = kept


def _all(request: HttpRequest) -> dict[str, dict[str, str]]:
    return dict(request.session.get(KEY, {}))
