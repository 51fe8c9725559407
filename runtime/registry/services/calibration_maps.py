"""Calibration maps: the one place that drafts them, activates them, discards drafts and retires them.

A map has no effect until another admin than its author activates it. It is retired for good when its policy
kind or the agent's model profile changes: what is known of another version says nothing of the new one.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from types import MappingProxyType

from audit import actors, events, ledger
from runtime.contracts.calibration import CalibrationDocument
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import CalibrationState
from runtime.core import transactions
from runtime.registry.models import Agent
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.queries import calibration_maps, granted_kinds, recorded_versions
from runtime.registry.services import agents, dual_control, versioned_documents
from runtime.registry.services.document_reading import DocumentProblem
from runtime.registry.services.versioned_documents import DraftText

KIND_CHANGED, MODEL_PROFILE_CHANGED = "the policy kind changed", "the model profile changed"


@transactions.retried
def activate(
    *, tenant: str, agent_id: str, version: str, seen_active: str, reason: str, actor: str
) -> CalibrationMap | Problem:
    """Activate a draft in place of `seen_active`, the map that was shown as active ("" for none)."""
    found = _find(tenant=tenant, agent_id=agent_id, version=version)
    if isinstance(found, Problem):
        return found
    return found.activate(version, seen_active=seen_active, reason=reason, actor=actor)


@transactions.retried
def discard(*, tenant: str, agent_id: str, version: str, reason: str, actor: str) -> CalibrationMap | Problem:
    """Mark a draft as one that is never activated; its row stays, and its number stays taken."""
    found = _find(tenant=tenant, agent_id=agent_id, version=version)
    if isinstance(found, Problem):
        return found
    return found.discard(version, reason=reason, actor=actor)


def retire_of_kind(*, tenant: str, policy_kind: str, actor: str, at: datetime) -> None:
    """Retire the active maps for a policy kind, in the transaction that activates a version of it."""
    active = calibration_maps.list_active_of_kind(tenant=tenant, policy_kind=policy_kind)
    _retire(active, because=KIND_CHANGED, actor=actor, at=at)


def retire_of_agent(agent: Agent, *, model_profile: str | None, actor: str, at: datetime) -> None:
    """Retire the active maps of an agent that were made under another model profile than its new one.

    The caller activates a manifest and holds the agent's lock.
    """
    others = [
        row
        for row in calibration_maps.list_active_of_agent(agent)
        if calibration_maps.contract_of(row).model_profile != model_profile
    ]
    _retire(others, because=MODEL_PROFILE_CHANGED, actor=actor, at=at)


def _retire(rows: Iterable[CalibrationMap], *, because: str, actor: str, at: datetime) -> None:
    for agent, maps in groupby(rows, key=lambda row: row.agent):
        entries = []
        for row in maps:
            still = CalibrationMap.objects.filter(pk=row.pk, active=True)
            if still.update(active=False, retired_at=at, retired_by=actor) != 1:
                raise transactions.ConcurrentUpdateError
            entries.append(
                events.CalibrationRetired(
                    agent_id=agent.agent_id,
                    version=str(row.version),
                    policy_kind=row.policy_kind,
                    impact=row.impact,
                    digest=row.digest,
                    because=because,
                )
            )
        stream = actors.agent(agent.agent_id)
        ledger.append_to(tenant=agent.tenant, stream=stream, actor=actor, at=at, events=entries)


class VersionedCalibration(versioned_documents.VersionedDocument[CalibrationMap, CalibrationDocument]):
    """The maps of one agent for one kind and impact. Who writes has locked the agent."""

    unsound = ProblemCode.CALIBRATION_OUTDATED
    swappable = MappingProxyType({"discarded_at": None, "retired_at": None})

    def __init__(self, agent: Agent, *, policy_kind: str, impact: str) -> None:
        super().__init__(tenant=agent.tenant, stream=actors.agent(agent.agent_id))
        self.agent, self.policy_kind, self.impact = agent, policy_kind, impact

    def lint(
        self, draft: DraftText[CalibrationDocument], contract: CalibrationDocument
    ) -> Iterable[tuple[DocumentProblem, LintSeverity]]:
        """Nothing: a map is worked out, never written by hand."""
        return ()

    def register(
        self, contract: CalibrationDocument, *, actor: str, at: datetime
    ) -> tuple[CalibrationMap, events.CalibrationDrafted]:
        row = CalibrationMap.objects.create(
            agent=self.agent,
            version=contract.version,
            policy_kind=contract.policy_kind,
            impact=contract.impact,
            pairs=contract.pairs,
            body=contract.to_bytes(),
            digest=contract.digest,
            created_at=at,
            created_by=actor,
        )
        return row, events.CalibrationDrafted(
            agent_id=self.agent.agent_id,
            version=str(row.version),
            policy_kind=row.policy_kind,
            impact=row.impact,
            digest=row.digest,
            pairs=row.pairs,
        )

    def lock_version(self, version: str) -> CalibrationMap | Problem:
        row = calibration_maps.get_version(agent=self.agent, version=version)
        if row is None:
            return _unknown(self.agent.agent_id, version)
        return row

    def get_active(self) -> CalibrationMap | None:
        return calibration_maps.get_active(agent=self.agent, policy_kind=self.policy_kind, impact=self.impact)

    def set_active(
        self, row: CalibrationMap, *, actor: str, at: datetime, reason: str = "", solo: bool = False
    ) -> events.CalibrationActivated:
        """Make a map the active one; with the entry to append.

        Raises `transactions.ConcurrentUpdateError` where the kind's activation retired the one before.
        """
        before = self.get_active()
        self.swap_in(row, before=before, actor=actor, at=at, reason=reason, solo=solo)
        return events.CalibrationActivated(
            agent_id=self.agent.agent_id,
            version=str(row.version),
            policy_kind=row.policy_kind,
            impact=row.impact,
            digest=row.digest,
            reason=reason,
            solo=solo,
            replaces="" if before is None else str(before.version),
        )

    def discarded(self, row: CalibrationMap) -> events.CalibrationDiscarded:
        return events.CalibrationDiscarded(
            agent_id=self.agent.agent_id,
            version=str(row.version),
            policy_kind=row.policy_kind,
            impact=row.impact,
            digest=row.digest,
            reason=row.reason,
        )

    def name_of(self, row: CalibrationMap) -> str:
        return str(row)

    def refuse_moved(self, row: CalibrationMap, *, active: str) -> Problem:
        said = f"Map {active} is active now" if active else "No map is active now"
        return Problem(code=ProblemCode.CALIBRATION_MOVED, detail=f"{said}. Review again what {row} changes.")

    def refuse_activation(self, row: CalibrationMap) -> Problem | None:
        state = calibration_maps.state_of(row)
        if state is not CalibrationState.DRAFT:
            detail = f"{row} is {state.lower()}: only a draft can be activated. Draft a new map."
            return Problem(code=ProblemCode.CALIBRATION_NOT_A_DRAFT, detail=detail[0].upper() + detail[1:])
        mismatch = recorded_versions.compare_drafted_calibration(self.agent, row)
        return dual_control.refuse_tampered(mismatch) or self._refuse_outdated(row)

    def refuse_discard(self, row: CalibrationMap) -> Problem | None:
        state = calibration_maps.state_of(row)
        if state is CalibrationState.DRAFT:
            return None
        detail = f"Map {row.version} is {state.lower()}: only a draft can be discarded."
        return Problem(code=ProblemCode.CALIBRATION_NOT_A_DRAFT, detail=detail)

    def _refuse_outdated(self, row: CalibrationMap) -> Problem | None:
        """Refuse a map of another version of the kind, or of another model."""
        contract = calibration_maps.contract_of(row)
        kind = granted_kinds.get_version(tenant=self.tenant, kind=row.policy_kind, version=None)
        if kind is None or kind.digest != contract.kind_digest:
            return _outdated(row, f"{row.policy_kind} has another version now")
        manifest = granted_kinds.manifest_of(self.agent)
        if manifest is None or manifest.model_profile != contract.model_profile:
            return _outdated(row, f"{self.agent.agent_id} has another model profile now")
        return None


def _find(*, tenant: str, agent_id: str, version: str) -> VersionedCalibration | Problem:
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    row = calibration_maps.get_version(agent=agent, version=version)
    if row is None:
        return _unknown(agent_id, version)
    return VersionedCalibration(agent, policy_kind=row.policy_kind, impact=row.impact)


def _unknown(agent_id: str, version: str) -> Problem:
    detail = f"{agent_id} has no calibration map {version}."
    return Problem(code=ProblemCode.NOT_FOUND, detail=detail)


def _outdated(row: CalibrationMap, why: str) -> Problem:
    detail = f"{why}: map {row.version} was made of proposals from before. Draft a new one, and discard it."
    return Problem(code=ProblemCode.CALIBRATION_OUTDATED, detail=detail)
