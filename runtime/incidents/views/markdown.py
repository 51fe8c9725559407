"""A post-mortem as Markdown: what people and agents wrote stays text, and makes no markup. Pure."""

import re
from collections.abc import Sequence
from datetime import date

from runtime.contracts.post_mortem import PostMortemBody
from runtime.core.views import labels

# Everywhere: emphasis, code, links, pictures, tags, entities, tables.
_INLINE = re.compile(r"[\\`*_\[\]<>|~&]")
_AUTOLINK = re.compile(r"(?i)\b(https?|ftp|mailto):|\bwww\.")
PARTS: Sequence[tuple[str, str]] = (
    ("summary", "Summary"),
    ("impact", "Impact"),
    ("timeline", "Timeline"),
    ("root_causes", "Root causes"),
    ("went_well", "What went well"),
    ("went_badly", "What went badly"),
)


def escape(text: str) -> str:
    """One line as literal text."""
    plain = _INLINE.sub(lambda found: "\\" + found[0], labels.visible_lines(text).strip())
    # A leading number keeps its digits; the mark after it is what makes a list.
    plain = re.sub(r"^(\d+)([.)])", r"\1\\\2", plain)
    plain = re.sub(r"^([#+=-])", r"\\\1", plain)
    return _AUTOLINK.sub(lambda found: found[0][:-1] + "\\" + found[0][-1], plain)


def lines_of(text: str) -> str:
    """Several lines, each on its own line and literal."""
    return "  \n".join(escape(line) for line in text.split("\n"))


def write(
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    body: PostMortemBody,
    actions: Sequence[tuple[str, str, date, bool]],
) -> str:
    """The whole document; `actions` are text, owner, due date and whether it is done."""
    parts = [
        f"# Post-mortem: {escape(title)}",
        "\n".join(f"- {name}: {escape(said)}" for name, said in facts),
    ]
    for field, heading in PARTS:
        words = getattr(body, field).strip()
        parts += [f"## {heading}", lines_of(words) if words else "Nothing was written."]
    parts.append("## Actions")
    listed = [
        f"- [{'x' if is_done else ' '}] {escape(text)} ({escape(owner)}, due {due_on.isoformat()})"
        for text, owner, due_on, is_done in actions
    ]
    parts.append("\n".join(listed) if listed else "None.")
    return "\n\n".join(parts) + "\n"
