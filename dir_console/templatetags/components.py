"""The small parts that stand in almost every line of a page, as short tags instead of long includes."""

from collections.abc import Hashable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template.base import Node, Parser, TextNode, Token
from django.template.context import Context
from django.template.library import SimpleNode
from django.template.loader import render_to_string
from django.templatetags import static as addresses
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dir_console import glossary
from dir_console.sections import Group
from escalations.queries import Counts
from runtime.core.views import times
from runtime.core.views.kept import kept

register = template.Library()

MOST_ICONS = 256
MOST_BADGES = 512
MOST_FILES = 256
MOST_GROUPS = 256
MOST_MOMENTS = 2048
MOST_HASHES = 2048
MOST_TERMS = 256
MOST_EFFECTS = 2048
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


def _draw_with_the_template(name: str) -> None:
    """Where only quoted words stand in a tag, draw it once, when its template is compiled.

    So are half of the icons, and all files. Only for a tag that draws the same for the same words, whoever
    asks and wherever.
    """
    compiled = register.tags[name]

    def compile_tag(parser: Parser, token: Token) -> Node:
        node: SimpleNode = compiled(parser, token)
        values = (*node.args, *node.kwargs.values())
        if node.target_var is not None or any(value.is_var or value.filters for value in values):
            return node
        return TextNode(node.render(Context()))

    register.tag(name, compile_tag)


_draw_with_the_template("static")
_draw_with_the_template("icon")


@register.simple_tag
@kept(MOST_GROUPS)
def menu_group(
    group: Group, number: int, counts: Counts | None = None, to_review: int = 0, in_inbox: int = 0
) -> str:
    """A group of the menu, drawn once for each page of it that is the current one, and for each count."""
    context = {"counts": counts, "to_review": to_review, "in_inbox": in_inbox}
    return render_to_string("components/menu_group.html", {"group": group, "number": number, **context})


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
    return mark_safe(f"{_time_tag(at, form)}{times.moment(at, form)}</time>")  # noqa: S308  # a time in words


@lru_cache(maxsize=MOST_MOMENTS)
def _time_tag(at: datetime, form: str) -> SafeString:
    """What comes before the words of a moment, which alone change while time passes."""
    return format_html(
        '<time datetime="{}" data-time="{}" title="{}"\n  >',
        times.stamp(at),
        form or "full",
        times.moment(at, "full"),
    )


@register.simple_tag(name="hash")
@lru_cache(maxsize=MOST_HASHES)
def show_hash(value: str, label: str) -> SafeString:
    """The beginning of a hash, on a button that copies all of it."""
    if not value:
        return format_html('<span class="faint">{}</span>', "none")
    return format_html(_HASH, value=value, label=label or "hash", short=value[:SHORT_HASH], icon=icon("copy"))


@register.inclusion_tag("components/options.html", name="options")
def show_options(choices: Iterable[tuple[object, str]], chosen: object) -> dict[str, Any]:
    """The options of a select, each a value and its word; `chosen` is the value that is selected."""
    return {"choices": choices, "chosen": chosen}


@register.simple_tag(name="effect")
def show_effect(effect: Iterable[Any] | None) -> str:
    """The sentence of an effect, with the values that an agent chose set apart from the words of the kind."""
    return _effect(tuple((piece.text, piece.value) for piece in effect or ()))


@lru_cache(maxsize=MOST_EFFECTS)
def _effect(pieces: tuple[tuple[str, bool], ...]) -> str:
    """A page writes it at its head and beside the decision; lists of all kinds write it too."""
    return render_to_string("components/effect.html", {"pieces": pieces})


@register.simple_tag(name="terms")
@kept(MOST_TERMS)
def show_terms(*names: str) -> str:
    """Words of the glossary that the page uses, each with its meaning on a click."""
    return render_to_string("components/terms.html", {"terms": [glossary.by_name()[name] for name in names]})


@register.simple_tag(name="term")
@kept(MOST_TERMS)
def show_term(name: str, word: str = "") -> str:
    """A word of the glossary in a text, explained on a click; `word` is how the text writes it."""
    return render_to_string("components/term.html", {"term": glossary.by_name()[name], "word": word or name})
