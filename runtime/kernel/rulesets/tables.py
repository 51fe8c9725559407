"""Decision tables, compiled: which rules match is a lookup in each column; those that all of them leave.

The values of a column fall into segments, within which every cell gives one answer: for numbers the points
that cells name and the stretches between them, for texts and truths the values that are named and all
others. Each segment has the set of rules that it allows, as bits.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runtime.contracts.ruleset import DecisionTable, FeatureType, RulesetDocument
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError
from runtime.kernel.rulesets import cells
from runtime.kernel.rulesets.cells import Test, Value

NUMERIC = frozenset({FeatureType.INTEGER, FeatureType.NUMBER})


class CellFailedError(Exception):
    """A cell in CEL gave no answer: the rule it is in, and why, in words that never change."""

    def __init__(self, rule: int, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


@dataclass(frozen=True, slots=True)
class Column:
    """One input with the rules that each of its segments allows, as bits by the position of the rule.

    Of n `points`, segment 2i is the stretch below point i, 2i + 1 the point itself, and 2n what is above all.
    Of texts and truths, segment i is the i-th named value and the last one every other.
    """

    feature: str
    type: FeatureType
    points: tuple[Value, ...]
    segments: tuple[int, ...]
    asked: tuple[tuple[int, str], ...]

    def allowed(self, value: Any) -> int:
        """The rules whose cell allows `value`, or whose cell still has to be asked."""
        if self.type in NUMERIC:
            at = bisect_left(self.points, value)
            is_point = at < len(self.points) and self.points[at] == value
            return self.segments[2 * at + is_point]
        return self.segments[self.points.index(value) if value in self.points else len(self.points)]

    def sample(self, segment: int) -> Value | None:
        """A value in a segment; None where it has none, as between two neighbouring integers."""
        if self.type not in NUMERIC:
            return self._other() if segment == len(self.points) else self.points[segment]
        at, is_point = divmod(segment, 2)
        if is_point:
            point: Value = self.points[at]
            return None if self.type is FeatureType.INTEGER and point != int(point) else point
        low = self.points[at - 1] if at else None
        high = self.points[at] if at < len(self.points) else None
        return _between(low, high, is_whole=self.type is FeatureType.INTEGER)

    def _other(self) -> Value | None:
        if self.type is FeatureType.BOOLEAN:
            return next((truth for truth in (False, True) if truth not in self.points), None)
        name = "other"
        while name in self.points:
            name += "_"
        return name


@dataclass(frozen=True, slots=True)
class Table:
    """A compiled table; `specificity` is how many cells of each rule are more than `-`."""

    source: DecisionTable
    columns: tuple[Column, ...]
    specificity: tuple[int, ...]

    def missing(self, features: Mapping[str, Any]) -> tuple[str, ...]:
        """The inputs that have no value: the table answers nothing without them."""
        return tuple(column.feature for column in self.columns if column.feature not in features)

    def matching(self, features: Mapping[str, Any]) -> tuple[int, ...]:
        """The positions of the rules that match, in their order; every input has a value of its type.

        Raises:
            CellFailedError: where a cell in CEL gives neither true nor false.
        """
        left = (1 << len(self.source.rules)) - 1
        for column in self.columns:
            left &= column.allowed(features[column.feature])
            if not left:
                return ()
        for column in self.columns:
            names = language.Names({"features": dict(features), cells.INPUT: features[column.feature]})
            for rule, expression in column.asked:
                if left >> rule & 1 and not _ask(rule, expression, names):
                    left &= ~(1 << rule)
        return tuple(at for at in range(len(self.source.rules)) if left >> at & 1)


def compiled(ruleset: RulesetDocument) -> tuple[Table, ...]:
    """The tables of a ruleset that the linter accepts, made once for the same bytes.

    Raises:
        cells.CellError: for a ruleset with a cell that cannot be read.
    """
    return _of_body(ruleset.to_bytes())


@lru_cache(maxsize=128)
def _of_body(body: bytes) -> tuple[Table, ...]:
    ruleset = RulesetDocument.from_bytes(body)
    return tuple(compile_table(table, ruleset) for table in ruleset.tables)


def compile_table(table: DecisionTable, ruleset: RulesetDocument) -> Table:
    """One table, whose rules have a cell for each input, and whose inputs are features.

    Raises:
        cells.CellError: where a cell cannot be read.
    """
    types = [ruleset.features[name].type for name in table.inputs]
    rows = [
        [cells.parse(cell, kind) for cell, kind in zip(rule.when, types, strict=True)] for rule in table.rules
    ]
    columns = tuple(
        _column(name, kind, [row[at] for row in rows])
        for at, (name, kind) in enumerate(zip(table.inputs, types, strict=True))
    )
    specificity = tuple(sum(not test.is_anything for test in row) for row in rows)
    return Table(source=table, columns=columns, specificity=specificity)


def _column(feature: str, kind: FeatureType, tests: list[Test]) -> Column:
    named: set[Value] = {value for test in tests for value in test.values}
    for test in tests:
        for interval in test.intervals:
            named |= {bound for bound in (interval.low, interval.high) if bound is not None}
    points: tuple[Value, ...] = tuple(sorted(named, key=lambda value: (isinstance(value, str), value)))
    segments = []
    for segment in range(2 * len(points) + 1 if kind in NUMERIC else len(points) + 1):
        if kind in NUMERIC:
            at, is_point = divmod(segment, 2)
            low = points[at - 1] if at else None
            high = points[at] if at < len(points) else None
            inside = points[at] if is_point else _between(low, high, is_whole=False)
        else:
            inside = points[segment] if segment < len(points) else None
        # Of texts and truths, None stands for a value that no cell names.
        segments.append(sum(1 << rule for rule, test in enumerate(tests) if _allows(test, inside)))
    asked = tuple((rule, test.expression) for rule, test in enumerate(tests) if test.expression)
    return Column(feature, kind, points, tuple(segments), asked)


def _allows(test: Test, value: Value | None) -> bool:
    if test.expression:
        return True
    return test.is_anything or test.is_negated if value is None else test.holds(value)


def _between(low: Any, high: Any, *, is_whole: bool) -> int | float | None:
    """A number strictly between two bounds, of which None is no bound; a whole one if asked."""
    if low is None or high is None:
        base: Any = (0 if high is None else high) if low is None else low
        away = abs(base) // 8 + 1
        return int(base // 1 + (away if high is None else -away))
    if is_whole:
        whole = int(low // 1 + 1)
        return whole if whole < high else None
    middle: int | float = (low + high) / 2
    return middle


def _ask(rule: int, expression: str, names: language.Names) -> bool:
    try:
        return language.require(expression, names)
    except ExpressionError as error:
        raise CellFailedError(rule, error.message) from error
