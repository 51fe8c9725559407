"""What past proposals came to, beside the limits that bound them. Reads and evaluates; writes nothing.

A limit is chosen by what it will be compared with, so its value is worked out as the gate does: from the
stored input of each proposal, with the facts of that time. A proposal that does not match the ledger is left
out, since nobody should choose a limit by forged numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

from audit import queries
from audit.events import Kind
from runtime.contracts.policy_kind import KindDocument
from runtime.flows.models import Verdict
from runtime.flows.queries.recorded_flow import RecordedFlow
from runtime.kernel import spread
from runtime.kernel.gate.gate_input import Case, PolicyBundle
from runtime.kernel.rules import evaluate, kind_units
from runtime.kernel.spread import Spread
from runtime.proposals.queries import policy_dry_run
from runtime.registry.models import Agent


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """What a limit would have been compared with: `spread` is None where nothing could be worked out.

    `untold` are the proposals whose value cannot be worked out from what was stored, `unlike` those that do
    not match the ledger.
    """

    spread: Spread | None
    untold: int = 0
    unlike: int = 0


@dataclass(slots=True)
class _Found:
    values: list[Decimal] = field(default_factory=list)
    untold: int = 0


def of_manifest(*, agent: Agent, kinds: Mapping[str, KindDocument]) -> dict[str, LimitUsage]:
    """The usage of each of the manifest's limits with which one of `kinds` compares an amount as it stands.

    Over the agent's newest proposals of the kinds that the limit applies to.
    """
    bounded: dict[str, dict[str, list[str]]] = {}
    for kind in kinds.values():
        for limit in kind.limits:
            name = limit.limit.strip()
            if name.startswith(kind_units.MANIFEST_LIMITS):
                of_kinds = bounded.setdefault(name.removeprefix(kind_units.MANIFEST_LIMITS), {})
                of_kinds.setdefault(kind.kind, []).append(limit.value)
    # Limits of the same kinds are asked about the same proposals.
    groups: dict[frozenset[str], list[str]] = {}
    for name, sources in bounded.items():
        groups.setdefault(frozenset(sources), []).append(name)
    found: dict[str, LimitUsage] = {}
    for among, names in groups.items():
        rows = policy_dry_run.list_of_agent(agent=agent, kinds=among)
        wanted = {
            kind: {name: bounded[name][kind] for name in names if kind in bounded[name]} for kind in among
        }
        found |= _usage(agent.tenant, rows, kinds, wanted)
    return found


def of_kind(*, tenant: str, kind: KindDocument) -> dict[str, LimitUsage]:
    """The usage of each of a kind's own limits, by its id, over the newest proposals of the kind."""
    rows = policy_dry_run.list_of_kind(tenant=tenant, kind=kind.kind)
    wanted = {kind.kind: {limit.id: [limit.value] for limit in kind.limits}}
    return _usage(tenant, rows, {kind.kind: kind}, wanted)


def _usage(
    tenant: str,
    rows: Sequence[Verdict],
    kinds: Mapping[str, KindDocument],
    wanted: Mapping[str, Mapping[str, Sequence[str]]],
) -> dict[str, LimitUsage]:
    """By limit, the values of the expressions that `wanted` has for it of each kind."""
    whole = _matching(tenant, rows)
    found = {name: _Found() for names in wanted.values() for name in names}
    for kind, names in wanted.items():
        of_kind = [row for row in whole if row.proposal.policy_kind == kind]
        for case in policy_dry_run.list_cases(rows=of_kind, swap=partial(_under, kinds[kind])):
            for name, sources in names.items():
                values = _evaluated(case, sources)
                if values:
                    # What counts against the limit is the largest of what is compared with it.
                    found[name].values.append(max(values))
                else:
                    found[name].untold += 1
    unlike = len(rows) - len(whole)
    return {
        name: LimitUsage(spread=spread.of_values(item.values), untold=item.untold, unlike=unlike)
        for name, item in found.items()
    }


def _under(kind: KindDocument, then: PolicyBundle) -> PolicyBundle:
    """The rules of then, with `kind` in place of the version of then."""
    return then.model_copy(update={"kind": kind})


def _matching(tenant: str, rows: Iterable[Verdict]) -> list[Verdict]:
    """The rows whose input and rules are those that the ledger recorded."""
    listed = list(rows)
    entries = queries.list_payloads_of_streams(
        tenant=tenant, streams={str(row.proposal.flow_id) for row in listed}, kinds=(Kind.VERDICT_GIVEN,)
    )
    recorded: dict[str, Mapping[str, object]] = {}
    for _, payload in entries:
        # The first entry about a proposal counts, as everywhere.
        recorded.setdefault(str(payload.get("proposal_id")), payload)
    known = RecordedFlow(verdicts=recorded)
    return [row for row in listed if known.compare_verdict(row) is None]


def _evaluated(case: Case | str, sources: Sequence[str]) -> list[Decimal]:
    """The values of the expressions over one case; those that give no number are left out."""
    if isinstance(case, str) or not case.is_evaluated:
        return []
    found = (evaluate.amount(source, case.names)[0] for source in sources)
    return [Decimal(str(value)) for value in found if value is not None]
