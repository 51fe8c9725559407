"""What the Cedar policies of a kind's rulesets say of a case: asked before it is judged, and stored with it.

The gate itself asks cedarpy nothing: a verdict is judged again from the stored answers, whatever version of
the library is installed by then.
"""

from runtime.contracts.facts import Facts
from runtime.kernel.gate.checks import advised
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rulesets import cedar


def with_answers(case: Case) -> Facts:
    """The facts of a case with the answers of the policies; none where the case is not evaluated."""
    asked = [ruleset for ruleset in case.rules.rulesets if ruleset.policies]
    if not asked or not case.is_evaluated:
        return case.facts
    agent, kind = case.facts.agent.agent_id, case.kind.kind
    found = {
        ruleset.name: answers
        for ruleset in asked
        if (
            answers := cedar.ask(
                ruleset, advised.features_of(case, ruleset), agent_id=agent, policy_kind=kind
            )
        )
    }
    return case.facts.model_copy(update={"cedar": found})
