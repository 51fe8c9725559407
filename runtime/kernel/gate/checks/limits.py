"""Is every value within the manifest's authority bounds? (DIR paper, 9.2: authority violation)"""

from collections.abc import Iterable

from runtime.contracts.policy_kind import OnFail
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import evaluate
from runtime.kernel.rules.evaluate import EvaluationStatus

NAME = "limits"


def check(case: Case) -> Iterable[Finding]:
    """RISK_LIMIT_EXCEEDED, a Refer unless the kind says REJECT; an expression that errors is a Fail."""
    for bound in evaluate.judge_limits(case.kind, case.names):
        if bound.status is not EvaluationStatus.PASSED:
            yield findings.by_rule(
                OnFail.REJECT if bound.status is EvaluationStatus.ERROR else bound.on_exceed,
                NAME,
                Reason.RISK_LIMIT_EXCEEDED,
                f"{bound.id}: {bound.message}",
                subject=bound.id,
                proposed_value=bound.value,
                limit=bound.limit,
            )
