"""The words of docs/glossary.md for the pages: each can be looked up where it is used."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

_ENTRY = re.compile(r"^\*\*(?P<name>.+?)\*\*", re.MULTILINE)
# Links lead to other pages of docs/, which the console does not serve: a reference to one is left out.
_REFERENCE = re.compile(r"\s*See (?:[^.]*\]\([^)]*\)[^.]*)\.")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the pages. `meaning` is HTML; `slug` is its anchor on the page of the glossary."""

    name: str
    slug: str
    meaning: SafeString


@cache
def terms() -> tuple[Term, ...]:
    """Every word, in the order of the file."""
    text = (Path(settings.BASE_DIR) / "docs" / "glossary.md").read_text(encoding="utf-8")
    starts = [*_ENTRY.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return tuple(
        Term(start["name"], slugify(start["name"]), _html(text[start.end() : end]))
        for start, end in zip(starts, ends, strict=True)
    )


@cache
def by_name() -> dict[str, Term]:
    """Every word by its name."""
    return {term.name: term for term in terms()}


def _html(text: str) -> SafeString:
    """One entry without its name: code and emphasis of Markdown as HTML, links as their words."""
    plain = _LINK.sub(r"\1", _REFERENCE.sub("", " ".join(text.split()))).lstrip(" :")
    plain = re.sub(r"^\((`[^`]+`)\): ", r"\1: ", plain)
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain[:1].upper() + plain[1:]))
    return mark_safe(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", marked))  # noqa: S308  # escaped above
