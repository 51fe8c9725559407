"""The small parts that stand in almost every line of a page, as short tags instead of long includes."""

from collections.abc import Hashable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.templatetags import static as addresses
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import is_aware, localtime

from dir_console import glossary
from dir_console.sections import Item
from runtime.core.views import times

register = template.Library()

MOST_ICONS = 256
MOST_BADGES = 512
MOST_FILES = 256
MOST_ITEMS = 256
SHORT_HASH = 10
_HASH = """<button type="button" class="chip" data-copy="{value}" title="{value}">
  <span class="sr">Copy {label} </span>
  <span data-short>{short}</span>
  {icon}
</button>"""


@register.simple_tag
@lru_cache(maxsize=MOST_FILES)
def static(path: str) -> str:
    """The address of a file of `static/`, as Django's own tag writes it; a page names forty."""
    return addresses.static(path)


@register.simple_tag
@lru_cache(maxsize=MOST_ICONS)
def icon(name: str, size: str = "") -> str:
    """An icon of `static/icons.svg`; each is drawn once, since a page has a hundred."""
    return render_to_string("components/icon.html", {"name": name, "size": size})


@register.simple_tag
@lru_cache(maxsize=MOST_ITEMS)
def menu_item(item: Item) -> str:
    """A page of the menu beside which nothing is counted; drawn once, and once more as the current page."""
    return render_to_string("components/menu_item.html", {"item": item})


@register.simple_tag(name="badge")
def show_badge(badge: Hashable, style: str = "") -> str:
    """A state in one word, with its tone and its icon; each is drawn once, since every row has one."""
    return _badge(badge, style) if badge else ""


@lru_cache(maxsize=MOST_BADGES)
def _badge(badge: Hashable, style: str) -> str:
    return render_to_string("components/badge.html", {"badge": badge, "style": style})


@register.simple_tag(name="time")
def show_time(at: datetime | None, form: str, none: str = "") -> SafeString:
    """A moment in one of the forms of `times.moment`; `none` is shown where there is no moment.

    No template, nor has `show_hash`: a page has dozens, and each would cost as much as a section.
    """
    if not at:
        return format_html('<span class="faint">{}</span>', none or "never")
    return format_html(
        '<time datetime="{}" data-time="{}" title="{}"\n  >{}</time>',
        (localtime(at) if is_aware(at) else at).isoformat(),
        form or "full",
        times.moment(at, "full"),
        times.moment(at, form),
    )


@register.simple_tag(name="hash")
def show_hash(value: str, label: str) -> SafeString:
    """The beginning of a hash, on a button that copies all of it."""
    if not value:
        return format_html('<span class="faint">{}</span>', "none")
    return format_html(_HASH, value=value, label=label or "hash", short=value[:SHORT_HASH], icon=icon("copy"))


@register.inclusion_tag("components/options.html", name="options")
def show_options(choices: Iterable[tuple[object, str]], chosen: object) -> dict[str, Any]:
    """The options of a select, each a value and its word; `chosen` is the value that is selected."""
    return {"choices": choices, "chosen": chosen}


@register.inclusion_tag("components/effect.html", name="effect")
def show_effect(effect: object) -> dict[str, Any]:
    """The sentence of an effect, with the values that an agent chose set apart from the words of the kind."""
    return {"effect": effect}


@register.inclusion_tag("components/terms.html", name="terms")
def show_terms(*names: str) -> dict[str, Any]:
    """Words of the glossary that the page uses, each with its meaning on a click."""
    return {"terms": [glossary.by_name()[name] for name in names]}


@register.inclusion_tag("components/term.html", name="term")
def show_term(name: str, word: str = "") -> dict[str, Any]:
    """A word of the glossary in a text, explained on a click; `word` is how the text writes it."""
    return {"term": glossary.by_name()[name], "word": word or name}
