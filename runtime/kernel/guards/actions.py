"""Does the text speak of the proposed action, of its opposite, or deny it?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runtime.contracts.guard import FindingCode
from runtime.kernel.guards import opposites, words
from runtime.kernel.guards.leaves import Leaf
from runtime.kernel.guards.opposites import Meaning
from runtime.kernel.guards.words import Token

MAX_PARTS = 6
_REACH = 3  # words before an action in which a negation reaches it

Side = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Mention:
    """An action word in the text; `is_denied` where an odd number of negations reaches it."""

    meaning: Meaning
    shown: str
    is_denied: bool

    @property
    def side(self) -> Side:
        """The row and the side that the word stands for."""
        return self.meaning.row, self.meaning.side


def is_action(word: str) -> bool:
    """Whether a word in small letters names an action of the table."""
    return word in opposites.MEANINGS


def of_value(value: str) -> set[Side]:
    """The actions that a parameter's value names; none of a row of which it names both sides."""
    parts = words.parts(value)
    if len(parts) > MAX_PARTS:
        return set()
    pairs = (f"{one} {two}" for one, two in pairwise(parts))
    known = [opposites.MEANINGS[word] for word in (*parts, *pairs) if word in opposites.MEANINGS]
    sides = {(meaning.row, meaning.side) for meaning in known}
    return {(row, side) for row, side in sides if (row, 1 - side) not in sides}


def contradictions(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> Iterator[tuple[FindingCode, str]]:
    """For each action that the parameters name, what in the text speaks against it."""
    said = _mentions(tokens)
    for leaf in leaves:
        if isinstance(leaf.value, str):
            for side in sorted(of_value(leaf.value)):
                found = _against(side, said)
                if found is not None:
                    code, mention = found
                    yield code, _sentence(code, mention.shown, leaf.value)


def _mentions(tokens: Sequence[Token]) -> list[Mention]:
    found = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        pair = f"{token.word} {following.word}" if following and following.clause == token.clause else ""
        meaning = opposites.MEANINGS.get(pair) or opposites.MEANINGS.get(token.word)
        if meaning is not None:
            shown = pair if pair in opposites.MEANINGS else token.word
            found.append(Mention(meaning, shown, _is_denied(tokens, at)))
    return found


def _is_denied(tokens: Sequence[Token], at: int) -> bool:
    before = [one.word for one in tokens[max(0, at - _REACH) : at] if one.clause == tokens[at].clause]
    pairs = list(pairwise([*before, tokens[at].word]))
    denials = sum(
        word in opposites.NEGATIONS and following not in opposites.SOFTENING for word, following in pairs
    )
    return (denials + sum(pair in opposites.NEGATING_PAIRS for pair in pairs)) % 2 == 1


def _against(own: Side, said: Sequence[Mention]) -> tuple[FindingCode, Mention] | None:
    """The strongest thing said against `own`; None where the text affirms it somewhere."""
    affirmed = [mention for mention in said if not mention.is_denied]
    if any(mention.side == own for mention in affirmed):
        return None
    row, side = own
    opposed = [mention for mention in affirmed if mention.side == (row, 1 - side)]
    plain = next((mention for mention in opposed if not mention.meaning.is_weak), None)
    denied = next((mention for mention in said if mention.is_denied and mention.side == own), None)
    if plain is not None:
        return (FindingCode.ACTION_REVERSED if denied else FindingCode.ACTION_OPPOSED), plain
    if denied is not None:
        return FindingCode.ACTION_NEGATED, denied
    beside = [mention for mention in affirmed if mention.side == opposites.NEIGHBOURS.get(own)]
    doubtful = next(iter([*opposed, *beside]), None)
    return None if doubtful is None else (FindingCode.ACTION_DOUBTFUL, doubtful)


def _sentence(code: FindingCode, said: str, value: str) -> str:
    if code is FindingCode.ACTION_NEGATED:
        return f"The explanation speaks against “{said}”, and {value} is proposed."
    return f"The explanation speaks of “{said}”, and {value} is proposed."
