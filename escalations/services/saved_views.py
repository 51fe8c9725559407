"""Views of the queue that people save: a name for a filter. Nothing is decided by it, so no entry is made."""

from django.db import IntegrityError, transaction

from escalations.models import SavedView
from escalations.models.saved_view import MOST_VIEWS, NAME_CHARS, QUERY_CHARS
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode


def save(*, tenant: str, user_pk: int, name: str, query: str) -> SavedView | Problem:
    """Save a filter under a name; the same name again replaces its filter."""
    if not name or len(name) > NAME_CHARS or "\x00" in name:
        return _refuse(f"Enter a name of at most {NAME_CHARS} characters.")
    if not query:
        return _refuse("Set a filter or an order first: this is the view of all open escalations.")
    if len(query) > QUERY_CHARS:
        return _refuse("This filter is too long to be saved. Shorten its words.")
    rows = SavedView.objects.filter(user_id=user_pk)
    if rows.filter(name=name).update(query=query):
        return rows.get(name=name)
    taken = set(rows.values_list("position", flat=True))
    free = next((number for number in range(1, MOST_VIEWS + 1) if number not in taken), None)
    if free is None:
        return _refuse(f"You have saved {MOST_VIEWS} views. Delete one first.")
    try:
        with transaction.atomic():
            return SavedView.objects.create(
                tenant=tenant, user_id=user_pk, position=free, name=name, query=query
            )
    except IntegrityError:
        return _refuse("You saved another view at the same moment. Save this one again.")


def delete(*, user_pk: int, view_pk: int) -> None:
    """Delete a person's own view; one that is not theirs stays."""
    SavedView.objects.filter(user_id=user_pk, pk=view_pk).delete()


def _refuse(detail: str) -> Problem:
    return Problem(code=ProblemCode.INVALID_REQUEST, status=400, detail=detail)
