"""A tokenizer of CEL for the linter: the library parses and runs expressions but shows no tree.

It knows just enough: strings, numbers, names, comments and punctuation. What it cannot read becomes an
`other` token, never an error; the library decides whether the text is CEL at all.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_PATTERN = re.compile(
    r"""
      (?P<space>[ \t\r\n\f]+|//[^\n]*)
    | (?P<string>
        [bB]?[rR](?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")
      | [bB]?(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
    | (?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<punct>&&|\|\||==|!=|<=|>=|[-+*/%!<>=?:.,()\[\]{}])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class TokenKind(StrEnum):
    """What a token is."""

    STRING = "string"
    NUMBER = "number"
    NAME = "name"
    PUNCT = "punct"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class CelToken:
    """One token: its kind, its text, and where it starts."""

    kind: TokenKind
    text: str
    at: int


def tokenize(source: str) -> tuple[CelToken, ...]:
    """The tokens of `source` without spaces and comments."""
    return tuple(
        CelToken(kind=TokenKind(match.lastgroup or ""), text=match.group(), at=match.start())
        for match in _PATTERN.finditer(source)
        if match.lastgroup != "space"
    )


def is_macro_call(tokens: tuple[CelToken, ...], at: int) -> bool:
    """Whether `tokens[at]` is the name in `.map(` or one of its kin."""
    return (
        0 < at < len(tokens) - 1
        and tokens[at].kind is TokenKind.NAME
        and tokens[at].text in MACROS
        and tokens[at - 1].text == "."
        and tokens[at + 1].text == "("
    )


def bound_names(source: str) -> frozenset[str]:
    """The names that macros of `source` bind."""
    tokens = tokenize(source)
    return frozenset(
        tokens[at + 2].text
        for at in range(len(tokens) - 2)
        if is_macro_call(tokens, at) and tokens[at + 2].kind is TokenKind.NAME
    )
