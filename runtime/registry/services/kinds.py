"""Policy kinds: the one place that registers versions, activates them and discards drafts.

A version is immutable under its number. A draft rules nothing until another admin than its author activates
it; the version before is superseded, and may be activated again. What was judged stays judged under the
version it was judged under; contexts and sessions stay as they are.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from audit import actors, events
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import KindState
from runtime.core import ports, transactions
from runtime.registry.models import PolicyKind
from runtime.registry.queries import (
    kind_versions,
    manifest_versions,
    recorded_versions,
    ruleset_versions,
    target_endpoints,
    version_states,
)
from runtime.registry.services import (
    calibration_maps,
    document_checks,
    document_reading,
    dual_control,
    ruleset_checks,
    versioned_documents,
)
from runtime.registry.services.document_reading import DocumentProblem
from runtime.registry.services.lint_results import LintResult
from runtime.registry.services.versioned_documents import DraftText

MAX_DRAFT_CHARS = 200_000


def check(*, tenant: str, text: str, kind: str = "") -> LintResult[KindDocument]:
    """Read a draft's text (YAML as in a pack, or JSON) and report its problems. Writes nothing.

    With `kind`, the text must be a version of that kind.
    """
    return VersionedKind(tenant, kind).check(_read(text))


def draft(*, tenant: str, text: str, actor: str, kind: str = "") -> PolicyKind | Problem:
    """Register a version from text; 422 with a violation for each field that is wrong.

    The very same version again is the row that is there: a form sent twice drafts once.
    """
    # Reading and linting may take seconds, in which no one else could write.
    draft_text = _read(text)
    return transactions.retry_on_conflict(lambda: VersionedKind(tenant, kind).save(draft_text, actor=actor))


def activate(
    *, tenant: str, kind: str, version: str, seen_active: str, reason: str, actor: str
) -> PolicyKind | Problem:
    """Activate a version in place of `seen_active`, the version that was shown as active ("" for none)."""
    drafted = kind_versions.get_version(tenant=tenant, kind=kind, version=version)
    if drafted is not None:
        # Linting may take seconds. Kept for the check with the row locked: a version never changes.
        kind_versions.lint_of(drafted)
    return transactions.retry_on_conflict(
        lambda: VersionedKind(tenant, kind).activate(
            version, seen_active=seen_active, reason=reason, actor=actor
        )
    )


@transactions.retried
def discard(*, tenant: str, kind: str, version: str, reason: str, actor: str) -> PolicyKind | Problem:
    """Mark a draft as one that is never activated; its row stays, and its version number stays taken."""
    return VersionedKind(tenant, kind).discard(version, reason=reason, actor=actor)


class VersionedKind(versioned_documents.VersionedDocument[PolicyKind, KindDocument]):
    """One policy kind; the name is empty where a draft may be of any kind."""

    unsound = ProblemCode.KIND_UNSOUND

    def __init__(self, tenant: str, kind: str) -> None:
        super().__init__(tenant=tenant, stream=actors.SYSTEM)
        self.kind = kind

    def lint(
        self, draft: DraftText[KindDocument], contract: KindDocument
    ) -> Iterator[tuple[DocumentProblem, LintSeverity]]:
        for problem in _misfits(self.tenant, contract, draft.problems):
            yield problem, LintSeverity.ERROR
        if self.kind and contract.kind != self.kind:
            said = f"this is the page of {self.kind}; a new kind has its own"
            yield DocumentProblem(("kind",), said), LintSeverity.ERROR
            return
        taken = kind_versions.list_version_names(tenant=self.tenant, kind=contract.kind)
        for problem in versioned_documents.lint_number(contract.version, taken):
            yield problem, LintSeverity.ERROR

    def get_same(self, contract: KindDocument, *, actor: str) -> PolicyKind | None:
        row = kind_versions.get_version(tenant=self.tenant, kind=contract.kind, version=contract.version)
        is_same = row is not None and (row.digest, row.created_by) == (contract.digest, actor)
        return row if is_same else None

    def register(
        self, contract: KindDocument, *, actor: str, at: datetime
    ) -> tuple[PolicyKind, events.KindRegistered]:
        row = PolicyKind.objects.create(
            tenant=self.tenant,
            kind=contract.kind,
            version=contract.version,
            title=contract.title,
            risk_tier=contract.risk_tier,
            body=contract.to_bytes(),
            digest=contract.digest,
            created_at=at,
            created_by=actor,
        )
        return row, events.KindRegistered(policy_kind=row.kind, version=row.version, digest=row.digest)

    def lock_version(self, version: str) -> PolicyKind | Problem:
        # All versions of the kind: who activates another one waits here, and then sees this one active.
        for row in kind_versions.lock_versions(tenant=self.tenant, kind=self.kind):
            if row.version == version:
                return row
        return Problem(code=ProblemCode.NOT_FOUND, detail="No policy kind has this name and version.")

    def get_active(self) -> PolicyKind | None:
        return kind_versions.get_active(tenant=self.tenant, kind=self.kind)

    def set_active(
        self, row: PolicyKind, *, actor: str, at: datetime, reason: str = "", solo: bool = False
    ) -> events.KindActivated:
        """Make a version the active one; with the entry to append.

        Raises `transactions.ConcurrentUpdateError` where another version came or went between the caller's
        read and this write.
        """
        before = self.get_active()
        self.swap_in(row, before=before, actor=actor, at=at, reason=reason, solo=solo)
        calibration_maps.retire_of_kind(tenant=self.tenant, policy_kind=row.kind, actor=actor, at=at)
        return events.KindActivated(
            policy_kind=row.kind,
            version=row.version,
            digest=row.digest,
            reason=reason,
            solo=solo,
            replaces="" if before is None else before.version,
        )

    def discarded(self, row: PolicyKind) -> events.KindDiscarded:
        return events.KindDiscarded(
            policy_kind=row.kind, version=row.version, digest=row.digest, reason=row.reason
        )

    def name_of(self, row: PolicyKind) -> str:
        return f"{row.kind} {row.version}"

    def refuse_moved(self, row: PolicyKind, *, active: str) -> Problem:
        detail = f"{active or 'No version'} is active now. Review again what {row.version} changes."
        return Problem(code=ProblemCode.KIND_MOVED, detail=detail)

    def refuse_activation(self, row: PolicyKind) -> Problem | None:
        match version_states.state_of(row):
            case KindState.ACTIVE:
                detail = f"{self.name_of(row)} is already active."
                return Problem(code=ProblemCode.KIND_ACTIVE, detail=detail)
            case KindState.DISCARDED:
                detail = f"{self.name_of(row)} was discarded. Draft a new version."
                return Problem(code=ProblemCode.KIND_DISCARDED, detail=detail)
            case KindState.DRAFT | KindState.SUPERSEDED:
                mismatch = recorded_versions.compare_drafted_kind(row)
                return dual_control.refuse_tampered(mismatch) or self._refuse_unsound(row)

    def refuse_discard(self, row: PolicyKind) -> Problem | None:
        if version_states.state_of(row) is KindState.DRAFT:
            return None
        detail = f"{self.name_of(row)} is not a draft: only one can be discarded."
        return Problem(code=ProblemCode.KIND_NOT_A_DRAFT, detail=detail)

    def _refuse_unsound(self, row: PolicyKind) -> Problem | None:
        """Refuse what today's linter, targets, resources or manifests speak against."""
        linted = tuple(DocumentProblem(item.place, item.message) for item in kind_versions.lint_of(row))
        wrong = _misfits(self.tenant, kind_versions.contract_of(row), linted)
        if not wrong:
            return None
        detail = f"{document_reading.written(wrong[0].place)}: {wrong[0].message}. Draft a new version."
        return Problem(code=ProblemCode.KIND_UNSOUND, status=409, detail=detail)


def _read(text: str) -> DraftText[KindDocument]:
    """Read and lint a text; no row is read."""
    draft_text = versioned_documents.read(text, contract=KindDocument, max_chars=MAX_DRAFT_CHARS, tab_width=2)
    if draft_text.contract is None:
        return draft_text
    return replace(draft_text, problems=document_checks.lint(draft_text.contract))


def _misfits(
    tenant: str, contract: KindDocument, linted: document_checks.Linted
) -> tuple[DocumentProblem, ...]:
    """What is wrong with a kind in itself, or among the targets, resources and manifests that there are."""
    return (
        *document_checks.kind_problems(
            contract,
            linted=linted,
            targets=target_endpoints.list_honouring(tenant=tenant),
            resources=ports.list_resource_names(tenant=tenant),
            servers=target_endpoints.list_servers(tenant=tenant),
        ),
        *ruleset_checks.kind_problems(
            contract, ruleset_versions.list_documents(tenant=tenant, names=contract.rulesets)
        ),
        *document_checks.monitor_problems(
            contract, manifest_versions.list_monitors_of(tenant=tenant, kind=contract.kind)
        ),
    )
