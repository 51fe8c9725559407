"""The text of a note: its bounds, and the people whom it names. Pure."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from escalations.contracts import NotePurpose
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode

LONGEST = 2000
MOST_MENTIONS = 20
# The characters of usernames; a point at the end belongs to the sentence.
_MENTION = re.compile(r"(?<![\w@.+-])@([\w.+-]{0,149}\w)")
_EMPTY = {
    NotePurpose.TAKEOVER: "Write why you take this over.",
    NotePurpose.HANDOVER: "Write a note for the person who takes this over.",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a note: text, or the name of a person who exists."""

    text: str
    is_person: bool = False


def check(given: str, purpose: NotePurpose) -> str | Problem:
    """The text as it is kept, with line ends as one character; or why it is none."""
    text = given.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not text:
        return Problem(code=ProblemCode.NOTE_EMPTY, detail=_EMPTY.get(purpose, "Write a note."))
    if len(text) > LONGEST or "\x00" in text:
        detail = f"A note has at most {LONGEST:,} characters; this one has {len(text):,}."
        return Problem(code=ProblemCode.NOTE_TOO_LONG, detail=detail)
    return text


def names_in(text: str) -> list[str]:
    """What may be usernames in a text, each once, in order; at most `MOST_MENTIONS`."""
    return list(dict.fromkeys(_MENTION.findall(text)))[:MOST_MENTIONS]


def pieces(text: str, people: Collection[str]) -> Iterator[Piece]:
    """The text in parts, with the names of `people` apart."""
    at = 0
    for found in _MENTION.finditer(text):
        if found[1] not in people:
            continue
        if found.start() > at:
            yield Piece(text[at : found.start()])
        yield Piece(found[0], is_person=True)
        at = found.end()
    if at < len(text):
        yield Piece(text[at:])
