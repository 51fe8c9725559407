"""Does the text speak of the proposed action, of its opposite, or deny it?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runtime.contracts.guard import FindingCode
from runtime.kernel.guards import antonyms, text_tokens
from runtime.kernel.guards.param_values import Leaf
from runtime.kernel.guards.text_tokens import Token

MAX_PARTS = 6
_REACH = 3  # words before an action in which a negation reaches it

Side = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Said:
    """The first word of each side that affirms it plainly, may affirm it, or is denied."""

    plain: dict[Side, str]
    weak: dict[Side, str]
    denied: dict[Side, str]

    def affirms(self, side: Side) -> str | None:
        """The word that speaks for a side, plainly or not."""
        return self.plain.get(side) or self.weak.get(side)


def is_action(word: str) -> bool:
    """Whether a word in small letters names an action of the table."""
    return word in antonyms.MEANINGS


def of_value(value: str) -> set[Side]:
    """The actions that a parameter's value names; none of a row of which it names both sides."""
    parts = text_tokens.parts(value)
    if len(parts) > MAX_PARTS:
        return set()
    pairs = (f"{one} {two}" for one, two in pairwise(parts))
    known = [antonyms.MEANINGS[word] for word in (*parts, *pairs) if word in antonyms.MEANINGS]
    sides = {(meaning.row, meaning.side) for meaning in known}
    return {(row, side) for row, side in sides if (row, 1 - side) not in sides}


def contradictions(tokens: Sequence[Token], leaves: Sequence[Leaf]) -> Iterator[tuple[FindingCode, str]]:
    """For each action that the parameters name, what in the text speaks against it."""
    said = _said(tokens)
    texts = [leaf.value for leaf in leaves if isinstance(leaf.value, str)]
    proposed = [(text, side) for text in texts for side in sorted(of_value(text))]
    for text, side in proposed:
        found = _against(side, said)
        if found is not None:
            code, word = found
            verb = "speaks against" if code is FindingCode.ACTION_NEGATED else "speaks of"
            yield code, f"The explanation {verb} “{word}”, and {text} is proposed."


def _said(tokens: Sequence[Token]) -> Said:
    """An action word is denied where an odd number of negations reaches it."""
    said = Said(plain={}, weak={}, denied={})
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        pair = f"{token.word} {following.word}" if following and following.clause == token.clause else ""
        shown = pair if pair in antonyms.MEANINGS else token.word
        meaning = antonyms.MEANINGS.get(shown)
        if meaning is None:
            continue
        before = [one.word for one in tokens[max(0, at - _REACH) : at] if one.clause == token.clause]
        pairs = list(pairwise([*before, token.word]))
        denials = sum(pair in antonyms.NEGATING_PAIRS for pair in pairs)
        denials += sum(
            word in antonyms.NEGATIONS and after not in antonyms.SOFTENING for word, after in pairs
        )
        heard = said.denied if denials % 2 else said.weak if meaning.is_weak else said.plain
        heard.setdefault((meaning.row, meaning.side), shown)
    return said


def _against(own: Side, said: Said) -> tuple[FindingCode, str] | None:
    """The strongest thing said against `own`; None where the text affirms it somewhere."""
    if said.affirms(own) is not None:
        return None
    other = (own[0], 1 - own[1])
    plain, denied = said.plain.get(other), said.denied.get(own)
    if plain is not None:
        return (FindingCode.ACTION_OPPOSED if denied is None else FindingCode.ACTION_REVERSED), plain
    if denied is not None:
        return FindingCode.ACTION_NEGATED, denied
    beside = antonyms.NEIGHBOURS.get(own)
    doubtful = said.weak.get(other) or (None if beside is None else said.affirms(beside))
    return None if doubtful is None else (FindingCode.ACTION_DOUBTFUL, doubtful)
