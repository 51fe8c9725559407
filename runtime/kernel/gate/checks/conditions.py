"""Do the conditions hold that a person attached to the decision?"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import language
from runtime.kernel.rules.language import ExpressionError

NAME = "conditions"


def check(case: Case) -> Iterable[Finding]:
    """CONDITION_FAILED for each condition that is not exactly true."""
    for condition in case.proposal.conditions:
        try:
            holds, words = language.require(condition, case.names), "does not hold"
        except ExpressionError as error:
            holds, words = False, error.message
        if not holds:
            yield findings.fail(
                NAME, Reason.CONDITION_FAILED, f"The condition {condition} {words}.", subject=condition
            )
