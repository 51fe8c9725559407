"""Manifests: the one place that registers versions and activates them.

A version is immutable. A draft grants nothing until another admin than its author activates it; nothing but
the agent's active manifest changes then: sessions, budgets and status stay as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from audit import actors, canonical, events, ledger
from runtime.contracts import recorded_only
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus, ManifestState
from runtime.core import clock, transactions
from runtime.kernel import manifest_lint, versions
from runtime.registry.models import Agent, Manifest
from runtime.registry.queries import manifest_versions, recorded_versions
from runtime.registry.services import agents, document_reading, dual_control
from runtime.registry.services.lint_results import LintMessage, LintResult

LONGEST_REASON = 500
MAX_DRAFT_CHARS = 100_000


def register(
    *, agent: Agent, contract: ManifestDocument, actor: str, at: datetime
) -> tuple[Manifest, events.ManifestRegistered]:
    """Store a version that grants nothing yet, in the caller's transaction; with the entry to append."""
    body = contract.to_bytes()
    row = Manifest.objects.create(
        agent=agent,
        version=contract.version,
        body=body,
        digest=canonical.digest(body),
        created_at=at,
        created_by=actor,
    )
    registered = events.ManifestRegistered(agent_id=agent.agent_id, version=row.version, digest=row.digest)
    return row, registered


def put_in_force(
    *, agent: Agent, row: Manifest, actor: str, at: datetime, reason: str = "", solo: bool = False
) -> events.ManifestActivated:
    """Make a version the agent's active one, in the caller's transaction, which holds the agent's lock."""
    row.activated_at, row.activated_by, row.reason, row.solo = at, actor, reason, solo
    row.save(update_fields=["activated_at", "activated_by", "reason", "solo"])
    Agent.objects.filter(pk=agent.pk).update(active_manifest=row)
    return events.ManifestActivated(
        agent_id=agent.agent_id, version=row.version, digest=row.digest, reason=reason, solo=solo
    )


def check(*, agent: Agent, text: str) -> LintResult[ManifestDocument]:
    """Read a draft's text (JSON, or YAML as in a pack) and report its problems. Writes nothing."""
    return _among_rows(_read(text), agent=agent)


@dataclass(frozen=True, slots=True)
class _ReadManifest:
    """A draft's text as it was read, and what is wrong with its form."""

    source: document_reading.Source
    contract: ManifestDocument | None
    problems: tuple[document_reading.DocumentProblem, ...] = ()


def _read(text: str) -> _ReadManifest:
    source = document_reading.Source(name="draft")
    if len(text) > MAX_DRAFT_CHARS:
        said = f"the text is longer than {MAX_DRAFT_CHARS} characters"
        return _ReadManifest(source, None, (document_reading.DocumentProblem((), said),))
    read = document_reading.read_document(text=text, source=source, contract=ManifestDocument)
    if not isinstance(read, ManifestDocument):
        return _ReadManifest(source, None, read)
    return _ReadManifest(source, read)


def _among_rows(read: _ReadManifest, *, agent: Agent) -> LintResult[ManifestDocument]:
    """What speaks against a draft for this agent, among the kinds and agents that there are now."""
    contract = read.contract
    if contract is None:
        wrong = (_remark(read.source, problem, is_wrong=True) for problem in read.problems)
        return LintResult(contract=None, remarks=tuple(dict.fromkeys(wrong)))
    found = manifest_lint.lint(contract, manifest_versions.registry_for(agent=agent, draft=contract))
    told = [(document_reading.DocumentProblem(item.place, item.message), item.is_wrong) for item in found]
    told += [
        (document_reading.DocumentProblem(place, recorded_only.WORDS), False)
        for place in recorded_only.places(contract)
    ]
    remarks = [_remark(read.source, problem, is_wrong=is_wrong) for problem, is_wrong in told]
    return LintResult(contract=contract, remarks=tuple(remarks))


def draft(*, tenant: str, agent_id: str, text: str, actor: str) -> Manifest | Problem:
    """Register the next version of an agent's manifest; 422 with a violation for each field that is wrong."""
    # Reading a long text takes a while, in which no one else could write.
    read = _read(text)

    def work() -> Manifest | Problem:
        agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
        if isinstance(agent, Problem):
            return agent
        if agent.status == AgentStatus.RETIRED:
            return Problem(
                code=ProblemCode.AGENT_RETIRED,
                status=409,
                detail=f"{agent_id} is retired and cannot get a new manifest.",
            )
        checked = _among_rows(read, agent=agent)
        if checked.contract is None or not checked.is_sound:
            return checked.refusal(code=ProblemCode.MANIFEST_UNSOUND)
        at = clock.now()
        row, registered = register(agent=agent, contract=checked.contract, actor=actor, at=at)
        _append(agent, actor, at, registered)
        return row

    return transactions.retry_on_conflict(work)


def may_activate(*, agent: Agent, row: Manifest, actor: str) -> dual_control.Approved | Problem:
    """Whether `actor` may activate a version now: one answer for the button and for the write."""
    match manifest_versions.state_of(row, active_id=agent.active_manifest_id):
        case ManifestState.ACTIVE:
            return Problem(code=ProblemCode.MANIFEST_ACTIVE, detail=f"{row.version} is already active.")
        case ManifestState.SUPERSEDED:
            said = f"{row.version} was active before. Draft a new version with the same content."
            return Problem(code=ProblemCode.MANIFEST_SUPERSEDED, detail=said)
        case ManifestState.DISCARDED:
            return Problem(
                code=ProblemCode.MANIFEST_DISCARDED,
                detail=f"{row.version} was discarded. Draft a new version.",
            )
        case ManifestState.DRAFT:
            return (
                dual_control.refuse_tampered(recorded_versions.compare_drafted_manifest(agent, row))
                or _unfit(agent, row)
                or dual_control.check(author=row.created_by, actor=actor, what=f"version {row.version}")
            )


def activate(
    *, tenant: str, agent_id: str, version: str, seen_active: str, reason: str, actor: str
) -> Manifest | Problem:
    """Activate a draft in place of `seen_active`, the version that was shown as active ("" for none).

    409 where another one was activated since: what the draft changes is no longer what was shown.
    """
    if (missing := _reason_missing(reason)) is not None:
        return missing

    def work(agent: Agent, row: Manifest) -> Manifest | Problem:
        in_force = agent.active_manifest.version if agent.active_manifest is not None else ""
        agreed = may_activate(agent=agent, row=row, actor=actor)
        if in_force != seen_active and row.pk != agent.active_manifest_id:
            now = in_force or "No version"
            said = f"{now} is active now. Review what this draft changes and decide again."
            return Problem(code=ProblemCode.MANIFEST_MOVED, detail=said)
        if isinstance(agreed, Problem):
            return agreed
        at = clock.now()
        activated = put_in_force(
            agent=agent, row=row, actor=actor, at=at, reason=reason.strip(), solo=agreed.solo
        )
        _append(agent, actor, at, activated)
        return row

    return _on_version(tenant, agent_id, version, work)


def discard(*, tenant: str, agent_id: str, version: str, reason: str, actor: str) -> Manifest | Problem:
    """Mark a draft as one that never comes into force; its row stays, and its version stays taken."""
    if (missing := _reason_missing(reason)) is not None:
        return missing

    def work(agent: Agent, row: Manifest) -> Manifest | Problem:
        if manifest_versions.state_of(row, active_id=agent.active_manifest_id) is not ManifestState.DRAFT:
            return Problem(
                code=ProblemCode.MANIFEST_NOT_A_DRAFT,
                detail=f"{row.version} is not a draft: only one can be discarded.",
            )
        row.discarded_at, row.discarded_by, row.reason = clock.now(), actor, reason.strip()
        row.save(update_fields=["discarded_at", "discarded_by", "reason"])
        discarded = events.ManifestDiscarded(
            agent_id=agent_id, version=row.version, digest=row.digest, reason=row.reason
        )
        _append(agent, actor, row.discarded_at, discarded)
        return row

    return _on_version(tenant, agent_id, version, work)


def _on_version(
    tenant: str, agent_id: str, version: str, work: Callable[[Agent, Manifest], Manifest | Problem]
) -> Manifest | Problem:
    def locked() -> Manifest | Problem:
        agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
        if isinstance(agent, Problem):
            return agent
        row = manifest_versions.get_version(agent=agent, version=version)
        if row is None:
            return Problem(code=ProblemCode.NOT_FOUND, detail=f"{agent_id} has no manifest {version}.")
        return work(agent, row)

    return transactions.retry_on_conflict(locked)


def _unfit(agent: Agent, row: Manifest) -> Problem | None:
    """What has come between a draft and its activation since it was saved."""
    if agent.status == AgentStatus.RETIRED:
        return Problem(
            code=ProblemCode.AGENT_RETIRED,
            status=409,
            detail=f"{agent.agent_id} is retired and cannot get a new manifest.",
        )
    active = agent.active_manifest
    if active is not None and not versions.is_later(row.version, active.version):
        said = f"{active.version} is active and is later. Draft a new version with the content of this one."
        return Problem(code=ProblemCode.MANIFEST_OVERTAKEN, detail=said)
    contract = manifest_versions.contract_of(row)
    against = manifest_versions.registry_for(agent=agent, draft=contract, besides=row.version)
    wrong = [
        item for item in manifest_lint.lint(contract, against) if item.is_wrong and item.place != ("version",)
    ]
    if not wrong:
        return None
    said = f"{document_reading.written(wrong[0].place)} {wrong[0].message}. Draft a new version."
    return Problem(code=ProblemCode.MANIFEST_UNSOUND, status=409, detail=said)


def _remark(
    source: document_reading.Source, problem: document_reading.DocumentProblem, *, is_wrong: bool
) -> LintMessage:
    return LintMessage(
        line=source.line(problem),
        field=document_reading.written(problem.place),
        message=problem.message,
        is_wrong=is_wrong,
    )


def _reason_missing(reason: str) -> Problem | None:
    if 0 < len(reason.strip()) <= LONGEST_REASON and "\x00" not in reason:
        return None
    said = f"Give a reason of at most {LONGEST_REASON} characters. It is kept in the ledger."
    return Problem(code=ProblemCode.REASON_MISSING, detail=said)


def _append(agent: Agent, actor: str, at: datetime, *added: events.Event) -> None:
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=actor, at=at, events=added)
