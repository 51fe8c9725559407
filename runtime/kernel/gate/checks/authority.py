"""May this agent propose this kind now? The registry decides, never the body (DIR paper, 6.2)."""

from collections.abc import Iterable

from audit import canonical
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus
from runtime.contracts.verdict import Finding
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import list_bounds

NAME = "authority"

BARRED: dict[AgentStatus, tuple[Reason, str]] = {
    AgentStatus.PASSIVE: (
        Reason.AGENT_PASSIVE,
        "The agent is PASSIVE: it may read until an admin restores it.",
    ),
    AgentStatus.LOCKED: (Reason.AGENT_LOCKED, "The agent is LOCKED until the world has settled."),
    AgentStatus.SUSPENDED: (Reason.AGENT_SUSPENDED, "The agent is SUSPENDED. An admin can restore it."),
    AgentStatus.RETIRED: (Reason.AGENT_RETIRED, "The agent is RETIRED and cannot come back."),
}


def check(case: Case) -> Iterable[Finding]:
    """AGENT_* for a status that bars, UNAUTHORIZED for a session, a kind or a scope that is not granted.

    A person who decides an escalation of an agent that has since been barred is refused too.
    """
    status = case.facts.agent.status
    if status in BARRED and not (case.proposal.by_person and status is AgentStatus.PASSIVE):
        code, message = BARRED[status]
        yield findings.fail(NAME, code, message)
    if not case.facts.session_valid:
        yield findings.fail(NAME, Reason.UNAUTHORIZED, "The session has ended. Shake hands again.")
    manifest = case.rules.manifest
    if manifest is None:
        yield findings.fail(NAME, Reason.UNAUTHORIZED, "The agent has no active manifest.")
        return
    kind = case.kind.kind
    if kind not in manifest.policy_kinds:
        yield findings.fail(NAME, Reason.UNAUTHORIZED, f"The active manifest does not grant {kind}.")
    known = {*case.proposal.params, *list_bounds.property_names(case.kind.params_schema)}
    for name in sorted(known & manifest.scope.keys()):
        # Bytes, not ==: Python holds True equal to 1.
        allowed = {canonical.encode(value) for value in manifest.scope[name]}
        # Leaving a narrowed parameter out must not widen what the agent may do.
        if canonical.encode(case.proposal.params.get(name)) not in allowed:
            yield findings.fail(
                NAME, Reason.UNAUTHORIZED, f"The active manifest's scope does not hold this {name}."
            )
