"""Words for actions that undo each other. A table, so that a reader can see what the guard knows.

Each side has the words that name the action itself, and those that may as well tell of something else: the
past, a state ("the market is open"), a noun ("stop loss"). The latter weigh less.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from runtime.kernel.guards import text_tokens


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a word stands for: a row of the table and one of its two sides."""

    row: str
    side: int
    is_weak: bool


# Row: ((names it, may tell of something else), the same of the other side).
_Side = tuple[str, str]
ROWS: Mapping[str, tuple[_Side, _Side]] = MappingProxyType(
    {
        "trade": (
            ("buy buys buying purchase purchases purchasing", "bought purchased"),
            ("sell sells selling divest divesting liquidate liquidating", "sold divested liquidated"),
        ),
        "size": (
            ("increase increases increasing raise raises raising enlarge enlarging", "increased raised grow"),
            ("reduce reduces reducing decrease decreases decreasing lower lowers lowering trim trims trimming"
             " shrink shrinking", "reduced decreased lowered trimmed cut cuts cutting"),
        ),
        "door": (
            ("opening reopen reopening", "open opens opened"),
            ("closing", "close closes closed"),
        ),
        "cash": (
            ("deposit deposits depositing", "deposited"),
            ("withdraw withdraws withdrawing", "withdrew withdrawn withdrawal"),
        ),
        "booking": (("credit credits crediting", "credited"), ("debit debits debiting", "debited")),
        "list": (
            ("add adds adding include includes including", "added included"),
            ("remove removes removing delete deletes deleting exclude excludes excluding drop drops dropping",
             "removed deleted excluded dropped"),
        ),
        "switch": (
            ("enable enables enabling activate activates activating", "enabled activated"),
            ("disable disables disabling deactivate deactivates deactivating", "disabled deactivated"),
        ),
        "leave": (
            ("allow allows allowing approve approves approving grant grants granting permit permits"
             " permitting accept accepts accepting", "allowed approved granted permitted accepted"),
            ("deny denies denying refuse refuses refusing revoke revokes revoking forbid forbids forbidding"
             " block blocks blocking reject rejects rejecting",
             "denied refused revoked forbidden blocked rejected"),
        ),
        "run": (
            ("begin begins beginning resume resumes resuming launch launches launching",
             "start starts starting started resumed launched"),
            ("halt halts halting pause pauses pausing terminate terminates terminating",
             "stop stops stopping stopped halted paused terminated end ends"),
        ),
        "lock": (
            ("lock locks locking freeze freezes freezing", "locked frozen"),
            ("unlock unlocks unlocking unfreeze unfreezes unfreezing", "unlocked unfrozen"),
        ),
        "rank": (
            ("promote promotes promoting upgrade upgrades upgrading", "promoted upgraded"),
            ("demote demotes demoting downgrade downgrades downgrading", "demoted downgraded"),
        ),
    }
)  # fmt: skip
# Verb forms, and the particles that turn them one way or the other.
_PHRASES = (
    ("cash", "pay pays paying paid", "in", "out"),
    ("size", "scale scales scaling scaled", "up", "down"),
    ("switch", "turn turns turning turned switch switches switching switched", "on", "off"),
)
# Buying adds to what is held and selling takes from it: telling of the other is odd, but may be meant.
NEIGHBOURS: Mapping[tuple[str, int], tuple[str, int]] = MappingProxyType(
    {
        ("trade", 0): ("size", 1),
        ("trade", 1): ("size", 0),
        ("size", 0): ("trade", 1),
        ("size", 1): ("trade", 0),
    }
)
NEGATIONS = text_tokens.bag(
    "not no never none nor neither without avoid avoids avoiding cannot can't don't doesn't didn't won't"
    " wouldn't shouldn't mustn't isn't aren't dont against hesitate hesitating fail fails failing forget"
    " refrain refraining"
)
NEGATING_PAIRS = frozenset({("rather", "than"), ("instead", "of")})
# "Not only buy" denies nothing.
SOFTENING = frozenset({"only", "just", "merely"})


def _words() -> Iterator[tuple[str, Meaning]]:
    for row, sides in ROWS.items():
        for side, (plain, weak) in enumerate(sides):
            yield from ((word, Meaning(row, side, is_weak=False)) for word in plain.split())
            yield from ((word, Meaning(row, side, is_weak=True)) for word in weak.split())
    for row, verbs, *particles in _PHRASES:
        for side, particle in enumerate(particles):
            yield from ((f"{verb} {particle}", Meaning(row, side, is_weak=False)) for verb in verbs.split())


MEANINGS: Mapping[str, Meaning] = MappingProxyType(dict(_words()))
