"""The DecisionSpecs in force: what each policy kind allows and asks for, and what it decided lately.

Counts are of decision records, by the index that is made for them, and of people's decisions of the period:
no table is read whole.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, OuterRef, Subquery

from audit import cells
from audit.events import Kind
from audit.models import DecisionRecord, RecordTerm
from audit.records.statuses import Status
from escalations.contracts import Action, DecisionState
from escalations.models import Decision
from runtime.contracts.policy_kind import ApprovalMode, KindDocument
from runtime.contracts.states import AgentStatus
from runtime.registry.models import Agent, PolicyKind
from runtime.registry.queries import kind_versions, recorded_versions, stored_documents

PERIOD = timedelta(days=30)
PAGE = 25
# Kinds and agents are registered by hand: there are never so many.
_MOST = 1000


@dataclass(frozen=True, kw_only=True)
class SpecFilter:
    """Which specs are asked for; what is empty asks nothing. `text` stands in the key or the title."""

    text: str = ""
    approval_mode: str = ""
    agent_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What a spec decided since `since`: flows with a record of each status, ends by outcome, decisions."""

    flows: int = 0
    by_status: Mapping[str, int] = field(default_factory=dict)
    by_outcome: Mapping[str, int] = field(default_factory=dict)
    overridden: int = 0

    @property
    def escalated(self) -> int:
        """Flows in which a person was asked."""
        return self.by_status.get(Status.ESCALATED, 0)


@dataclass(frozen=True, kw_only=True)
class SpecOwner:
    """An agent that may use a spec, and who owns it."""

    agent_id: str
    owner: str


@dataclass(frozen=True, kw_only=True)
class DecisionSpec:
    """One policy kind in force. Without a `contract` its row is not what the ledger recorded."""

    row: PolicyKind
    contract: KindDocument | None
    agents: Sequence[SpecOwner]
    activity: Activity


@dataclass(frozen=True, kw_only=True)
class SpecPage:
    """Specs by their key; `following` is the key after which the next page begins."""

    specs: Sequence[DecisionSpec]
    following: str | None = None


def search(*, tenant: str, wanted: SpecFilter, at: datetime, after: str = "", size: int = PAGE) -> SpecPage:
    """The specs that match, by key, behind `after`."""
    agents = _agents(tenant)
    active = PolicyKind.objects.of(tenant).filter(active=True, kind__gt=after).order_by("kind")
    found = [row for row in active[:_MOST] if _matches(row, wanted, agents)]
    page = found[:size]
    activity = _activity(tenant, [row.kind for row in page], since=at - PERIOD)
    return SpecPage(
        specs=[
            DecisionSpec(
                row=row,
                contract=_contract(row),
                agents=agents.get(row.kind, ()),
                activity=activity.get(row.kind, Activity()),
            )
            for row in page
        ],
        following=page[-1].kind if len(found) > size else None,
    )


def _matches(row: PolicyKind, wanted: SpecFilter, agents: Mapping[str, Sequence[SpecOwner]]) -> bool:
    text = wanted.text.casefold()
    if text and text not in row.kind.casefold() and text not in row.title.casefold():
        return False
    if wanted.agent_id and wanted.agent_id not in {agent.agent_id for agent in agents.get(row.kind, ())}:
        return False
    if not wanted.approval_mode:
        return True
    contract = _contract(row)
    return contract is not None and contract.least_approval == wanted.approval_mode


def _contract(row: PolicyKind) -> KindDocument | None:
    if recorded_versions.compare_kind(row, by=Kind.KIND_REGISTERED) is not None:
        return None
    return kind_versions.contract_of(row)


def _agents(tenant: str) -> dict[str, list[SpecOwner]]:
    """By policy kind the agents whose manifest in force grants it."""
    rows = Agent.objects.of(tenant).exclude(status=AgentStatus.RETIRED).filter(active_manifest__isnull=False)
    held = rows.order_by("agent_id").values_list("agent_id", "owner", "active_manifest__body")
    found: dict[str, list[SpecOwner]] = {}
    for agent_id, owner, cell in held[:_MOST]:
        try:
            manifest = stored_documents.manifest_of(cells.bytes_of(cell) or b"")
        except ValueError:
            continue  # `verify_ledger` names it
        for kind in manifest.policy_kinds:
            found.setdefault(kind, []).append(SpecOwner(agent_id=agent_id, owner=owner))
    return found


def _activity(tenant: str, kinds: Collection[str], *, since: datetime) -> dict[str, Activity]:
    records = DecisionRecord.objects.filter(tenant=tenant, decision_key__in=kinds, at__gte=since)
    flows = dict(_count(records, "decision_key"))
    statuses: dict[str, dict[str, int]] = {}
    by_status = records.filter(status__in=list(Status)).order_by()
    counted = by_status.values_list("decision_key", "status").annotate(flows=Count("dfid", distinct=True))
    for kind, status, number in counted:
        statuses.setdefault(kind, {})[status] = number
    outcomes = _outcomes(tenant, kinds, since)
    overridden = _overridden(tenant, kinds, since)
    return {
        kind: Activity(
            flows=number,
            by_status=statuses.get(kind, {}),
            by_outcome=outcomes.get(kind, {}),
            overridden=overridden.get(kind, 0),
        )
        for kind, number in flows.items()
    }


def _count(records: Any, name: str) -> Any:
    return records.order_by().values_list(name).annotate(flows=Count("dfid", distinct=True))


def _outcomes(tenant: str, kinds: Collection[str], since: datetime) -> dict[str, dict[str, int]]:
    """Ends by the outcome that the kind itself named, of the records since then."""
    first = DecisionRecord.objects.filter(tenant=tenant, at__gte=since).order_by("at")
    first_id = first.values_list("pk", flat=True).first()
    if first_id is None:
        return {}
    # The record with the scorecard says the outcome again.
    named = DecisionRecord.objects.filter(
        pk=OuterRef("record"), decision_key__in=kinds, at__gte=since, superseded_by__isnull=True
    )
    terms = RecordTerm.objects.filter(
        Exists(named), tenant=tenant, name=RecordTerm.Name.OUTCOME, record__gte=first_id
    )
    of_kind = terms.annotate(kind=Subquery(named.values("decision_key")[:1]))
    found: dict[str, dict[str, int]] = {}
    for kind, outcome, number in of_kind.order_by().values_list("kind", "value").annotate(ends=Count("pk")):
        found.setdefault(kind, {})[outcome] = number
    return found


def _overridden(tenant: str, kinds: Collection[str], since: datetime) -> dict[str, int]:
    rows = Decision.objects.filter(
        decided_at__gte=since,
        action=Action.OVERRIDE,
        state=DecisionState.IN_EFFECT,
        escalation__tenant=tenant,
        escalation__policy_kind__in=kinds,
    )
    counted = rows.order_by().values_list("escalation__policy_kind").annotate(number=Count("pk"))
    return dict(counted)


def modes() -> Sequence[str]:
    """The approval modes, for a filter."""
    return [mode.value for mode in ApprovalMode]
