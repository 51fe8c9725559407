"""Orchestration risk (DARE): a score of 0 to 100 from what was counted of an agent, and what follows.

Whole numbers only, and monotone: more of a signal never lowers the score, and a higher score never gives a
higher level. Nothing here raises a level: that is for people.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from runtime.contracts.autonomy import AutonomyRule
from runtime.contracts.states import AutonomyLevel, Choice

HIGHEST = 100


class Signal(Choice):
    """What is counted, in the order in which it is shown."""

    REJECTIONS = "rejections"
    VARIATIONS = "variations"
    UNGRANTED_KINDS = "ungranted_kinds"
    DEVIATIONS = "deviations"
    OPEN_ESCALATIONS = "open_escalations"
    LABELS = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What was counted of one agent in a window.

    `rejections` are rejected proposals that cost an attempt; `variations` those of them that came after
    another one of the same kind and subjects; `ungranted_kinds` the different kinds among them that the
    active manifest does not grant. `deviations` are executions that differed from what was expected, and
    steps that the workflow refused. `labels` is how many results had a label.
    """

    rejections: int = 0
    variations: int = 0
    ungranted_kinds: int = 0
    deviations: int = 0
    open_escalations: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one signal adds to the score."""

    signal: Signal
    count: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score, its parts (all signals, in their order), and the level that it leads to."""

    total: int
    parts: tuple[Part, ...]
    level: AutonomyLevel


def score(signals: Signals, rule: AutonomyRule) -> Score:
    """The score of what was counted, by a rule."""
    weights = {
        Signal.REJECTIONS: (signals.rejections, rule.rejections),
        Signal.VARIATIONS: (signals.variations, rule.variations),
        Signal.UNGRANTED_KINDS: (signals.ungranted_kinds, rule.ungranted_kinds),
        Signal.DEVIATIONS: (signals.deviations, rule.deviations),
        Signal.OPEN_ESCALATIONS: (signals.open_escalations, rule.open_escalations),
    }
    parts = [
        Part(signal=signal, count=count, points=min(weight.most, weight.points * count))
        for signal, (count, weight) in weights.items()
    ]
    weighed = {label: count for label, count in signals.labels.items() if label in rule.labels.points}
    points = sum(rule.labels.points[label] * count for label, count in weighed.items())
    parts.append(
        Part(signal=Signal.LABELS, count=sum(weighed.values()), points=min(rule.labels.most, points))
    )
    total = min(HIGHEST, sum(part.points for part in parts))
    return Score(total=total, parts=tuple(parts), level=level_of(total, rule))


def level_of(total: int, rule: AutonomyRule) -> AutonomyLevel:
    """The level that a score leads to."""
    if total >= rule.read_only_at:
        return AutonomyLevel.READ_ONLY
    if total >= rule.supervised_at:
        return AutonomyLevel.SUPERVISED
    return AutonomyLevel.AUTONOMOUS


def is_lower(level: AutonomyLevel, than: AutonomyLevel) -> bool:
    """Whether a level allows less than another."""
    return level.rank > than.rank


def count_tries(tries: Iterable[tuple[str, str]], *, granted: Collection[str] | None) -> tuple[int, int, int]:
    """Rejections, variations and ungranted kinds of rejected tries, each its kind and retry key.

    The retry key is that of the kind and its subjects: tries with the same key differ in little. `granted`
    are the kinds of the active manifest; without one (None) no kind counts as not granted.
    """
    kinds, keys = Counter[str](), Counter[str]()
    for kind, key in tries:
        kinds[kind] += 1
        keys[key] += 1
    variations = sum(count - 1 for count in keys.values())
    ungranted = 0 if granted is None else len(kinds.keys() - set(granted))
    return sum(keys.values()), variations, ungranted
