# ruff: noqa: RUF001
"""Names that a reader takes for another one: confusable characters, mixed scripts, and small differences.

For people only: no verdict reads it. Names are short and few, so every comparison is bounded.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Longer texts are no names; they are not compared.
MAX_NAME_CHARS: Final = 64
# With fewer characters, one difference makes another word more often than a forged one.
MIN_EDITED_CHARS: Final = 5
# From this length on, two differences are overlooked as easily as one.
LONG_NAME_CHARS: Final = 12
# A name that was used so often is one that people trust.
OFTEN: Final = 3
MOST_FOUND: Final = 3
# Letters of other scripts, and digits, that look like a Latin one; after case folding.
_LOOKS_LIKE: Final = str.maketrans(
    # Cyrillic, Greek and Armenian; then what is confused within one script.
    dict(zip("авеіјкмнорԛгѕстухһԁьѵԝӏ", "abeljkmhopqrsctyxhdbvwl", strict=True))
    | dict(zip("αβγεηικνορτυχω", "abyenlkvoptuxw", strict=True))
    | dict(zip("օսհցոռ", "ouhgnn", strict=True))
    | dict(zip("01|!iı58$", "olllllsbs", strict=True))
)
# Pairs of letters that run together into one; looked at after the single ones.
_RUNS_TOGETHER: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL")


class Why(StrEnum):
    """Why a name is taken for another one."""

    LOOKS_THE_SAME = "LOOKS_THE_SAME"
    FEW_EDITS = "FEW_EDITS"


@dataclass(frozen=True, slots=True)
class Lookalike:
    """A known name that another one can be taken for; `uses` is how often it was used."""

    name: str
    uses: int
    why: Why


def skeleton(name: str) -> str:
    """Reduce a name to what it looks like: equal skeletons are names that a reader takes for one another."""
    plain = "".join(
        char for char in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(char)
    )
    plain = plain.casefold().translate(_LOOKS_LIKE)
    for pair, one in _RUNS_TOGETHER:
        plain = plain.replace(pair, one)
    return plain


def scripts(name: str) -> tuple[str, ...]:
    """List the scripts of the letters of a name, sorted; letters of other scripts count as OTHER."""
    found = set()
    for char in name:
        if char.isalpha():
            first = unicodedata.name(char, "").partition(" ")[0]
            found.add(first if first in _SCRIPTS else "OTHER")
    return tuple(sorted(found))


def is_mixed(name: str) -> bool:
    """Return whether a name has Latin letters beside letters that imitate them, of another script."""
    found = scripts(name)
    return "LATIN" in found and any(script in _SCRIPTS for script in found if script != "LATIN")


def edits_within(first: str, second: str, most: int) -> bool:
    """Return whether at most `most` insertions, deletions, replacements or swaps lie between two names."""
    if abs(len(first) - len(second)) > most:
        return False
    before: list[int] = []
    row = list(range(len(second) + 1))
    for at, char in enumerate(first, 1):
        earlier, before, row = before, row, [at]
        for place, other in enumerate(second, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (char != other))
            if at > 1 and place > 1 and (char, first[at - 2]) == (second[place - 2], other):
                cost = min(cost, earlier[place - 2] + 1)
            row.append(cost)
        if min(*row, *before) > most:
            return False
    return row[-1] <= most


def compare(name: str, other: str) -> Why | None:
    """Return why `name` is taken for `other`; None if it is not, or if it is the same name.

    Names that differ in digits alone, as numbered ones do, are told apart by readers.
    """
    if name == other or max(len(name), len(other)) > MAX_NAME_CHARS:
        return None
    seen, seen_other = skeleton(name), skeleton(other)
    if seen == seen_other:
        return Why.LOOKS_THE_SAME
    shorter = min(len(seen), len(seen_other))
    if shorter < MIN_EDITED_CHARS or _letters(name) == _letters(other):
        return None
    most = 2 if shorter >= LONG_NAME_CHARS else 1
    return Why.FEW_EDITS if edits_within(seen, seen_other, most) else None


def find(name: str, known: Mapping[str, int]) -> list[Lookalike]:
    """List the often used names that `name` can be taken for, at most `MOST_FOUND`; the likest first.

    `known` says how often each name was used. A name that is used often itself is taken for none.
    """
    if known.get(name, 0) >= OFTEN:
        return []
    found = [
        Lookalike(name=other, uses=uses, why=why)
        for other, uses in known.items()
        if uses >= OFTEN and (why := compare(name, other)) is not None
    ]
    return sorted(found, key=lambda item: (item.why is Why.FEW_EDITS, -item.uses, item.name))[:MOST_FOUND]


def _letters(name: str) -> str:
    return "".join(char for char in name.casefold() if not char.isdigit())
