"""Who has put the tour of the console away."""

from typing import Any, Final

from django.db.models import QuerySet

from audit import statements
from runtime.registry.models import HiddenTour


def is_hidden(*, user_pk: int) -> bool:
    """Whether this person does not want to see the tour."""
    return _HIDDEN.exists(user_pk=user_pk)


def _hidden(*, user_pk: int) -> QuerySet[HiddenTour, Any]:
    return statements.any_of(HiddenTour.objects.filter(pk=user_pk))


_HIDDEN: Final = statements.Read(_hidden)
