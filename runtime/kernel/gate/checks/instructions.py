"""How the agent came to the proposal: may its flow take the instruction PROPOSE from where it stands?"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.workflows import budgets, steps


def check_workflow(case: Case) -> Iterable[Finding]:
    """Does the agent's workflow allow a proposal from where the flow stands? (ArbiterOS: policies before)

    POLICY_VIOLATION or RATE_LIMITED for each policy that speaks against it; its `on_fail` says whether a
    person may allow it. What was reported of earlier steps is a claim, so this allows nothing that another
    check refuses. It is not asked of a proposal that a person wrote.
    """
    workflow, fold = case.rules.workflow, case.facts.workflow
    if workflow is None:
        return
    if fold is None:
        said = "It is not known where the flow stands in its workflow."
        yield findings.fail(CheckName.WORKFLOW, Reason.POLICY_VIOLATION, said)
        return
    left = budgets.remainders(
        case.facts.compute,
        opened_at_ms=case.facts.flow.opened_at_ms,
        escalation_tokens=case.facts.escalation_tokens,
        per_hour=case.manifest.escalations_per_hour,
        now_ms=case.now_ms,
    )
    asked = steps.Asked(instruction=steps.PROPOSE, now_ms=case.now_ms, input=case.proposal.params, left=left)
    for objection in steps.check(workflow, fold, asked):
        yield findings.by_rule(
            objection.on_fail,
            CheckName.WORKFLOW,
            objection.code,
            objection.message,
            subject=objection.subject,
        )
