"""Keep the input of a rejected decision form in the session, so that it is not lost.

After a password confirmation or a reload of the evidence, the page is a GET and shows the input again.
What a person must state again for each decision is never kept.
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
    """Keep the texts of a refused form; the oldest drafts of the session are dropped.

    `about` is the id of an escalation, or a call. The session is read with every request, so texts longer
    than a form allows are left out; they are not truncated, since that would change their meaning.
    """
    typed = [
        (name, value)
        for name, value in request.POST.items()
        if isinstance(value, str)
        and len(value) <= forms.LONGEST_TEXT
        and (name in TEXTS or (name.startswith(forms.TYPED) and len(name) <= LONGEST_NAME))
    ]
    texts = dict(typed[:MOST_FIELDS])
    if any(texts.values()):
        kept = _all(request)
        kept.pop(str(about), None)
        kept[str(about)] = texts
        request.session[KEY] = dict(list(kept.items())[-MOST:])


def get(request: HttpRequest, about: object) -> Mapping[str, str]:
    """Return what was kept for `about`."""
    found: Mapping[str, str] = _all(request).get(str(about), {})
    return dict(found)


def forget(request: HttpRequest, about: object) -> None:
    """Delete the draft after the decision, question or statement was recorded."""
    kept = _all(request)
    if kept.pop(str(about), None) is not None:
        request.session[KEY] = kept


def _all(request: HttpRequest) -> dict[str, dict[str, str]]:
    return dict(request.session.get(KEY, {}))
