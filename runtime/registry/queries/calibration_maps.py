"""Reads of calibration maps, for the gate, for their one writer and for their page."""

from collections.abc import Collection, Sequence
from typing import Final

from django.db.models import Max, QuerySet

from audit import statements
from runtime.contracts.calibration import CalibrationDocument, ConfidenceUse
from runtime.contracts.states import CalibrationState, Impact
from runtime.core.mismatches import Mismatch
from runtime.registry.models import Agent
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.queries import granted_kinds, recorded_versions, stored_documents

MOST_SHOWN = 50
_MOST_DIGITS = 9


def contract_of(row: CalibrationMap) -> CalibrationDocument:
    """The stored document, read once per body."""
    return stored_documents.calibration_of(bytes(row.body))


def state_of(row: CalibrationMap) -> CalibrationState:
    """A map is drafted, activated, and superseded or retired; or it is discarded."""
    if row.active:
        return CalibrationState.ACTIVE
    if row.discarded_at is not None:
        return CalibrationState.DISCARDED
    if row.retired_at is not None:
        return CalibrationState.RETIRED
    return CalibrationState.DRAFT if row.activated_at is None else CalibrationState.SUPERSEDED


def compare_active(
    *, agent: Agent, kind_name: str
) -> tuple[tuple[CalibrationDocument, ...], tuple[Mismatch, ...]]:
    """The active maps of an agent and kind, by impact, without those that the ledger has otherwise.

    Those are given as mismatches: who asks for calibrated confidence must not get the stated one instead.
    """
    found, wrong = [], []
    for row in _ACTIVE.rows(agent=agent.pk, kind=kind_name):
        mismatch = recorded_versions.compare_calibration(agent, row)
        if mismatch is None:
            found.append(contract_of(row))
        else:
            wrong.append(mismatch)
    return tuple(found), tuple(wrong)


def _active(*, agent: int, kind: str) -> QuerySet[CalibrationMap]:
    rows = CalibrationMap.objects.filter(agent=agent, policy_kind=kind, active=True)
    return rows.order_by("impact")


def _active_of(*, agents: list[int]) -> QuerySet[CalibrationMap]:
    rows = CalibrationMap.objects.filter(agent__id__in=agents, active=True).select_related("agent")
    return rows.order_by("impact")


_ACTIVE: Final = statements.Read(_active)
_ACTIVE_OF: Final = statements.Read(_active_of)


def get_active(*, agent: Agent, policy_kind: str, impact: str) -> CalibrationMap | None:
    """The active map of an agent, kind and impact, or None."""
    rows = CalibrationMap.objects.filter(agent=agent, policy_kind=policy_kind, impact=impact, active=True)
    return rows.first()


def get_version(*, agent: Agent, version: str) -> CalibrationMap | None:
    """One map by its number as text; None for any other text."""
    if not version.isascii() or not version.isdigit() or len(version) > _MOST_DIGITS:
        return None
    return CalibrationMap.objects.filter(agent=agent, version=int(version)).first()


def next_version(*, agent: Agent) -> int:
    """The number of the agent's next map. The caller holds the agent's lock."""
    return (CalibrationMap.objects.filter(agent=agent).aggregate(last=Max("version"))["last"] or 0) + 1


def newest_draft(*, agent: Agent, policy_kind: str, impact: Impact) -> CalibrationMap | None:
    """The newest map of an agent, kind and impact that waits for its activation, or None."""
    rows = CalibrationMap.objects.filter(agent=agent, policy_kind=policy_kind, impact=impact)
    return rows.filter(activated_at=None, discarded_at=None).order_by("-version").first()


def list_of_agent(agent: Agent) -> Sequence[CalibrationMap]:
    """The maps of an agent, the active ones first, then the newest; bounded."""
    return list(CalibrationMap.objects.filter(agent=agent).order_by("-active", "-version")[:MOST_SHOWN])


def list_active_of_kind(*, tenant: str, policy_kind: str) -> Sequence[CalibrationMap]:
    """The active maps for a policy kind, of every agent, in the order of their streams."""
    rows = CalibrationMap.objects.filter(agent__tenant=tenant, policy_kind=policy_kind, active=True)
    return list(rows.select_related("agent").order_by("agent__agent_id", "version"))


def list_active_of_agent(agent: Agent) -> Sequence[CalibrationMap]:
    """The active maps of an agent."""
    rows = CalibrationMap.objects.filter(agent=agent, active=True)
    return list(rows.select_related("agent").order_by("version"))


def list_active_bodies(agents: Collection[int]) -> dict[tuple[int, str], tuple[bytes, ...]]:
    """The bodies of active maps that are as recorded, by agent (pk) and kind, in the order of impacts."""
    found: dict[tuple[int, str], tuple[bytes, ...]] = {}
    for row in _ACTIVE_OF.rows(agents=sorted(agents)):
        if recorded_versions.compare_calibration(row.agent, row) is None:
            place = (row.agent_id, row.policy_kind)
            found[place] = (*found.get(place, ()), bytes(row.body))
    return found


def list_places(*, tenant: str, agent_id: str | None, policy_kind: str | None) -> list[tuple[str, str]]:
    """Agents and the kinds that their active manifests grant, for which maps may be drafted.

    Without `agent_id`, of the agents whose manifest asks for calibrated confidence.
    """
    rows = Agent.objects.of(tenant).select_related("active_manifest").order_by("agent_id")
    if agent_id is not None:
        rows = rows.filter(agent_id=agent_id)
    places = []
    for agent in rows:
        manifest = granted_kinds.manifest_of(agent)
        if manifest is None or (agent_id is None and manifest.confidence is ConfidenceUse.STATED):
            continue
        kinds = sorted(set(manifest.policy_kinds))
        places += [(agent.agent_id, kind) for kind in kinds if policy_kind in (None, kind)]
    return places
