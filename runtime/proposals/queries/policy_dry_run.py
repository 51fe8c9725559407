"""Dry run: the verdicts of stored proposals under other rules. Reads and judges; writes nothing.

The input is the one that the gate saw, with one part of the rules swapped. Facts that only the new rules read
are taken from the versions of their time; where the past does not hold what they read, the answer is that it
cannot be re-evaluated.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from audit import actors, canonical
from runtime.contracts.facts import Facts
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.states import Decision
from runtime.contracts.verdict import Finding, Segment, VerdictDocument
from runtime.flows.models import Flow, Proposal, Verdict
from runtime.kernel import versions
from runtime.kernel.gate import cedar_facts, pipeline
from runtime.kernel.gate.gate_input import NEWEST, Case, PolicyBundle
from runtime.kernel.rules import kind_reads, kind_units, safety
from runtime.proposals.queries import gate_facts
from runtime.registry.models import Agent
from runtime.state.models import Fact, FactVersion

MOST = 200
# One look-up each into the versions of a fact: rules that newly read a whole namespace end here.
MOST_LOOKUPS = 2_000

Swap = Callable[[PolicyBundle], PolicyBundle]


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A proposal whose verdict would differ, with the reasons then and now.

    `effect` is what would happen, and `amounts` how much of it, by unit: those that the kind's limits bound.
    """

    proposal_id: UUID
    dfid: UUID
    agent_id: str
    at: datetime
    was: Decision
    now: Decision
    was_reasons: tuple[Finding, ...]
    now_reasons: tuple[Finding, ...]
    effect: tuple[Segment, ...] = ()
    amounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DryRunReport:
    """What became of `looked_at` stored proposals. `other_reasons`: the same verdict for other reasons.

    `untold` counts, by reason, those for which not enough data was stored.
    """

    looked_at: int
    changes: tuple[VerdictChange, ...]
    other_reasons: int
    untold: tuple[tuple[str, int], ...]

    @property
    def moves(self) -> tuple[tuple[Decision, Decision, int], ...]:
        """How many went from which verdict to which, the most first."""
        counted = Counter((change.was, change.now) for change in self.changes)
        return tuple((was, now, count) for (was, now), count in counted.most_common())

    def amounts_of(self, now: Decision) -> dict[str, int]:
        """The amounts of the proposals that would now have this verdict, added up by unit."""
        found = Counter[str]()
        for change in self.changes:
            if change.now is now:
                found.update(change.amounts)
        return dict(sorted(found.items()))


def list_of_kind(*, tenant: str, kind: str, limit: int = MOST) -> list[Verdict]:
    """Verdicts on agents' newest proposals of a kind, newest first, from its newest flows."""
    if "\x00" in kind:
        return []
    flows = Flow.objects.of(tenant).filter(policy_kind=kind).order_by("-dfid").values_list("pk", flat=True)
    return _list(flow__in=list(flows[:limit]), policy_kind=kind, limit=limit)


def list_of_agent(*, agent: Agent, kinds: Collection[str] | None = None, limit: int = MOST) -> list[Verdict]:
    """Verdicts on an agent's own newest proposals, newest first; only those of `kinds`, if given."""
    if kinds is None:
        return _list(agent=agent, limit=limit)
    return _list(agent=agent, policy_kind__in=kinds, limit=limit)


def rejudge(*, rows: Iterable[Verdict], swap: Swap) -> DryRunReport:
    """Judge each again on its stored input under `swap(the rules of then)`."""
    past, changes, other = _Past(), list[VerdictChange](), 0
    untold, count = Counter[str](), 0
    for row in rows:
        count += 1
        case = _case(past, row, swap)
        if isinstance(case, str):
            untold[case] += 1
            continue
        found = _judged(case)
        stored = VerdictDocument.from_bytes(bytes(row.body))
        if found.decision is not stored.decision:
            changes.append(
                VerdictChange(
                    proposal_id=row.proposal.proposal_id,
                    dfid=row.proposal.flow_id,
                    agent_id=row.proposal.agent.agent_id,
                    at=row.judged_at,
                    was=stored.decision,
                    now=found.decision,
                    was_reasons=stored.reasons,
                    now_reasons=found.reasons,
                    effect=found.effect or stored.effect,
                    amounts=_amounts(case, found),
                )
            )
        elif _codes(found) != _codes(stored):
            other += 1
    return DryRunReport(count, tuple(changes), other, tuple(untold.most_common()))


def proposal_of(row: Verdict) -> ProposalDocument:
    """The proposal of a stored verdict, as the gate saw it."""
    return pipeline.Judgement.from_bytes(bytes(row.input)).proposal


def judge_one(*, row: Verdict, swap: Swap) -> VerdictDocument | str:
    """The whole verdict that one stored proposal would have got; or why it cannot be re-evaluated."""
    case = _case(_Past(), row, swap)
    return case if isinstance(case, str) else _judged(case)


def list_cases(*, rows: Iterable[Verdict], swap: Swap) -> Iterator[Case | str]:
    """What the gate would look at of each under `swap(the rules of then)`; or why that is not stored."""
    past = _Past()
    return (_case(past, row, swap) for row in rows)


def _judged(case: Case) -> VerdictDocument:
    return pipeline.judge(case.proposal, case.facts, case.rules, case.now_ms, case.gate)


def _case(past: "_Past", row: Verdict, swap: Swap) -> Case | str:
    asked = pipeline.Judgement.from_bytes(bytes(row.input))
    then = PolicyBundle.from_bytes(bytes(row.bundle.body))
    new = swap(then)
    known = past.completed(asked, then=then, new=new, at=row.judged_at)
    if isinstance(known, str):
        return known
    if new.kind is not None and known.unsafe is None:
        slow = safety.why_too_slow(new.kind, world=known.world, conditions=asked.proposal.conditions)
        known = known.model_copy(update={"unsafe": slow or None})
    proposal, version = asked.proposal, asked.proposal.policy_version
    kind = then.kind
    if version is not None and kind and versions.compatible(asked=version, active=kind.version):
        # What was agreed with the rules of then counts as agreed with the new ones.
        proposal = proposal.model_copy(update={"policy_version": None})
    gate = asked.gate_version
    if new.kind is not None and not safety.why_unsafe(new.kind):
        # Both gates refuse what does not fit the new kind, but only today's evaluates nothing over values
        # that no schema bounds.
        constraints = proposal.execution_constraints
        if not safety.fits(new.kind, params=proposal.params, constraints=constraints):
            gate = NEWEST
    case = Case(proposal=proposal, facts=known, rules=new, now_ms=asked.now_ms, gate=gate)
    if new.kind == then.kind and new.rulesets == then.rulesets:
        return case
    # What was never asked of the policies of the new rules is asked now.
    return replace(case, facts=cedar_facts.with_answers(case))


def _amounts(case: Case, found: VerdictDocument) -> dict[str, int]:
    kind = case.rules.kind
    # What the runtime has worked out is what would have happened.
    live = {figure.param: figure.live for figure in found.figures}
    return {} if kind is None else kind_units.list_amounts(kind, {**case.proposal.params, **live})


def _list(*, limit: int, **wanted: object) -> list[Verdict]:
    rows = Verdict.objects.filter(
        # A person's decision rests on what was shown to that person: it tells nothing about a rule.
        proposal__author__startswith=actors.AGENT,
        **{f"proposal__{name}": value for name, value in wanted.items()},
    )
    # Of an erased flow there is nothing to judge.
    related = rows.exclude(input=b"").select_related("proposal__agent", "bundle")
    return list(related.order_by("-proposal__received_at", "-proposal_id")[:limit])


def _codes(verdict: VerdictDocument) -> Sequence[tuple[str, str, str]]:
    # Each once: how many places of a misfit are named is up to the gate, not to the rules.
    return sorted({(item.check, item.code, item.subject) for item in verdict.reasons})


def _counted(asked: pipeline.Judgement, new: PolicyBundle, at: datetime) -> Facts:
    """The facts of then, with the last minute's proposals where a rate limit is new: they are all stored."""
    known = asked.facts
    if new.manifest is None or new.manifest.proposals_per_minute is None or known.history is not None:
        return known
    rows = Proposal.objects.filter(
        agent__tenant=asked.proposal.tenant,
        agent__agent_id=known.agent.agent_id,
        author=asked.proposal.author,
        received_at__gt=at - timedelta(minutes=1),
        received_at__lt=at,
    )
    return known.model_copy(update={"history": {"proposals_1m": rows.count()}})


def _has_lost_versions(tenant: str, path: str) -> bool:
    """Whether retention has deleted the first versions of a fact."""
    versions = FactVersion.objects.of(tenant).filter(path=path).order_by("version")
    first = versions.values_list("version", flat=True).first()
    return first is not None and first > 1


@dataclass(slots=True)
class _Past:
    """What new rules read besides what the gate was given, as it was at the time."""

    lookups: int = 0
    namespaces: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def completed(
        self, asked: pipeline.Judgement, *, then: PolicyBundle, new: PolicyBundle, at: datetime
    ) -> Facts | str:
        """The facts of then with what is missing; or why it cannot be re-evaluated."""
        known = asked.facts
        if new.kind is not None and (unsafe := safety.why_unsafe(new.kind)):
            return known.model_copy(update={"unsafe": unsafe})
        if known.unsafe is not None:
            # Nothing was loaded for a kind that was not evaluated: all that the new one reads is looked up.
            asked = asked.model_copy(update={"facts": known.model_copy(update={"unsafe": None})})
            then, known = then.model_copy(update={"kind": None}), asked.facts
        if known.labels is None and gate_facts.asks_for_labels(new):
            return "the labels that the agent had were not stored"
        if new.kind is None or new.kind == then.kind:
            return _counted(asked, new, at)
        held = {item.name for item in known.resources or ()}
        for claim in new.kind.claims:
            if claim.resource not in held:
                return f"the free amount of {claim.resource} was not stored"
        if known.history is None and kind_reads.reads_history(new.kind):
            return "the counts over the agent's history were not stored"
        if known.steps is None and known.workflow is not None and kind_reads.reads_steps(new.kind):
            return "the steps of the flow were not stored"
        added = self._missing(asked, then=then, new=new, at=at)
        if isinstance(added, str):
            return added
        # What the context lacked counts as unmoved: under the new rules it would have been part of it.
        seen = known.snapshot and known.snapshot.model_copy(
            update={"facts": {**added, **known.snapshot.facts}}
        )
        return known.model_copy(update={"world": {**known.world, **added}, "snapshot": seen})

    def _missing(
        self, asked: pipeline.Judgement, *, then: PolicyBundle, new: PolicyBundle, at: datetime
    ) -> dict[str, object] | str:
        tenant = asked.proposal.tenant
        had = set[str]() if then.kind is None else kind_reads.paths_read(then.kind, asked.proposal.params)
        wanted = set[str]()
        for selector in (
            () if new.kind is None else kind_reads.paths_read(new.kind, asked.proposal.params) - had
        ):
            if kind_reads.is_namespace(selector):
                wanted.update(self._named(tenant, selector))
            else:
                wanted.add(selector)
        found = dict[str, object]()
        for path in sorted(wanted - asked.facts.world.keys()):
            if self.lookups == MOST_LOOKUPS:
                return "the draft reads too many facts that were not stored with the proposal"
            self.lookups += 1
            versions_of = FactVersion.objects.of(tenant).filter(path=path, written_at__lte=at)
            value = versions_of.order_by("-version").values_list("value", flat=True).first()
            if value is not None:
                found[path] = canonical.decode(bytes(value))
            elif _has_lost_versions(tenant, path):
                return f"the versions of {path} of that time are not kept any more"
        return found

    def _named(self, tenant: str, selector: str) -> list[str]:
        """The paths that exist today under a namespace; facts are never taken away."""
        key = (tenant, selector)
        if key not in self.namespaces:
            rows = Fact.objects.of(tenant)
            if selector != kind_reads.EVERYTHING:
                rows = rows.filter(path__startswith=selector)
            paths = rows.order_by("path").values_list("path", flat=True)
            self.namespaces[key] = list(paths[: MOST_LOOKUPS + 1])
        return self.namespaces[key]
