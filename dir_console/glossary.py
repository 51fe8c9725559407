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
# A reference to a page of docs/ is not part of the meaning: it becomes a link of its own.
_REFERENCE = re.compile(r"\s*See (?:[^.]*\]\([^)]*\)[^.]*)\.")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_PAGE = re.compile(r"\[([^\]]+)\]\(([a-z-]+)\.md(#[a-z0-9-]+)?\)")


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the pages. `meaning` is HTML; `slug` is its anchor on the page of the glossary.

    `reads_on` is where the docs say more: words, the name of the page and the anchor on it.
    """

    name: str
    slug: str
    meaning: SafeString
    reads_on: tuple[tuple[str, str, str], ...]


@cache
def terms() -> tuple[Term, ...]:
    """Every word, in the order of the file."""
    text = (Path(settings.BASE_DIR) / "docs" / "glossary.md").read_text(encoding="utf-8")
    starts = [*_ENTRY.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return tuple(
        Term(start["name"], slugify(start["name"]), _html(entry), _reads_on(entry))
        for start, end in zip(starts, ends, strict=True)
        for entry in [text[start.end() : end]]
    )


@cache
def by_name() -> dict[str, Term]:
    """Every word by its name."""
    return {term.name: term for term in terms()}


def _reads_on(text: str) -> tuple[tuple[str, str, str], ...]:
    """The pages that an entry refers to."""
    return tuple(
        (words[:1].upper() + words[1:], page, anchor)
        for words, page, anchor in _PAGE.findall(" ".join(text.split()))
    )


def _html(text: str) -> SafeString:
    """One entry without its name: code and emphasis of Markdown as HTML, links as their words."""
    plain = _LINK.sub(r"\1", _REFERENCE.sub("", " ".join(text.split()))).lstrip(" :")
    plain = re.sub(r"^\((`[^`]+`)\): ", r"\1: ", plain)
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain[:1].upper() + plain[1:]))
    return mark_safe(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", marked))  # noqa: S308  # escaped above
