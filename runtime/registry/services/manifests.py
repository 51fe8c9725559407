"""Manifests: the one place that registers versions and activates them.

A version is immutable. A draft grants nothing until another admin than its author activates it; nothing but
the agent's active manifest changes then: sessions, budgets and status stay as they are.
"""

from collections.abc import Iterator
from datetime import datetime

from audit import actors, canonical, events
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, ManifestState
from runtime.core import transactions
from runtime.kernel import manifest_lint, versions
from runtime.registry.models import Agent, Manifest
from runtime.registry.queries import manifest_versions, recorded_versions
from runtime.registry.services import (
    agents,
    calibration_maps,
    document_reading,
    dual_control,
    versioned_documents,
)
from runtime.registry.services.document_reading import DocumentProblem
from runtime.registry.services.lint_results import LintResult
from runtime.registry.services.versioned_documents import DraftText

MAX_DRAFT_CHARS = 100_000


def check(*, agent: Agent, text: str) -> LintResult[ManifestDocument]:
    """Read a draft's text (JSON, or YAML as in a pack) and report its problems. Writes nothing."""
    return AgentManifest(agent).check(_read(text))


def draft(*, tenant: str, agent_id: str, text: str, actor: str) -> Manifest | Problem:
    """Register the next version of an agent's manifest; 422 with a violation for each field that is wrong."""
    # Reading a long text takes a while, in which no one else could write.
    draft_text = _read(text)

    @transactions.retried
    def work() -> Manifest | Problem:
        agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
        if isinstance(agent, Problem):
            return agent
        return _refuse_retired(agent) or AgentManifest(agent).save(draft_text, actor=actor)

    return work()


@transactions.retried
def activate(
    *, tenant: str, agent_id: str, version: str, seen_active: str, reason: str, actor: str
) -> Manifest | Problem:
    """Activate a draft in place of `seen_active`, the version that was shown as active ("" for none)."""
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    return AgentManifest(agent).activate(version, seen_active=seen_active, reason=reason, actor=actor)


@transactions.retried
def discard(*, tenant: str, agent_id: str, version: str, reason: str, actor: str) -> Manifest | Problem:
    """Mark a draft as one that is never activated; its row stays, and its version number stays taken."""
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    return AgentManifest(agent).discard(version, reason=reason, actor=actor)


class AgentManifest(versioned_documents.VersionedDocument[Manifest, ManifestDocument]):
    """The manifest of one agent. Who writes has locked the agent, and with it which version is active."""

    unsound = ProblemCode.MANIFEST_UNSOUND

    def __init__(self, agent: Agent) -> None:
        super().__init__(tenant=agent.tenant, stream=actors.agent(agent.agent_id))
        self.agent = agent

    def lint(
        self, draft: DraftText[ManifestDocument], contract: ManifestDocument
    ) -> Iterator[tuple[DocumentProblem, LintSeverity]]:
        against = manifest_versions.registry_for(agent=self.agent, draft=contract)
        for item in manifest_lint.lint(contract, against):
            severity = LintSeverity.ERROR if item.is_wrong else LintSeverity.WARNING
            yield DocumentProblem(item.place, item.message), severity

    def register(
        self, contract: ManifestDocument, *, actor: str, at: datetime
    ) -> tuple[Manifest, events.ManifestRegistered]:
        body = contract.to_bytes()
        row = Manifest.objects.create(
            agent=self.agent,
            version=contract.version,
            body=body,
            digest=canonical.digest(body),
            created_at=at,
            created_by=actor,
        )
        return row, events.ManifestRegistered(
            agent_id=self.agent.agent_id, version=row.version, digest=row.digest
        )

    def lock_version(self, version: str) -> Manifest | Problem:
        row = manifest_versions.get_version(agent=self.agent, version=version)
        if row is None:
            detail = f"{self.agent.agent_id} has no manifest {version}."
            return Problem(code=ProblemCode.NOT_FOUND, detail=detail)
        return row

    def get_active(self) -> Manifest | None:
        return self.agent.active_manifest

    def set_active(
        self, row: Manifest, *, actor: str, at: datetime, reason: str = "", solo: bool = False
    ) -> events.ManifestActivated:
        versioned_documents.note_activation(row, actor=actor, at=at, reason=reason, solo=solo)
        Agent.objects.filter(pk=self.agent.pk).update(active_manifest=row)
        profile = manifest_versions.contract_of(row).model_profile
        calibration_maps.retire_of_agent(self.agent, model_profile=profile, actor=actor, at=at)
        return events.ManifestActivated(
            agent_id=self.agent.agent_id, version=row.version, digest=row.digest, reason=reason, solo=solo
        )

    def discarded(self, row: Manifest) -> events.ManifestDiscarded:
        return events.ManifestDiscarded(
            agent_id=self.agent.agent_id, version=row.version, digest=row.digest, reason=row.reason
        )

    def name_of(self, row: Manifest) -> str:
        return f"version {row.version}"

    def refuse_moved(self, row: Manifest, *, active: str) -> Problem:
        detail = f"{active or 'No version'} is active now. Review what this draft changes and decide again."
        return Problem(code=ProblemCode.MANIFEST_MOVED, detail=detail)

    def refuse_activation(self, row: Manifest) -> Problem | None:
        match manifest_versions.state_of(row, active_id=self.agent.active_manifest_id):
            case ManifestState.ACTIVE:
                detail = f"{row.version} is already active."
                return Problem(code=ProblemCode.MANIFEST_ACTIVE, detail=detail)
            case ManifestState.SUPERSEDED:
                detail = f"{row.version} was active before. Draft a new version with the same content."
                return Problem(code=ProblemCode.MANIFEST_SUPERSEDED, detail=detail)
            case ManifestState.DISCARDED:
                detail = f"{row.version} was discarded. Draft a new version."
                return Problem(code=ProblemCode.MANIFEST_DISCARDED, detail=detail)
            case ManifestState.DRAFT:
                mismatch = recorded_versions.compare_drafted_manifest(self.agent, row)
                return (
                    dual_control.refuse_tampered(mismatch)
                    or _refuse_retired(self.agent)
                    or self._refuse_unfit(row)
                )

    def refuse_discard(self, row: Manifest) -> Problem | None:
        state = manifest_versions.state_of(row, active_id=self.agent.active_manifest_id)
        if state is ManifestState.DRAFT:
            return None
        detail = f"{row.version} is not a draft: only one can be discarded."
        return Problem(code=ProblemCode.MANIFEST_NOT_A_DRAFT, detail=detail)

    def _refuse_unfit(self, row: Manifest) -> Problem | None:
        """Refuse a draft that a later version, another kind or another agent has overtaken."""
        active = self.agent.active_manifest
        if active is not None and not versions.is_later(row.version, active.version):
            detail = (
                f"{active.version} is active and is later. Draft a new version with the content of this one."
            )
            return Problem(code=ProblemCode.MANIFEST_OVERTAKEN, detail=detail)
        contract = manifest_versions.contract_of(row)
        against = manifest_versions.registry_for(agent=self.agent, draft=contract, besides=row.version)
        for item in manifest_lint.lint(contract, against):
            if item.is_wrong and item.place != ("version",):
                detail = f"{document_reading.written(item.place)} {item.message}. Draft a new version."
                return Problem(code=ProblemCode.MANIFEST_UNSOUND, status=409, detail=detail)
        return None


def _read(text: str) -> DraftText[ManifestDocument]:
    return versioned_documents.read(text, contract=ManifestDocument, max_chars=MAX_DRAFT_CHARS)


def _refuse_retired(agent: Agent) -> Problem | None:
    if agent.status != AgentStatus.RETIRED:
        return None
    detail = f"{agent.agent_id} is retired and cannot get a new manifest."
    return Problem(code=ProblemCode.AGENT_RETIRED, status=409, detail=detail)
