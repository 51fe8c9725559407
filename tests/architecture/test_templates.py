"""Templates hold no inline script or style, which the content policy forbids, and no fixed address."""

import ast
import re
from pathlib import Path

from django.urls import get_resolver

from tests.architecture import tree
from tests.architecture.test_permissions import API, patterns

INLINE = {
    "inline script": re.compile(r"<script(?![^>]*\ssrc=)[^>]*>", re.IGNORECASE),
    "inline style": re.compile(r"<style\b|<[a-z][^>]*\sstyle\s*=", re.IGNORECASE),
    "event attribute": re.compile(r"<[a-z][^>]*\s(?:on[a-z]+|hx-on[:a-z-]*)\s*=", re.IGNORECASE),
    "javascript link": re.compile(r"javascript:", re.IGNORECASE),
    "escaping switched off": re.compile(r"\|\s*safe\b|{%\s*autoescape\s+off"),
    "address of another host": re.compile(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", re.IGNORECASE),
}
# The page in an evidence pack, opened from a disk: no content policy, and nothing to load styles from.
OPENED_FROM_DISK = {Path("templates/audit/evidence_report.html"): {"inline style"}}
COMMENTS = re.compile(r"{#.*?#}|{%\s*comment.*?endcomment\s*%}", re.DOTALL)


def templates() -> list[Path]:
    return [path for path in tree.files() if path.parts[0] == "templates" and path.suffix == ".html"]


def test_no_template_holds_inline_script_or_style() -> None:
    assert templates()
    found = [
        f"{path}: {what}: {match[0][:80]}"
        for path in templates()
        for what, pattern in INLINE.items()
        if what not in OPENED_FROM_DISK.get(path, ())
        for match in pattern.finditer(COMMENTS.sub("", tree.text(path)))
    ]
    assert not found, "\n".join(found)


def test_addresses_are_reversed() -> None:
    """`{% url %}`, so that an address has one home."""
    pattern = re.compile(
        r"""(?:\b(?:href|action|formaction|src|hx-get|hx-post|data-[a-z-]+)\s*=\s*|[?&]next=)["']?/[^"']*"""
    )
    found = [
        f"{path}: {match[0]}"
        for path in templates()
        for match in pattern.finditer(COMMENTS.sub("", tree.text(path)))
    ]
    assert not found, "\n".join(found)


def pages() -> tuple[str, ...]:
    """How the addresses of pages begin, up to the first part that varies; the overview has no beginning."""
    places = (place for place, _ in patterns(get_resolver()) if not place.startswith(API))
    return tuple({f"/{place.partition('<')[0]}" for place in places} - {"/"})


def test_addresses_are_reversed_in_python() -> None:
    """`reverse`, for the same reason; settings, and what speaks only to the API, name addresses as text."""
    beginnings = pages()
    assert "/escalations/in-doubt/" in beginnings
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path in tree.sources(*tree.APPS)
        if not {"api", "demo", "settings", "urls"} & {*path.parts, path.stem}
        for node in tree.nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith(beginnings)
    ]
    assert not found, "\n".join(found)


def test_a_fragment_extends_nothing() -> None:
    found = [
        str(path) for path in templates() if path.name.startswith("_") and "{% extends" in tree.text(path)
    ]
    assert not found, found


INCLUDES = re.compile(r"""{%\s*include\s+["']([^"']+)["'](.*?)%}""", re.DOTALL)


def test_no_form_loses_its_token() -> None:
    """`include ... only` hides the token of forms from what it includes, unless it is passed on by name."""
    texts = {str(path.relative_to("templates")): tree.text(path) for path in templates()}

    def asks_token(name: str) -> bool:
        """Whether it, or what it includes with its whole context, writes a token."""
        whole = [inner for inner, words in INCLUDES.findall(texts[name]) if words.split()[-1:] != ["only"]]
        return "{% csrf_token %}" in texts[name] or any(asks_token(inner) for inner in whole if inner != name)

    assert asks_token("runtime/_version_forms.html")
    found = [
        f"{name}: {inner}"
        for name, text in texts.items()
        for inner, words in INCLUDES.findall(text)
        if words.split()[-1:] == ["only"] and "csrf_token=" not in words and asks_token(inner)
    ]
    assert not found, found
