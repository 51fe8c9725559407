"""What is wrong with a ruleset before it is stored, and what its author should know.

Overlaps, gaps and rules that never fire are decided for cells: for a cell in CEL the answer is that it is not
known, never that a rule cannot fire.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit import canonical
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.ruleset import (
    MAX_TEXT_CHARS,
    Aggregate,
    CedarRequest,
    DecisionTable,
    FeatureType,
    HitPolicy,
    ProposedAction,
    RulesetDocument,
)
from runtime.kernel.rules import linter, scope
from runtime.kernel.rules.language import ExpressionError, compile_expression
from runtime.kernel.rulesets import cedar, cells, coverage, evaluate, tables
from runtime.kernel.rulesets.cells import CellError

Place = tuple[str | int, ...]

# Nanoseconds at worst, of one expression and of all of a ruleset: it is evaluated with the flow locked.
MAX_WORK = 2_000_000
MAX_TOTAL_WORK = 50_000_000
MAX_SHOWN = 20


class LintCode(StrEnum):
    """What is wrong, in one word."""

    BAD_CELL = "BAD_CELL"
    BAD_EXPRESSION = "BAD_EXPRESSION"
    BAD_OUTPUT = "BAD_OUTPUT"
    DUPLICATE_ID = "DUPLICATE_ID"
    GAP = "GAP"
    NOT_KNOWN = "NOT_KNOWN"
    OTHER_ENGINE = "OTHER_ENGINE"
    OVERLAP = "OVERLAP"
    TOO_SLOW = "TOO_SLOW"
    UNDECIDED_ASPECT = "UNDECIDED_ASPECT"
    UNKNOWN_ASPECT = "UNKNOWN_ASPECT"
    UNKNOWN_FEATURE = "UNKNOWN_FEATURE"
    UNREACHABLE = "UNREACHABLE"
    WRONG_WIDTH = "WRONG_WIDTH"


@dataclass(frozen=True, slots=True)
class RulesetFinding:
    """One finding: its place in the document, and a plain sentence."""

    code: LintCode
    severity: LintSeverity
    place: Place
    message: str

    @property
    def where(self) -> str:
        """The place as people write it: `tables[0].rules[1].when[0]`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place)
        return "".join(steps).removeprefix(".")


def lint(ruleset: RulesetDocument) -> tuple[RulesetFinding, ...]:
    """Everything to be said of a ruleset, in the order of its fields; one without errors may be stored."""
    return (
        *_features(ruleset),
        *_ids(ruleset),
        *_aspects(ruleset),
        *_params(ruleset),
        *(
            finding
            for at, table in enumerate(ruleset.tables)
            for finding in _table(ruleset, table, ("tables", at))
        ),
        *_expressions(ruleset),
        *_policies(ruleset),
    )


def errors(ruleset: RulesetDocument) -> tuple[RulesetFinding, ...]:
    """What keeps a ruleset from being stored."""
    return tuple(finding for finding in lint(ruleset) if finding.severity is LintSeverity.ERROR)


def _error(code: LintCode, place: Place, message: str) -> RulesetFinding:
    return RulesetFinding(code, LintSeverity.ERROR, place, message)


def _features(ruleset: RulesetDocument) -> Iterator[RulesetFinding]:
    for name, feature in ruleset.features.items():
        if feature.value is None:
            continue
        # What it costs, and which fields there are, is known of the kind that names the ruleset.
        try:
            compiled = compile_expression(feature.value)
            unknown = compiled.names - compiled.bound_names - scope.JUDGED
            said = f"the names {', '.join(sorted(unknown))} are not known here" if unknown else ""
        except ExpressionError as error:
            said = error.message
        if said:
            yield _error(LintCode.BAD_EXPRESSION, ("features", name, "value"), said)


def _ids(ruleset: RulesetDocument) -> Iterator[RulesetFinding]:
    named: list[tuple[Place, str]] = [
        (("tables", at, "rules", number, "id"), rule.id)
        for at, table in enumerate(ruleset.tables)
        for number, rule in enumerate(table.rules)
    ]
    named += [(("rules", at, "id"), rule.id) for at, rule in enumerate(ruleset.rules)]
    named += [(("guardrails", at, "id"), guard.id) for at, guard in enumerate(ruleset.guardrails)]
    named += [(("policies", at, "id"), policy.id) for at, policy in enumerate(ruleset.policies)]
    if ruleset.cedar_request is not None and ruleset.cedar_request.must_permit:
        named.append((("cedar_request", "must_permit"), evaluate.NO_PERMIT))
    counts = Counter(name for _, name in named)
    for place, name in named:
        if counts[name] > 1:
            yield _error(LintCode.DUPLICATE_ID, place, f"{name} is the id of {counts[name]} rules")
    names = Counter(table.table for table in ruleset.tables)
    for at, table in enumerate(ruleset.tables):
        if names[table.table] > 1:
            said = f"{table.table} is the name of {names[table.table]} tables"
            yield _error(LintCode.DUPLICATE_ID, ("tables", at, "table"), said)


def _aspects(ruleset: RulesetDocument) -> Iterator[RulesetFinding]:
    declared = ruleset.declared
    deciding: list[tuple[Place, str]] = [
        (("tables", at, "decides"), table.decides) for at, table in enumerate(ruleset.tables)
    ]
    deciding += [(("rules", at, "decides"), rule.decides) for at, rule in enumerate(ruleset.rules)]
    deciding += [(("policies", at, "decides"), policy.decides) for at, policy in enumerate(ruleset.policies)]
    for place, aspect in deciding:
        if aspect not in declared:
            yield _error(LintCode.UNKNOWN_ASPECT, place, f"{aspect} is not among the aspects")
    decided = {aspect for _, aspect in deciding}
    for at, aspect in enumerate(declared):
        if aspect not in decided:
            said = f"nothing decides {aspect}"
            yield RulesetFinding(LintCode.UNDECIDED_ASPECT, LintSeverity.WARNING, ("aspects", at), said)


def _params(ruleset: RulesetDocument) -> Iterator[RulesetFinding]:
    """Parameters that not every reader of the stored bytes has as they were written."""
    given: list[tuple[Place, ProposedAction]] = [
        (("tables", at, "rules", number, "then", "params"), rule.then)
        for at, table in enumerate(ruleset.tables)
        for number, rule in enumerate(table.rules)
    ]
    given += [(("rules", at, "then", "params"), rule.then) for at, rule in enumerate(ruleset.rules)]
    for place, then in given:
        if not _is_exact(then.params):
            said = f"a number is beyond {canonical.MAX_SAFE_INTEGER}: not every reader has it exactly"
            yield _error(LintCode.BAD_OUTPUT, place, said)


def _is_exact(value: Any) -> bool:
    """Whether all numbers in a value are within the integers that JSON holds exactly."""
    if isinstance(value, dict):
        return all(_is_exact(member) for member in value.values())
    if isinstance(value, list):
        return all(_is_exact(member) for member in value)
    return not isinstance(value, int | float) or abs(value) <= canonical.MAX_SAFE_INTEGER


def _table(ruleset: RulesetDocument, table: DecisionTable, place: Place) -> Iterator[RulesetFinding]:
    broken = [*_inputs(ruleset, table, place), *_cells(ruleset, table, place)]
    yield from broken
    yield from _outputs(table, place)
    if not broken:
        compiled = tables.compile_table(table, ruleset)
        for finding in coverage.inspect(compiled, most=MAX_SHOWN):
            severity = LintSeverity.WARNING if finding.is_warning else LintSeverity.INFO
            at = place if finding.rule is None else (*place, "rules", finding.rule)
            yield RulesetFinding(LintCode(finding.code), severity, at, finding.message)


def _inputs(ruleset: RulesetDocument, table: DecisionTable, place: Place) -> Iterator[RulesetFinding]:
    for at, name in enumerate(table.inputs):
        if name not in ruleset.features:
            yield _error(
                LintCode.UNKNOWN_FEATURE, (*place, "inputs", at), f"{name} is not among the features"
            )


def _cells(ruleset: RulesetDocument, table: DecisionTable, place: Place) -> Iterator[RulesetFinding]:
    for number, rule in enumerate(table.rules):
        at: Place = (*place, "rules", number, "when")
        if len(rule.when) != len(table.inputs):
            said = f"there are {len(rule.when)} cells for {len(table.inputs)} inputs"
            yield _error(LintCode.WRONG_WIDTH, at, said)
            continue
        for column, (name, cell) in enumerate(zip(table.inputs, rule.when, strict=True)):
            feature = ruleset.features.get(name)
            if feature is None:
                continue
            try:
                cells.parse(cell, feature.type)
            except CellError as error:
                yield _error(LintCode.BAD_CELL, (*at, column), f"{cell!r} cannot be read: {error}")


def _outputs(table: DecisionTable, place: Place) -> Iterator[RulesetFinding]:
    for number, rule in enumerate(table.rules):
        at: Place = (*place, "rules", number, "then")
        if table.hit is HitPolicy.PRIORITY and rule.then.action not in table.output_values:
            said = f"{rule.then.action} is not among the output_values"
            yield _error(LintCode.BAD_OUTPUT, (*at, "action"), said)
        if table.of is None:
            continue
        if rule.then.action != table.rules[0].then.action:
            said = f"collect: {table.aggregate} needs one action in all rules"
            yield _error(LintCode.BAD_OUTPUT, (*at, "action"), said)
        value = rule.then.params.get(table.of)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if table.aggregate is not Aggregate.COUNT and not is_number:
            said = f"collect: {table.aggregate} needs a number in params.{table.of}"
            yield _error(LintCode.BAD_OUTPUT, (*at, "params"), said)


def _expressions(ruleset: RulesetDocument) -> Iterator[RulesetFinding]:
    schemas = {"features": _schema(ruleset)}
    total = 0
    for place, source, own in _sources(ruleset):
        unknown = sorted(evaluate.features_read(source) - ruleset.features.keys())
        for name in unknown:
            yield _error(LintCode.UNKNOWN_FEATURE, place, f"{name} is not among the features")
        linted = linter.lint(
            source, names=frozenset({"features", *own}), others={**schemas, **own}, most=MAX_WORK
        )
        total += linted.work
        for sentence in linted.found if not unknown else ():
            yield _error(LintCode.BAD_EXPRESSION, place, sentence)
    if total > MAX_TOTAL_WORK:
        said = (
            f"the expressions together may take {total / 1e6:,.0f} ms, and {MAX_TOTAL_WORK / 1e6:,.0f} ms "
            "is the most: write more of them as cells"
        )
        yield _error(LintCode.TOO_SLOW, (), said)


def _policies(ruleset: RulesetDocument) -> Iterator[RulesetFinding]:
    request = ruleset.cedar_request
    if request is None:
        return
    if request.cedarpy != cedar.VERSION:
        said = (
            f"cedarpy {cedar.VERSION} is installed, and another version may answer otherwise: name this one"
        )
        yield _error(LintCode.OTHER_ENGINE, ("cedar_request", "cedarpy"), said)
    broken = [*_request(ruleset, request)]
    yield from broken
    if broken:
        return  # what a policy may read is not known
    types = {name: ruleset.features[name].type for name in request.features}
    for at, policy in enumerate(ruleset.policies):
        if said := cedar.why_unsound(policy, request, types):
            yield _error(LintCode.BAD_EXPRESSION, ("policies", at, "cedar"), said)


def _request(ruleset: RulesetDocument, request: CedarRequest) -> Iterator[RulesetFinding]:
    """What is wrong with how requests are made."""
    types = [cedar.ACTION]
    for name, entity in (("principal", request.principal), ("resource", request.resource)):
        if entity.type in types:
            said = f"{entity.type} is taken: principal, action and resource have types of their own"
            yield _error(LintCode.BAD_EXPRESSION, ("cedar_request", name, "type"), said)
        types.append(entity.type)
    named: list[tuple[Place, str]] = [(("resource", "id"), request.resource.id)]
    named += [(("principal", "attributes", at), name) for at, name in enumerate(request.principal.attributes)]
    named += [(("resource", "attributes", at), name) for at, name in enumerate(request.resource.attributes)]
    named += [(("context", at), name) for at, name in enumerate(request.context)]
    for place, name in named:
        feature = ruleset.features.get(name)
        if feature is None:
            said = f"{name} is not among the features"
            yield _error(LintCode.UNKNOWN_FEATURE, ("cedar_request", *place), said)
        elif feature.type is FeatureType.NUMBER:
            said = f"{name} may have a fraction, and numbers of Cedar have none: make it an integer"
            yield _error(LintCode.BAD_EXPRESSION, ("cedar_request", *place), said)
        elif feature.type is FeatureType.BOOLEAN and place == ("resource", "id"):
            said = f"{name} is true or false: an id is a string or an integer"
            yield _error(LintCode.BAD_EXPRESSION, ("cedar_request", *place), said)


def _sources(
    ruleset: RulesetDocument,
) -> Iterator[tuple[Place, str, Mapping[str, Mapping[str, Any]]]]:
    """Every expression over features: its place, its source, and the schemas of names of its own."""
    for at, table in enumerate(ruleset.tables):
        for number, rule in enumerate(table.rules):
            for column, (name, cell) in enumerate(zip(table.inputs, rule.when, strict=False)):
                feature = ruleset.features.get(name)
                if feature is None:
                    continue
                try:
                    source = cells.parse(cell, feature.type).expression
                except CellError:
                    continue
                if source:
                    own = {cells.INPUT: _schema_of(feature.type)}
                    yield ("tables", at, "rules", number, "when", column), source, own
    for at, one in enumerate(ruleset.rules):
        yield ("rules", at, "when"), one.when, {}
    for at, guard in enumerate(ruleset.guardrails):
        yield ("guardrails", at, "forbid"), guard.forbid, {}


def _schema(ruleset: RulesetDocument) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _schema_of(feature.type) for name, feature in ruleset.features.items()},
        "additionalProperties": False,
    }


def _schema_of(kind: FeatureType) -> dict[str, Any]:
    return {"type": str(kind), **({"maxLength": MAX_TEXT_CHARS} if kind is FeatureType.STRING else {})}
