"""What stands in many places of the queue as HTML: its lines, and the choices above them."""

from functools import lru_cache

from django import template
from django.template.loader import render_to_string
from django.utils import timezone

from escalations.presenters import QueueRow
from escalations.views.filter_bar import Select, Tab
from runtime.core.views.kept import kept

register = template.Library()

MOST_KEPT = 1024
MOST_SELECTS = 512
MOST_TABS = 1024


@register.simple_tag
def queue_row(row: QueueRow, may_decide: bool) -> str:
    """One line, drawn once a second at most: with a hint every open page asks for the same lines."""
    return _drawn(row, may_decide, int(timezone.now().timestamp()))


@lru_cache(maxsize=MOST_KEPT)
def _drawn(row: QueueRow, may_decide: bool, second: int) -> str:
    # Nothing else is in it: the times are written to the second, and the person is in the row.
    return render_to_string("escalations/_row.html", {"row": row, "may_decide": may_decide})


@register.simple_tag
@kept(MOST_SELECTS)
def filter_select(select: Select) -> str:
    """One field of the filter bar: half of them always say the same, and the others until a count changes."""
    return render_to_string("escalations/_filter_select.html", {"select": select})


@register.simple_tag
@kept(MOST_TABS)
def queue_tab(view: Tab) -> str:
    """One view above the queue."""
    return render_to_string("escalations/_view.html", {"view": view})
