"""Do the policy kind's rules hold? A rule's own id is the code of its finding."""

from collections.abc import Iterable

from runtime.contracts.policy_kind import OnFail
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import evaluate
from runtime.kernel.rules.evaluate import EvaluationStatus

NAME = "rules"


def check(case: Case) -> Iterable[Finding]:
    """One finding a broken rule; a rule that errors is a Fail, whatever its `on_fail` says."""
    for condition in evaluate.judge_rules(case.kind, case.names):
        if condition.status is not EvaluationStatus.PASSED:
            yield findings.by_rule(
                OnFail.REJECT if condition.status is EvaluationStatus.ERROR else condition.on_fail,
                NAME,
                condition.id,
                condition.message,
            )
