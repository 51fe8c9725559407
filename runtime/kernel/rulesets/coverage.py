"""Which rules of a table overlap, which never fire, and which inputs no rule covers.

Decided over the segments of its columns (`tables.Column`), so for every value there is. A rule with a cell in
CEL is left out of every proof: it may match less than its other cells say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from runtime.contracts.ruleset import HitPolicy
from runtime.kernel.rulesets import evaluate
from runtime.kernel.rulesets.tables import Column, Table

# A proof looks at so many parts of the space of inputs; where these are not enough, it stays open.
MAX_PARTS = 20_000


@dataclass(frozen=True, slots=True)
class TableFinding:
    """One finding; `rule` is the position of the rule that it is about, or None for the whole table."""

    code: str
    message: str
    rule: int | None = None
    is_warning: bool = True


class _TooManyPartsError(Exception):
    """The proof would take too long."""


def inspect(table: Table, *, most: int) -> Iterator[TableFinding]:
    """What is to be said of a compiled table; at most `most` findings of each sort."""
    asked = _asked(table)
    regions = [_region(table, rule) for rule in range(len(table.source.rules))]
    never = [rule for rule, region in enumerate(regions) if not all(region)]
    yield from islice((_unreachable(table, rule, "its cells exclude each other") for rule in never), most)
    left = [rule for rule in range(len(regions)) if rule not in never]
    yield from islice(_overlaps(table, regions, [rule for rule in left if not asked >> rule & 1]), most)
    yield from islice(_covered_rules(table, regions, left, asked), most)
    yield from _gap(table, left)
    if asked:
        said = f"{asked.bit_count()} of its rules have cells in CEL: whether they overlap is not known"
        yield TableFinding("NOT_KNOWN", said, is_warning=False)


def _asked(table: Table) -> int:
    """The rules with a cell in CEL, as bits."""
    found = 0
    for column in table.columns:
        for rule, _ in column.asked:
            found |= 1 << rule
    return found


def _region(table: Table, rule: int) -> list[int]:
    """Of each column the segments with a value that the rule allows, as bits."""
    return [
        sum(1 << at for at in _segments(column) if column.segments[at] >> rule & 1)
        for column in table.columns
    ]


def _segments(column: Column) -> Sequence[int]:
    """The segments of a column in which there is a value."""
    return [at for at in range(len(column.segments)) if column.sample(at) is not None]


def _unreachable(table: Table, rule: int, why: str) -> TableFinding:
    return TableFinding("UNREACHABLE", f"{table.source.rules[rule].id} can never fire: {why}", rule)


def _overlaps(table: Table, regions: list[list[int]], rules: list[int]) -> Iterator[TableFinding]:
    """Pairs that contradict the hit policy where both match."""
    source = table.source
    if source.hit not in (HitPolicy.UNIQUE, HitPolicy.ANY):
        return
    for one, other in combinations(rules, 2):
        first, second = source.rules[one], source.rules[other]
        if source.hit is HitPolicy.ANY and evaluate.is_same(first.then, second.then):
            continue
        if all(mine & theirs for mine, theirs in zip(regions[one], regions[other], strict=True)):
            said = f"{first.id} and {second.id} can both match, and the hit policy is {source.hit}"
            yield TableFinding("OVERLAP", said, other)


def _covered_rules(
    table: Table, regions: list[list[int]], rules: list[int], asked: int
) -> Iterator[TableFinding]:
    """Rules that others always come before."""
    for rule in rules:
        before = _before(table, rule) & ~asked
        if asked >> rule & 1 or not before:
            continue
        try:
            is_covered = _uncovered(table.columns, regions[rule], before) is None
        except _TooManyPartsError:
            continue
        if is_covered:
            yield _unreachable(table, rule, "rules that count before it match wherever it does")


def _before(table: Table, rule: int) -> int:
    """The rules that count instead of this one where both match, as bits."""
    source = table.source
    if source.hit is HitPolicy.FIRST:
        return (1 << rule) - 1
    if source.hit is not HitPolicy.PRIORITY:
        return 0
    ranks = {action: at for at, action in enumerate(source.output_values)}
    # An action that is not among the values is an error of its own; here it comes last.
    rank = [ranks.get(one.then.action, len(ranks)) for one in source.rules]
    return sum(1 << other for other in range(len(rank)) if (rank[other], other) < (rank[rule], rule))


def _gap(table: Table, rules: list[int]) -> Iterator[TableFinding]:
    """One example of inputs that no rule matches."""
    everything = [sum(1 << at for at in _segments(column)) for column in table.columns]
    # A rule with CEL may match there: only what lies outside its other cells too is surely a gap.
    possible = sum(1 << rule for rule in rules)
    try:
        found = _uncovered(table.columns, everything, possible)
    except _TooManyPartsError:
        yield TableFinding("NOT_KNOWN", "whether some inputs have no rule is not known", is_warning=False)
        return
    if found is not None:
        shown = ", ".join(
            f"{column.feature} {column.sample(segment)!r}"
            for column, segment in zip(table.columns, found, strict=False)
        )
        yield TableFinding("GAP", f"no rule matches for example {shown}", is_warning=False)


def _uncovered(columns: Sequence[Column], region: Sequence[int], rules: int) -> list[int] | None:
    """Segments of the first columns within `region` where none of `rules` can match; None if there are none.

    Raises:
        _TooManyPartsError: after MAX_PARTS parts.
    """
    seen: set[tuple[int, int]] = set()

    def look(at: int, left: int) -> list[int] | None:
        if not left:
            return []
        if at == len(columns) or (at, left) in seen:
            return None
        seen.add((at, left))
        if len(seen) > MAX_PARTS:
            raise _TooManyPartsError
        for segment in range(len(columns[at].segments)):
            if region[at] >> segment & 1:
                below = look(at + 1, left & columns[at].segments[segment])
                if below is not None:
                    return [segment, *below]
        return None

    return look(0, rules)
