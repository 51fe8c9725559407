"""An explanation as words: a bounded, linear reading of text that nobody vouches for."""

import re
import unicodedata
from dataclasses import dataclass

MAX_CHARS = 20_000  # as much as a proposal may explain
MAX_TOKENS = 4_000

# Sets of characters are possessive and nothing follows the group: no piece is read twice, whatever the text.
# A possessive group would match wrongly before Python 3.11.5 (gh-106052).
_PIECE = re.compile(
    r"(?P<word>[^\W_]++(?:(?:[-_.:/'\u2019]|(?<=[0-9]),(?=[0-9]))[^\W_]++)*)"
    r"|(?P<sign>[$\u20ac\u00a3\u00a5%])|(?P<end>[.,;:!?\n])"
)
_PARTS = re.compile(r"[A-Z]++(?![a-z])|[A-Z]?[^\W\d_A-Z]++|\d++")


@dataclass(frozen=True, slots=True)
class Token:
    """A word or sign as written and in small letters, and the number of the clause it stands in."""

    text: str
    word: str
    clause: int


def read(text: str) -> tuple[Token, ...]:
    """The first MAX_TOKENS words and signs of the first MAX_CHARS characters.

    Compatibility forms are folded and invisible characters dropped, so that they cannot split a word.
    """
    clause, found = 0, []
    for piece in _PIECE.finditer(fold(text)):
        if piece["end"]:
            clause += 1
            continue
        found.append(Token(text=piece[0], word=piece[0].casefold().replace("\u2019", "'"), clause=clause))
        if len(found) == MAX_TOKENS:
            break
    return tuple(found)


def fold(text: str) -> str:
    """Text in one form; cut again afterwards, since one character may unfold into eighteen."""
    plain = unicodedata.normalize("NFKC", text[:MAX_CHARS])[:MAX_CHARS]
    return "".join(char for char in plain if unicodedata.category(char) not in {"Cf", "Cs", "Mn"})


def parts(value: str) -> list[str]:
    """The words of a name such as `PAY_IN`, `payIn` or `pay-in`, in small letters."""
    return [part.casefold() for part in _PARTS.findall(value)]


def bag(text: str) -> frozenset[str]:
    """The words of a table's cell."""
    return frozenset(text.split())
