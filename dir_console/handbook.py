"""The pages of docs/ for the console: Markdown as HTML, with raw HTML and foreign links left out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

# The order of the index; pages that are in no group come last, under `MORE`.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "For operators",
        (
            "demo",
            "escalations",
            "flows",
            "incidents",
            "stopping",
            "watchdog",
            "guards",
            "calibration",
            "notifications",
        ),
    ),
    (
        "For admins",
        (
            "registry",
            "kinds",
            "packs",
            "rulesets",
            "workflows",
            "conversations",
            "invariants",
            "budgets",
            "gate",
            "execution",
            "human-steps",
            "tools",
            "routes",
            "context",
            "state",
            "outward",
            "operations",
            "performance",
            "capacity",
        ),
    ),
    (
        "For auditors",
        (
            "explorer",
            "ledger",
            "records",
            "decision-metrics",
            "replay",
            "privacy",
            "audit-api",
            "conformance",
            "dare",
            "permissions",
            "promises",
        ),
    ),
    ("For agent authors", ("agent-quickstart", "connect", "topic-intake", "agent-tables", "problems")),
    ("Reference", ("reasons", "states", "events", "ocsf", "erased-columns", "settings", "checks")),
)
MORE = "More"
GLOSSARY = "glossary"
LISTED_LEVELS = ("h2", "h3")

_NOTE = re.compile(r"^<!-- .*? -->\n+", re.MULTILINE | re.DOTALL)
_PAGE = re.compile(r"(?P<name>[a-z0-9-]+)\.md(?P<anchor>#[a-z0-9_-]+)?", re.ASCII)
_ANCHOR = re.compile(r"#[a-z0-9_-]+", re.ASCII)
_WEB = re.compile(r"https?://")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading below the title, with the anchor that GitHub gives it too."""

    level: str
    words: str
    slug: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of docs/: its title, its first sentence, its headings and its text as HTML."""

    name: str
    title: str
    about: str
    headings: Sequence[Heading]
    html: SafeString


@cache
def names() -> frozenset[str]:
    """Every page that is served here; the glossary has a page of its own."""
    return frozenset(path.stem for path in _folder().glob("*.md")) - {GLOSSARY}


@cache
def get(name: str) -> Page:
    """A page by its name, which must be one of `names()`."""
    return render(name, (_folder() / f"{name}.md").read_text(encoding="utf-8"))


@cache
def groups() -> tuple[tuple[str, tuple[Page, ...]], ...]:
    """All pages as the index lists them."""
    grouped = {name for _, members in GROUPS for name in members}
    rest = tuple(sorted(names() - grouped))
    return tuple(
        (title, pages)
        for title, members in (*GROUPS, (MORE, rest))
        if (pages := tuple(get(name) for name in members if name in names()))
    )


def render(name: str, text: str) -> Page:
    """Turn Markdown into a page. Raw HTML is shown as text; a link that leads nowhere becomes words."""
    markdown = _reader()
    tokens = markdown.parse(_NOTE.sub("", text, count=1))
    title, about = name, ""
    headings: list[Heading] = []
    for index, token in enumerate(tokens):
        if token.type == "inline":
            token.children = _with_known_links(token.children or [])
        if token.type == "heading_open":
            words = _plain(tokens[index + 1])
            slug = _free_slug(words, taken={heading.slug for heading in headings})
            token.attrSet("id", slug)
            headings.append(Heading(level=token.tag, words=words, slug=slug))
        if token.type == "paragraph_open" and not about:
            about = _plain(tokens[index + 1]).partition(". ")[0].removesuffix(".") + "."
    if headings and headings[0].level == "h1":
        title, tokens = headings[0].words, tokens[3:]  # opening, words and close: the page has its own
    return Page(
        name=name,
        title=title,
        about=about,
        headings=[heading for heading in headings if heading.level in LISTED_LEVELS],
        # Escaped by the library, which was told to pass on no HTML.
        html=mark_safe(markdown.renderer.render(tokens, markdown.options, {})),  # noqa: S308
    )


def _folder() -> Path:
    return Path(settings.BASE_DIR) / "docs"


def _reader() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("fence", _code)
    markdown.add_render_rule("code_block", _code)
    markdown.add_render_rule("image", _picture)
    markdown.add_render_rule("table_open", _table_open)
    markdown.add_render_rule("table_close", _table_close)
    return markdown


def _with_known_links(tokens: Sequence[Token]) -> list[Token]:
    """The words of a line; of its links those that lead somewhere from here."""
    kept: list[Token] = []
    is_link_kept: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href") or ""))
            is_link_kept.append(bool(address))
            token.attrSet("href", address)
            if _WEB.match(address):
                token.attrSet("rel", "noopener noreferrer")
            if not address:
                continue
        elif token.type == "link_close" and not is_link_kept.pop():
            continue
        kept.append(token)
    return kept


def _address(href: str) -> str:
    """Where a link of docs/ leads in the console; empty where it leads nowhere."""
    if _ANCHOR.fullmatch(href) or _WEB.match(href):
        return href
    found = _PAGE.fullmatch(href)
    if found is None:
        return ""
    if found["name"] == GLOSSARY:
        return reverse("glossary")
    if found["name"] not in names():
        return ""
    return reverse("help-page", args=[found["name"]]) + (found["anchor"] or "")


def _plain(token: Token) -> str:
    """The words of a line without their marks."""
    return "".join(
        " " if child.type == "softbreak" else child.content
        for child in token.children or ()
        if child.type in {"text", "code_inline", "softbreak"}
    )


def _free_slug(words: str, *, taken: set[str]) -> str:
    slug = _NOT_IN_SLUG.sub("", words.lower()).replace(" ", "-")
    numbered = (f"{slug}-{number}" for number in range(1, len(taken) + 2))
    return slug if slug not in taken else next(one for one in numbered if one not in taken)


def _code(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    # A block that scrolls must be reachable by keyboard.
    block = format_html('<pre tabindex="0"><code>{}</code></pre>', tokens[index].content)
    if tokens[index].info.strip() != "mermaid":
        return block
    return format_html(
        '<figure class="diagram"><figcaption>Diagram, as Mermaid text</figcaption>{}</figure>', block
    )


def _picture(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return format_html("<em>{}</em>", tokens[index].content)


def _table_open(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table class="table">'


def _table_close(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return "</table></div>"
