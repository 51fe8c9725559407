"""The lines of the queue as HTML."""

from functools import lru_cache

from django import template
from django.template.loader import render_to_string
from django.utils import timezone

from escalations.presenters import QueueRow

register = template.Library()

MOST_KEPT = 1024


@register.simple_tag
def queue_row(row: QueueRow, may_decide: bool) -> str:
    """One line, drawn once a second at most: with a hint every open page asks for the same lines."""
    return _drawn(row, may_decide, int(timezone.now().timestamp()))


@lru_cache(maxsize=MOST_KEPT)
def _drawn(row: QueueRow, may_decide: bool, second: int) -> str:
    # Nothing else is in it: the times are written to the second, and the person is in the row.
    return render_to_string("escalations/_row.html", {"row": row, "may_decide": may_decide})
