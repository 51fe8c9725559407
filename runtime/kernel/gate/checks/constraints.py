"""Do the agent's own bounds hold now? (DIR paper, 3.3: constraints over deadlines)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import evaluate
from runtime.kernel.rules.evaluate import EvaluationStatus

NAME = "constraints"


def check(case: Case) -> Iterable[Finding]:
    """CONSTRAINT_VIOLATED for each bound that is not exactly true against the live facts."""
    for condition in evaluate.judge_constraints(case.kind, case.names):
        if condition.status is not EvaluationStatus.PASSED:
            yield findings.fail(NAME, Reason.CONSTRAINT_VIOLATED, f"{condition.id}: {condition.message}")
