"""Reads what the second look needs and takes it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from audit import canonical
from runtime.contracts import timestamps
from runtime.contracts.policy_kind import InvariantPlace, KindDocument
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.flows.models import Flow, Intent, Verdict
from runtime.kernel import step_checks
from runtime.kernel.gate import pipeline, recheck
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.gate.pipeline import Judgement
from runtime.kernel.gate.recheck import Withdrawn
from runtime.kernel.rules import safety
from runtime.kernel.step_checks import Broken, InvariantsAsked
from runtime.proposals.queries import gate_facts, required_evidence
from runtime.state.models import Fact


@dataclass(frozen=True, kw_only=True)
class Look:
    """What prevents a call now: facts that have changed, and rules that people have changed.

    `withdrawn` is None where the active rules are those of the verdict, or still grant all of it. `broken`
    are the preconditions of the step that do not hold; those in `between` pause it. It is None where nothing
    is asked between steps.
    """

    stale: tuple[Finding, ...]
    withdrawn: Withdrawn | None
    broken: tuple[Broken, ...] = ()
    between: InvariantsAsked | None = None


def look(
    *,
    flow: Flow,
    intent: Intent,
    row: Verdict,
    step: str,
    receipts: Mapping[str, Any],
    at: datetime,
) -> Look:
    """Look again at an intent at `at`, before its step of this id. Writes nothing.

    `receipts` are those of the steps that are done, by their ids: where there are any, this is between steps.

    The caller holds the lock of the flow's agent, so that no manifest comes into force between the look and
    its commit, and `flow.agent` is the locked row. `row` is the intent's verdict with its bundle, which the
    caller has compared with the ledger.
    """
    judgement = Judgement.from_bytes(bytes(row.input))
    rules = pipeline.rules_of(bytes(row.bundle.body))
    if rules.kind is None:
        raise LookupError("an intent stands on a verdict without a policy kind")
    # A person who resumed the intent has extended its window: the row's own end counts, not the claim's.
    proposal = judgement.proposal.model_copy(update={"valid_until_ms": timestamps.to_ms(intent.valid_until)})
    unsafe = safety.why_not_asked(
        rules.kind, params=proposal.params, constraints=proposal.execution_constraints
    )
    if not safety.are_conditions_safe(proposal.conditions, rules.kind):
        unsafe = unsafe or f"a condition of the decision: {safety.NOT_ASKED}"
    world = gate_facts.get_world(
        tenant=flow.tenant, kind=rules.kind, params=proposal.params, conditions=proposal.conditions
    )
    unsafe = unsafe or safety.why_too_slow(rules.kind, world=world, conditions=proposal.conditions)
    facts = judgement.facts
    if facts.snapshot is not None and intent.position:
        # What an earlier step of the intent has written itself is no news to a later one.
        own = Fact.objects.of(intent.tenant).filter(path__in=list(world), writer=f"intent:{intent.pk}")
        written = {path: world[path] for path in own.values_list("path", flat=True)}
        seen = facts.snapshot.model_copy(update={"facts": {**facts.snapshot.facts, **written}})
        facts = facts.model_copy(update={"snapshot": seen})
    stale = recheck.recheck(
        judgement.model_copy(update={"proposal": proposal, "facts": facts}),
        rules,
        world=world,
        evidence=required_evidence.get_evidence(flow=flow, kind=rules.kind, params=proposal.params),
        now_ms=timestamps.to_ms(at),
        unsafe=unsafe,
        between=bool(receipts),
    )
    withdrawn = _withdrawn(flow, intent, row, judgement, at)
    if stale:
        return Look(stale=stale, withdrawn=withdrawn)
    case = recheck.as_of_now(judgement, rules, world=world, now_ms=timestamps.to_ms(at))
    asked = [one for one in rules.kind.steps if one.id == step and one.preconditions]
    names = {**case.names, "steps": dict(receipts)} if asked else {}
    return Look(
        stale=stale,
        withdrawn=withdrawn,
        broken=tuple(item for one in asked for item in step_checks.ask_preconditions(one, names=names)),
        between=_between(rules.kind, case) if receipts else None,
    )


def _between(kind: KindDocument, case: Case) -> InvariantsAsked | None:
    place = InvariantPlace.BETWEEN_STEPS
    return step_checks.ask_invariants(kind, place, names=case.names) if kind.asserted(place) else None


def ask_after(*, flow: Flow, case: Case, at: datetime) -> InvariantsAsked | None:
    """Ask the invariants that must hold once all steps are done, with the facts of now. Writes nothing.

    `case` is that of the verdict. None where it asserts none there.
    """
    place = InvariantPlace.AFTER
    if not case.kind.asserted(place):
        return None
    world = gate_facts.get_world(tenant=flow.tenant, kind=case.kind, params=case.proposal.params)
    facts = case.facts.model_copy(update={"world": world})
    now = replace(case, facts=facts, now_ms=timestamps.to_ms(at))
    return step_checks.ask_invariants(case.kind, place, names=now.names)


def lifted_by_people(intent: Intent) -> tuple[Finding, ...]:
    """The findings that people have lifted since the verdict, by resuming the intent against them."""
    return tuple(
        Finding.model_validate_json(canonical.encode(item)) for item in canonical.decode(bytes(intent.lifted))
    )


def lifted_bytes(lifted: Iterable[Finding]) -> bytes:
    """Findings as the intent keeps them."""
    return canonical.encode([item.model_dump(mode="json") for item in lifted])


def _withdrawn(
    flow: Flow, intent: Intent, row: Verdict, judgement: Judgement, at: datetime
) -> Withdrawn | None:
    asked, agent, then = judgement.proposal, flow.agent, canonical.digest(bytes(row.bundle.body))
    case = (flow, asked.policy_kind)
    # The bytes that were read identify the rules, not the key of the row that they came from.
    if gate_facts.list_bundle_digests([case])[(flow.pk, asked.policy_kind)] == then:
        return None
    in_force = gate_facts.get_rules(agent=agent, kind_name=asked.policy_kind)
    known = gate_facts.get_facts_of_now(flow=flow, agent=agent, rules=in_force, params=asked.params, at=at)
    answer = VerdictDocument.from_bytes(bytes(row.body))
    lifted = [item for item in answer.findings if item.outcome is FindingOutcome.LIFTED]
    found = recheck.withdrawn(
        judgement,
        in_force,
        known=known,
        lifted=[*lifted, *lifted_by_people(intent)],
        now_ms=timestamps.to_ms(at),
    )
    return found if found.findings else None
