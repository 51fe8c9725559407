"""What differs between two versions of a document, and which way: tightened or loosened.

Documents are plain JSON. Which way a field tightens is data: a table of rules, the first that fits a path
wins. A field without a rule is ADDED, REMOVED or CHANGED. A member that is null reads like one that is not
there, so that a field appended to a contract since is no difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from audit import canonical

Path = tuple[str, ...]


class Change(StrEnum):
    """What happened to one place of a document.

    GRANTED, WITHDRAWN and UNKNOWN are for names that a document lists: given, taken back, of nothing known.
    """

    ADDED = "ADDED"
    REMOVED = "REMOVED"
    TIGHTENED = "TIGHTENED"
    LOOSENED = "LOOSENED"
    CHANGED = "CHANGED"
    GRANTED = "GRANTED"
    WITHDRAWN = "WITHDRAWN"
    UNKNOWN = "UNKNOWN"


class Tighter(StrEnum):
    """Which way a field tightens: by its number, or by what its list grants; UNKNOWN says nothing."""

    LOWER = "LOWER"
    HIGHER = "HIGHER"
    FEWER = "FEWER"
    MORE = "MORE"
    UNKNOWN = "UNKNOWN"
    SKIPPED = "SKIPPED"


class MissingMeans(StrEnum):
    """What a field means while it is not there: no bound at all, nothing granted, or neither."""

    OPEN = "OPEN"
    SHUT = "SHUT"
    NEUTRAL = "NEUTRAL"


@dataclass(frozen=True, kw_only=True)
class DiffRule:
    """How to read the fields that `path` names.

    `path` is dotted; a segment `*` fits any name, `min_*` any that begins so. `meaning` gives the number or
    the set that a word or a boolean stands for. `keyed_by` names the member that tells the objects of a list
    apart: they are then compared member by member, under `path.<key>`. With `prefixes`, an element that ends
    in a dot covers every element that begins with it. With `empty_is_absent`, an empty list is like none.
    """

    path: str
    tighter: Tighter
    absent: MissingMeans = MissingMeans.NEUTRAL
    meaning: Mapping[str | bool, Decimal | frozenset[str]] = field(default_factory=dict)
    keyed_by: str = ""
    prefixes: bool = False
    empty_is_absent: bool = False


@dataclass(frozen=True, kw_only=True)
class VersionDifference:
    """One place that differs; `before` and `after` are JSON values, None where there was nothing.

    Of a list that grants or forbids by its elements there is one difference per element.
    """

    path: str
    change: Change
    before: Any
    after: Any


_PLAIN = DiffRule(path="", tighter=Tighter.UNKNOWN)
_SWAPPED = {
    Change.ADDED: Change.REMOVED,
    Change.REMOVED: Change.ADDED,
    Change.TIGHTENED: Change.LOOSENED,
    Change.LOOSENED: Change.TIGHTENED,
    Change.CHANGED: Change.CHANGED,
}


def diff(
    before: Mapping[str, Any], after: Mapping[str, Any], rules: Sequence[DiffRule]
) -> tuple[VersionDifference, ...]:
    """Every place that differs, ordered by path.

    Equal documents give none; swapped documents give the same places with the opposite change.
    """
    return _Differ(tuple(rules)).of_objects((), before, after)


def ranks(*words: str) -> dict[str | bool, Decimal | frozenset[str]]:
    """The `meaning` of words in a row: the first is the lowest."""
    return {word: Decimal(at) for at, word in enumerate(words)}


@dataclass(frozen=True)
class _Differ:
    rules: tuple[DiffRule, ...]

    def of_objects(
        self, path: Path, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> tuple[VersionDifference, ...]:
        names = sorted({*before, *after})
        places = (self._of_values((*path, name), before.get(name), after.get(name)) for name in names)
        return tuple(found for place in places for found in place)

    def _of_values(self, path: Path, before: Any, after: Any) -> tuple[VersionDifference, ...]:
        rule = next((rule for rule in self.rules if _segments_after(path, rule) == 0), _PLAIN)
        if rule.empty_is_absent:
            before, after = before or None, after or None
        if rule.tighter is Tighter.SKIPPED or _key(before) == _key(after):
            return ()
        # Two objects are compared member by member; one alone only where a rule speaks of its members.
        are_objects = [isinstance(value, Mapping) for value in (before, after)]
        is_alone = any(are_objects) and (before is None or after is None)
        if all(are_objects) or (is_alone and any(_segments_after(path, one) for one in self.rules)):
            return self.of_objects(path, before or {}, after or {})
        if rule.keyed_by and _is_list(before) and _is_list(after):
            return self._of_keyed(path, rule, before, after)
        if rule.tighter in (Tighter.FEWER, Tighter.MORE) and _is_list(before) and _is_list(after):
            return _of_elements(path, rule, before, after)
        return (_difference(path, _change(rule, before, after), before, after),)

    def _of_keyed(
        self, path: Path, rule: DiffRule, before: Sequence[Any], after: Sequence[Any]
    ) -> tuple[VersionDifference, ...]:
        old, new = _by_key(before, rule.keyed_by), _by_key(after, rule.keyed_by)
        found: list[VersionDifference] = []
        for key in sorted({*old, *new}):
            place = (*path, key)
            if key in old and key in new:
                found.extend(self._of_values(place, old[key], new[key]))
            else:
                change = _one_sided(rule, arrives=key in new)
                found.append(_difference(place, change, old.get(key), new.get(key)))
        if not found and list(old) != list(new):
            return (_difference(path, Change.CHANGED, before, after),)
        return tuple(found)


def _of_elements(
    path: Path, rule: DiffRule, before: Sequence[Any], after: Sequence[Any]
) -> tuple[VersionDifference, ...]:
    """One difference per element that came or went; where only order or number differs, one for the list."""
    old, new = {_key(item): item for item in before}, {_key(item): item for item in after}
    found = []
    for key in sorted(old.keys() ^ new.keys()):
        arrives = key in new
        item, others = (new[key], before) if arrives else (old[key], after)
        change = _one_sided(rule, arrives=arrives)
        listed = others if rule.prefixes else ()
        wide = tuple(other for other in listed if isinstance(other, str) and other.endswith("."))
        if isinstance(item, str) and item.startswith(wide):
            change = Change.ADDED if arrives else Change.REMOVED
        found.append(_difference(path, change, None if arrives else item, item if arrives else None))
    return tuple(found) or (_difference(path, Change.CHANGED, before, after),)


def _one_sided(rule: DiffRule, *, arrives: bool) -> Change:
    """The change when an element of a list arrives; the opposite when it goes."""
    change = {Tighter.FEWER: Change.LOOSENED, Tighter.MORE: Change.TIGHTENED}.get(rule.tighter, Change.ADDED)
    return change if arrives else _SWAPPED[change]


def _change(rule: DiffRule, before: Any, after: Any) -> Change:
    if before is None or after is None:
        set_now = {MissingMeans.OPEN: Change.TIGHTENED, MissingMeans.SHUT: Change.LOOSENED}.get(
            rule.absent, Change.ADDED
        )
        return set_now if before is None else _SWAPPED[set_now]
    old, new = _measure(rule, before), _measure(rule, after)
    down, up = _order(old, new)
    if not (down or up):
        return Change.CHANGED
    match rule.tighter:
        case Tighter.LOWER | Tighter.FEWER:
            return Change.TIGHTENED if down else Change.LOOSENED
        case Tighter.HIGHER | Tighter.MORE:
            return Change.TIGHTENED if up else Change.LOOSENED
        case _:
            return Change.CHANGED


def _order(old: Decimal | frozenset[str] | None, new: Decimal | frozenset[str] | None) -> tuple[bool, bool]:
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new < old, new > old
    if isinstance(old, frozenset) and isinstance(new, frozenset):
        return new < old, new > old
    return False, False


def _measure(rule: DiffRule, value: Any) -> Decimal | frozenset[str] | None:
    """What a value weighs: by the rule's table, or as a number; None where it cannot be weighed."""
    if rule.meaning:
        return rule.meaning.get(value) if isinstance(value, str | bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _by_key(items: Sequence[Any], name: str) -> dict[str, Any]:
    """Objects by their key; a second one of the same key is told apart by its place among them."""
    made: dict[str, Any] = {}
    for item in items:
        key = str(item.get(name, "")) if isinstance(item, Mapping) else _key(item)
        at = 1
        while (unique := key if at == 1 else f"{key}#{at}") in made:
            at += 1
        made[unique] = item
    return made


def _segments_after(path: Path, rule: DiffRule) -> int | None:
    """How many segments a rule's path has after `path`; None where it leads elsewhere."""
    segments = rule.path.split(".")
    leads_there = len(segments) >= len(path) and all(
        name.startswith(segment[:-1]) if segment.endswith("*") else name == segment
        for segment, name in zip(segments, path, strict=False)
    )
    return len(segments) - len(path) if leads_there else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _key(value: Any) -> str:
    return canonical.encode(value).decode()


def _difference(path: Path, change: Change, before: Any, after: Any) -> VersionDifference:
    return VersionDifference(path=".".join(path), change=change, before=before, after=after)
