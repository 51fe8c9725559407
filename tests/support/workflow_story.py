"""A workflow to walk in tests, and short ways to change, check and walk it."""

from typing import Any

from audit import canonical
from runtime.contracts.workflow import BudgetOf, ReportedStep, WorkflowDocument, WorkflowFold
from runtime.kernel.workflows import steps

RESEARCH: dict[str, Any] = {
    "workflow": "research",
    "version": "1.0.0",
    "start": "GENERATE",
    "ends": ["PROPOSE"],
    "instructions": {
        "GENERATE": {"core": "COGNITIVE", "cost": 5},
        "VERIFY": {"core": "NORMATIVE"},
        "TOOL_CALL": {"core": "EXECUTION", "max_visits": 2},
        "PROPOSE": {"core": "EXECUTION"},
    },
    "edges": [
        ["GENERATE", "VERIFY"],
        ["VERIFY", "TOOL_CALL"],
        ["TOOL_CALL", "GENERATE"],
        ["VERIFY", "PROPOSE"],
    ],
}
SEQUENCE = {
    "id": "think_then_verify",
    "checker": "sequence",
    "from": "COGNITIVE",
    "to": "EXECUTION",
    "between": "NORMATIVE",
}


def document(**changes: Any) -> WorkflowDocument:
    """RESEARCH with other fields, validated as a file of a pack is."""
    return WorkflowDocument.model_validate_json(canonical.encode({**RESEARCH, **changes}))


def check(
    workflow: WorkflowDocument,
    fold: WorkflowFold,
    instruction: str,
    *,
    at: int = 0,
    given: dict[str, Any] | None = None,
    left: dict[BudgetOf, steps.Remainder] | None = None,
) -> list[tuple[str, str]]:
    """The subject and code of everything that speaks against a step at `at` (ms)."""
    asked = steps.Asked(instruction=instruction, now_ms=at, input=given or {}, left=left or {})
    return [(one.subject, one.code.value) for one in steps.check(workflow, fold, asked)]


def walk(
    workflow: WorkflowDocument, *reported: str | tuple[str, dict[str, Any]], at: int = 0
) -> WorkflowFold:
    """The fold after these steps, each with its output or without; nothing is checked."""
    fold = steps.begin(workflow)
    for one in reported:
        name, output = (one, {}) if isinstance(one, str) else one
        core = workflow.instructions[name].core
        step = ReportedStep(instruction=name, core=core, output=output)
        fold = steps.take(workflow, fold, step, now_ms=at)
    return fold
