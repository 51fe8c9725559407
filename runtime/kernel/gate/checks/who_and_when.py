"""Who proposes, and when: the agent's rights, the window, the attempts, and the context it was shown."""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from audit import canonical
from runtime.contracts.kind_types import OnFail
from runtime.contracts.reasons import Reason
from runtime.contracts.states import AgentStatus, AutonomyLevel
from runtime.contracts.verdict import Finding
from runtime.kernel import source_labels
from runtime.kernel.gate import findings
from runtime.kernel.gate.findings import CheckName
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.rules import evaluate, list_bounds
from runtime.kernel.rules.evaluate import Move

BARRED: dict[AgentStatus, tuple[Reason, str]] = {
    AgentStatus.PASSIVE: (
        Reason.AGENT_PASSIVE,
        "The agent is PASSIVE: it may read until an admin restores it.",
    ),
    AgentStatus.LOCKED: (Reason.AGENT_LOCKED, "The agent is LOCKED until the world has settled."),
    AgentStatus.SUSPENDED: (Reason.AGENT_SUSPENDED, "The agent is SUSPENDED. An admin can restore it."),
    AgentStatus.RETIRED: (Reason.AGENT_RETIRED, "The agent is RETIRED and cannot come back."),
}


def check_authority(case: Case) -> Iterable[Finding]:
    """May this agent propose this kind now? The registry decides, never the body (DIR paper, 6.2).

    AGENT_* for a status that bars, UNAUTHORIZED for a session, a kind or a scope that is not granted.
    AGENT_UNPINNED where the kind is strict and the manifest leaves model profile or evaluators open.

    A person who decides an escalation of an agent that has since been barred is refused too.
    """
    status = case.facts.agent.status
    if status in BARRED and not (case.proposal.by_person and status is AgentStatus.PASSIVE):
        code, message = BARRED[status]
        yield findings.fail(CheckName.AUTHORITY, code, message)
    if not case.facts.session_valid:
        yield findings.fail(
            CheckName.AUTHORITY, Reason.UNAUTHORIZED, "The session has ended. Shake hands again."
        )
    manifest = case.rules.manifest
    if manifest is None:
        yield findings.fail(CheckName.AUTHORITY, Reason.UNAUTHORIZED, "The agent has no active manifest.")
        return
    kind = case.kind.kind
    if kind not in manifest.policy_kinds:
        yield findings.fail(
            CheckName.AUTHORITY, Reason.UNAUTHORIZED, f"The active manifest does not grant {kind}."
        )
    pinned = {"model_profile": manifest.model_profile, "evaluator_suite": manifest.evaluator_suite}
    unpinned = [name for name, value in pinned.items() if not value]
    if case.kind.strict and unpinned:
        yield findings.fail(
            CheckName.AUTHORITY,
            Reason.AGENT_UNPINNED,
            f"{kind} is strict, and the active manifest does not set {' and '.join(unpinned)}.",
        )
    if manifest.scope:
        yield from _out_of_scope(case, manifest.scope)


def _out_of_scope(case: Case, scope: Mapping[str, tuple[Any, ...]]) -> Iterable[Finding]:
    known = {*case.proposal.params, *list_bounds.property_names(case.kind.params_schema)}
    for name in sorted(known & scope.keys()):
        # Bytes, not ==: Python holds True equal to 1.
        allowed = {canonical.encode(value) for value in scope[name]}
        # Leaving a narrowed parameter out must not widen what the agent may do.
        if canonical.encode(case.proposal.params.get(name)) not in allowed:
            yield findings.fail(
                CheckName.AUTHORITY,
                Reason.UNAUTHORIZED,
                f"The active manifest's scope does not hold this {name}.",
            )


def check_autonomy(case: Case) -> Iterable[Finding]:
    """May the agent have this effect at its level of autonomy? Asked only of kinds that have an effect.

    AGENT_SUPERVISED asks for a person, and is not asked of one; AGENT_READ_ONLY refuses, whoever decides.
    """
    if case.facts.autonomy is AutonomyLevel.READ_ONLY:
        yield findings.fail(
            CheckName.AUTONOMY,
            Reason.AGENT_READ_ONLY,
            "The agent is READ_ONLY: nothing that has an effect is accepted until an admin raises its level.",
        )
    elif not case.proposal.by_person:
        yield findings.refer(
            CheckName.AUTONOMY,
            Reason.AGENT_SUPERVISED,
            "The agent is SUPERVISED: a person decides on all that has an effect.",
        )


def check_labels(case: Case) -> Iterable[Finding]:
    """May the agent do this after what it has received? Asked by the `label_rules` of its manifest. (DARE)

    LABELLED for each rule with a label that the agent has: a Refer, which is not asked of a person, unless
    the rule says REJECT.
    """
    held = case.facts.labels or ()
    for rule, labels in source_labels.list_broken(case.manifest.label_rules, kind=case.kind, held=held):
        if rule.on_fail is OnFail.ESCALATE and case.proposal.by_person:
            continue
        named = ", ".join(labels)
        said = rule.message or f"The agent has received something labelled {named}."
        yield findings.by_rule(
            rule.on_fail, CheckName.LABELS, Reason.LABELLED, said, subject=rule.id, proposed_value=named
        )


def check_validity(case: Case) -> Iterable[Finding]:
    """Is the decision still inside its validity window? (DIR paper, 6.4)

    EXPIRED when the judged moment is past `valid_until`.
    """
    if case.now_ms > case.proposal.valid_until_ms:
        yield findings.fail(
            CheckName.VALIDITY,
            Reason.EXPIRED,
            "The validity window has ended. Propose again from a fresh context.",
            proposed_value=case.now_ms,
            limit=case.proposal.valid_until_ms,
        )


def check_retries(case: Case) -> Iterable[Finding]:
    """Has the agent attempts left in this flow? (Intent Retry Governor; DIR paper, 6.2 and 9.3)

    REASONING_EXHAUSTION when none is left. A person's decision is not an attempt of the agent.
    """
    flow = case.facts.flow
    if flow.attempts_used >= flow.attempts_allowed and not case.proposal.by_person:
        yield exhaustion(case)


def exhaustion(case: Case) -> Finding:
    """The finding that ends a flow of failed attempts; the pipeline adds it to the last REJECT."""
    flow = case.facts.flow
    return findings.fail(
        CheckName.RETRIES,
        Reason.REASONING_EXHAUSTION,
        "The flow has used its last attempt and is aborted. Open a new flow.",
        proposed_value=flow.attempts_used + 1,
        limit=flow.attempts_allowed,
    )


def check_context_freshness(case: Case) -> Iterable[Finding]:
    """Does it stand on a context of this flow, and is the world still as it was? (DIR paper, 6.2, 8.3)

    CONTEXT_UNKNOWN, CONTEXT_EXPIRED, or STALE_CONTEXT for each fact that moved materially.
    """
    snapshot = case.facts.snapshot
    if snapshot is None:
        yield findings.fail(
            CheckName.CONTEXT_FRESHNESS,
            Reason.CONTEXT_UNKNOWN,
            "The context_ref is not a snapshot issued to this flow. Ask for a context first.",
        )
        return
    if case.now_ms > snapshot.expires_at_ms:
        yield findings.fail(
            CheckName.CONTEXT_FRESHNESS,
            Reason.CONTEXT_EXPIRED,
            "The snapshot is past its time to live. Ask for a fresh context.",
        )
    yield from stale(case, seen=snapshot.facts)


def stale(case: Case, *, seen: Mapping[str, Any]) -> Iterable[Finding]:
    """STALE_CONTEXT for each fact of `depends_on` that is missing or moved materially since it was `seen`."""
    for fact in evaluate.judge_freshness(
        case.kind,
        params=case.proposal.params,
        constraints=case.proposal.execution_constraints,
        seen=seen,
        current=case.facts.world,
    ):
        match fact.move:
            case Move.SAME | Move.WITHIN_BOUNDS:
                continue
            case Move.MOVED:
                message = f"{fact.fact} has moved since the context was made."
            case Move.MISSING:
                message = f"{fact.fact} is missing from the context or from the world."
            case Move.UNREADABLE:
                message = f"The fact {fact.fact} cannot be named with these parameters."
            case _:
                assert_never(fact.move)
        was, now = (
            None if value is None else canonical.encode(value).decode()[:64]
            for value in (fact.seen, fact.current)
        )
        yield findings.fail(
            CheckName.CONTEXT_FRESHNESS,
            Reason.STALE_CONTEXT,
            f"{message} Ask for a fresh context.",
            proposed_value=was,
            limit=now,
        )
