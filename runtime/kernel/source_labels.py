"""The labels that an agent has: what it gets, until when, and which rules they break (DARE, source_labels).

A label says what may have steered the agent: text of a web page, a user's words, a secret. It only restricts.
"""

from collections.abc import Iterable, Iterator, Mapping

from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.source_labels import LabelRule

# What an agent says of itself cannot crowd its entries; labels of what it receives have no bound.
MOST_CLAIMED = 20

# Labels with the moment at which they end, in Unix milliseconds; None where only a person ends them.
Held = Mapping[str, int | None]


def held_at(held: Held, now_ms: int) -> dict[str, int | None]:
    """Those that have not ended, in order."""
    return {label: end for label, end in sorted(held.items()) if end is None or now_ms < end}


def gain(
    held: Held, gained: Iterable[str], *, ends_after_s: Mapping[str, int], now_ms: int
) -> dict[str, int | None]:
    """The labels after some were gained. No gain makes one end earlier."""
    after = held_at(held, now_ms)
    for label in gained:
        lasts = ends_after_s.get(label)
        ends = None if lasts is None else now_ms + lasts * 1000
        known = after.get(label, 0)
        after[label] = None if ends is None or known is None else max(known, ends)
    return dict(sorted(after.items()))


def claimed(held: Held, said: Iterable[str], *, now_ms: int) -> tuple[str, ...]:
    """Which of the labels that an agent says it has are taken: while it has few, all."""
    has = held_at(held, now_ms)
    room = max(0, MOST_CLAIMED - len(has))
    new = [label for label in dict.fromkeys(said) if label not in has][:room]
    return tuple(label for label in dict.fromkeys(said) if label in has or label in new)


def list_broken(
    rules: Iterable[LabelRule], *, kind: KindDocument, held: Iterable[str]
) -> Iterator[tuple[LabelRule, tuple[str, ...]]]:
    """The rules that a proposal of `kind` breaks, each with the labels that it is broken by."""
    has = set(held)
    for rule in rules:
        applies = kind.kind in rule.kinds if rule.kinds else kind.has_effect
        broken_by = tuple(sorted(has.intersection(rule.after)))
        if applies and broken_by:
            yield rule, broken_by
