"""Workflow steps and a decision table beside one bare CEL evaluation: what checkers, routers and rows cost.

In one thread of one process, without a database. A step is asked with all five kinds of checkers and by four
routers, of which none matches; the table has 200 rows of four cells, and the last row matches.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import cel

from audit import canonical
from bench.judge import TURN_S, calls_per_second
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.workflow import BudgetOf, ReportedStep, WorkflowDocument, WorkflowFold
from runtime.kernel.rulesets import evaluate
from runtime.kernel.workflows import steps

ROWS: Final = 200
NOW_MS: Final = 1_767_323_045_000
_BARE = "one CEL rule alone"
_FEATURES: Final[dict[str, Any]] = {"score": 700, "balance": 12_000, "region": "north", "is_member": True}
_CHECKERS: Final = (
    {"id": "verified", "checker": "sequence", "from": "COGNITIVE", "to": "EXECUTION", "between": "NORMATIVE"},
    {"id": "flagged", "checker": "state", "on": "TOOL_CALL", "require": "!input.is_flagged"},
    {"id": "slowly", "checker": "rate", "on": "TOOL_CALL", "times": 100, "per_s": 60},
    {"id": "affordable", "checker": "budget", "on": "TOOL_CALL", "of": "tokens", "above": 0.1},
    {"id": "looked", "checker": "precedes", "on": "TOOL_CALL", "by": "VERIFY", "within_s": 600},
)
_ROUTERS: Final = (
    {
        "id": "unsure",
        "router": "threshold",
        "on": "TOOL_CALL",
        "key": "output.sure",
        "below": 0.5,
        "to": "VERIFY",
    },
    {
        "id": "failed",
        "router": "value",
        "on": "TOOL_CALL",
        "key": "output.is",
        "equals": "FAIL",
        "to": "VERIFY",
    },
    {
        "id": "empty",
        "router": "value",
        "on": "TOOL_CALL",
        "key": "output.rows",
        "equals": 0,
        "to": "GENERATE",
    },
    {
        "id": "wrong",
        "router": "value",
        "on": "TOOL_CALL",
        "key": "output.is",
        "equals": "ODD",
        "to": "VERIFY",
    },
)


def run(rounds: int) -> dict[str, float]:
    """Measure, and print calls a second and ratios."""
    works: dict[str, Callable[[], object]] = {
        _BARE: _expression(),
        "check of a step, no checker": _check(()),
        "check of a step, 5 checkers": _check(_CHECKERS),
        "step taken, no router": _take(()),
        "step taken, 4 routers": _take(_ROUTERS),
        f"decision table, {ROWS} rows": _table(),
    }
    rates = calls_per_second(works, rounds)
    print(f"steps of a workflow and a table, one thread, {rounds} rounds of {TURN_S} s, median round")
    print(f"{'what':<34}{'per second':>12}{'us':>9}{'x CEL':>8}")
    for name, rate in rates.items():
        print(f"{name:<34}{rate:>12,.0f}{1e6 / rate:>9.1f}{rates[_BARE] / rate:>8.2f}")
    return {
        f"time of {name} / of one CEL rule": rates[_BARE] / rate
        for name, rate in rates.items()
        if name != _BARE
    }


def _expression() -> Callable[[], object]:
    """One rule over four values, compiled beforehand."""
    program = cel.compile("score >= 700 && balance < 100000 && region != 'south' && is_member")

    def evaluated() -> object:
        context = cel.Context()
        for name, value in _FEATURES.items():
            context.add_variable(name, value)
        return program.execute(context)

    return evaluated


def _workflow(**policies: Any) -> WorkflowDocument:
    cores = {"GENERATE": "COGNITIVE", "VERIFY": "NORMATIVE", "TOOL_CALL": "EXECUTION", "PROPOSE": "EXECUTION"}
    body = {
        "workflow": "measured",
        "version": "1.0.0",
        "start": "GENERATE",
        "ends": ["PROPOSE"],
        "instructions": {name: {"core": core} for name, core in cores.items()},
        "edges": [
            ["GENERATE", "VERIFY"],
            ["VERIFY", "TOOL_CALL"],
            ["TOOL_CALL", "GENERATE"],
            ["TOOL_CALL", "VERIFY"],
            ["VERIFY", "PROPOSE"],
        ],
        **policies,
    }
    return WorkflowDocument.model_validate_json(canonical.encode(body))


def _walked(workflow: WorkflowDocument, *names: str) -> WorkflowFold:
    fold = steps.begin(workflow)
    for name in names:
        step = ReportedStep(instruction=name, core=workflow.instructions[name].core, output={})
        fold = steps.take(workflow, fold, step, now_ms=NOW_MS)
    return fold


def _check(checkers: tuple[dict[str, Any], ...]) -> Callable[[], object]:
    workflow = _workflow(checkers=checkers)
    fold = _walked(workflow, "GENERATE", "VERIFY")
    left = {BudgetOf.TOKENS: steps.Remainder(left=900, whole=1000)}
    asked = steps.Asked(instruction="TOOL_CALL", now_ms=NOW_MS, input={"is_flagged": False}, left=left)
    objections = steps.check(workflow, fold, asked)
    if objections:
        raise RuntimeError(f"the bench's step is refused: {objections}")
    return partial(steps.check, workflow, fold, asked)


def _take(routers: tuple[dict[str, Any], ...]) -> Callable[[], object]:
    workflow = _workflow(routers=routers)
    fold = _walked(workflow, "GENERATE", "VERIFY")
    core = workflow.instructions["TOOL_CALL"].core
    step = ReportedStep(instruction="TOOL_CALL", core=core, output={"sure": 0.9, "is": "PASS", "rows": 7})
    if steps.take(workflow, fold, step, now_ms=NOW_MS).pending is not None:
        raise RuntimeError("a router of the bench matches")
    return partial(steps.take, workflow, fold, step, now_ms=NOW_MS)


def _table() -> Callable[[], object]:
    rules = [
        {
            "id": f"L{number}",
            "when": [f"[{number * 3}..{number * 3 + 2}]", "< 100000", "not('south')", "-"],
            "then": {"action": "SET_LINE", "params": {"cents": number}},
            "certainty": 0.9,
        }
        for number in range(ROWS - 1)
    ]
    last = {"id": "L_LAST", "when": [">= 700", "< 100000", "not('south')", "true"], "certainty": 0.9}
    rules.append({**last, "then": {"action": "SET_LINE", "params": {"cents": 0}}})
    table = {"table": "lines", "decides": "line", "hit": "UNIQUE", "rules": rules, "inputs": list(_FEATURES)}
    types = {"score": "integer", "balance": "integer", "region": "string", "is_member": "boolean"}
    body = {
        "ruleset": "measured",
        "version": "1.0.0",
        "features": {name: {"type": kind} for name, kind in types.items()},
        "tables": [table],
    }
    ruleset = RulesetDocument.model_validate_json(canonical.encode(body))
    found = evaluate.evaluate(ruleset, _FEATURES)
    if [match.rule_id for match in found.matches] != ["L_LAST"]:
        raise RuntimeError(f"the bench's table does not match its last row: {found}")
    return partial(evaluate.evaluate, ruleset, _FEATURES)
