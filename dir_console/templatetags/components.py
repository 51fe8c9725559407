"""The small parts that stand in almost every line of a page, as short tags instead of long includes."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template.loader import render_to_string

from dir_console import glossary

register = template.Library()

MOST_ICONS = 256


@register.simple_tag
@lru_cache(maxsize=MOST_ICONS)
def icon(name: str, size: str = "") -> str:
    """An icon of `static/icons.svg`; each is drawn once, since a page has a hundred."""
    return render_to_string("components/icon.html", {"name": name, "size": size})


@register.inclusion_tag("components/badge.html", name="badge")
def show_badge(badge: object, style: str = "") -> dict[str, Any]:
    """A state in one word, with its tone and its icon."""
    return {"badge": badge, "style": style}


@register.inclusion_tag("components/time.html", name="time")
def show_time(at: datetime | None, form: str, none: str = "") -> dict[str, Any]:
    """A moment in one of the forms of `moments.moment`; `none` is shown where there is no moment."""
    return {"at": at, "form": form, "none": none}


@register.inclusion_tag("components/hash.html", name="hash")
def show_hash(value: str, label: str) -> dict[str, Any]:
    """The beginning of a hash, on a button that copies all of it."""
    return {"value": value, "label": label}


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
