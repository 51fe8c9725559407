"""Rulesets: the one place that registers versions, activates them and discards drafts.

A version is immutable under its number, and has no effect until another admin than its author activates it. A
policy kind names the version that it is bound to, so activating another one changes no verdict.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from audit import actors, events
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.states import KindState
from runtime.core import transactions
from runtime.kernel.rulesets import cedar, linter
from runtime.registry.models import Ruleset
from runtime.registry.queries import recorded_versions, ruleset_versions, version_states
from runtime.registry.services import document_reading, dual_control, versioned_documents
from runtime.registry.services.document_reading import DocumentProblem
from runtime.registry.services.lint_results import LintResult
from runtime.registry.services.versioned_documents import DraftText

MAX_DRAFT_CHARS = 400_000


def check(*, tenant: str, text: str, ruleset: str) -> LintResult[RulesetDocument]:
    """Read a draft's text (YAML as in a pack, or JSON) and report its problems. Writes nothing."""
    return VersionedRuleset(tenant, ruleset).check(_read(text))


def draft(*, tenant: str, text: str, actor: str, ruleset: str) -> Ruleset | Problem:
    """Register a version from text; 422 with a violation for each field that is wrong.

    The very same version again is the row that is there: a form sent twice drafts once.
    """
    # Reading and linting may take seconds, in which no one else could write.
    draft_text = _read(text)
    return transactions.retry_on_conflict(
        lambda: VersionedRuleset(tenant, ruleset).save(draft_text, actor=actor)
    )


@transactions.retried
def activate(
    *, tenant: str, ruleset: str, version: str, seen_active: str, reason: str, actor: str
) -> Ruleset | Problem:
    """Activate a version in place of `seen_active`, the version that was shown as active ("" for none)."""
    return VersionedRuleset(tenant, ruleset).activate(
        version, seen_active=seen_active, reason=reason, actor=actor
    )


@transactions.retried
def discard(*, tenant: str, ruleset: str, version: str, reason: str, actor: str) -> Ruleset | Problem:
    """Mark a draft as one that is never activated; its row stays, and its version number stays taken."""
    return VersionedRuleset(tenant, ruleset).discard(version, reason=reason, actor=actor)


class VersionedRuleset(versioned_documents.VersionedDocument[Ruleset, RulesetDocument]):
    """One ruleset with its versions."""

    unsound = ProblemCode.RULESET_UNSOUND

    def __init__(self, tenant: str, ruleset: str) -> None:
        super().__init__(tenant=tenant, stream=actors.SYSTEM)
        self.ruleset = ruleset

    def lint(
        self, draft: DraftText[RulesetDocument], contract: RulesetDocument
    ) -> Iterator[tuple[DocumentProblem, LintSeverity]]:
        for finding in linter.lint(contract):
            yield DocumentProblem(finding.place, finding.message), finding.severity
        if contract.ruleset != self.ruleset:
            said = f"this is the page of {self.ruleset}; a new ruleset comes with a pack"
            yield DocumentProblem(("ruleset",), said), LintSeverity.ERROR
            return
        taken = frozenset(
            row.version
            for row in ruleset_versions.list_versions(tenant=self.tenant, ruleset=contract.ruleset)
        )
        for problem in versioned_documents.lint_number(contract.version, taken):
            yield problem, LintSeverity.ERROR

    def get_same(self, contract: RulesetDocument, *, actor: str) -> Ruleset | None:
        row = ruleset_versions.get_version(
            tenant=self.tenant, ruleset=contract.ruleset, version=contract.version
        )
        is_same = row is not None and (row.digest, row.created_by) == (contract.digest, actor)
        return row if is_same and contract.ruleset == self.ruleset else None

    def register(
        self, contract: RulesetDocument, *, actor: str, at: datetime
    ) -> tuple[Ruleset, events.RulesetRegistered]:
        row = Ruleset.objects.create(
            tenant=self.tenant,
            ruleset=contract.ruleset,
            version=contract.version,
            body=contract.to_bytes(),
            digest=contract.digest,
            created_at=at,
            created_by=actor,
        )
        return row, events.RulesetRegistered(ruleset=row.ruleset, version=row.version, digest=row.digest)

    def lock_version(self, version: str) -> Ruleset | Problem:
        # All versions: who activates another one waits here, and then sees this one active.
        for row in ruleset_versions.lock_versions(tenant=self.tenant, ruleset=self.ruleset):
            if row.version == version:
                return row
        return Problem(code=ProblemCode.NOT_FOUND, detail="No ruleset has this name and version.")

    def get_active(self) -> Ruleset | None:
        return ruleset_versions.get_active(tenant=self.tenant, ruleset=self.ruleset)

    def set_active(
        self, row: Ruleset, *, actor: str, at: datetime, reason: str = "", solo: bool = False
    ) -> events.RulesetActivated:
        """Make a version the active one; with the entry to append.

        Raises `transactions.ConcurrentUpdateError` where another version came or went between the caller's
        read and this write.
        """
        before = self.get_active()
        self.swap_in(row, before=before, actor=actor, at=at, reason=reason, solo=solo)
        return events.RulesetActivated(
            ruleset=row.ruleset,
            version=row.version,
            digest=row.digest,
            reason=reason,
            solo=solo,
            replaces="" if before is None else before.version,
        )

    def discarded(self, row: Ruleset) -> events.RulesetDiscarded:
        return events.RulesetDiscarded(
            ruleset=row.ruleset, version=row.version, digest=row.digest, reason=row.reason
        )

    def name_of(self, row: Ruleset) -> str:
        return str(row)

    def refuse_moved(self, row: Ruleset, *, active: str) -> Problem:
        detail = f"{active or 'No version'} is active now. Review again what {row.version} changes."
        return Problem(code=ProblemCode.RULESET_MOVED, detail=detail)

    def refuse_activation(self, row: Ruleset) -> Problem | None:
        match version_states.state_of(row):
            case KindState.ACTIVE:
                return Problem(code=ProblemCode.RULESET_ACTIVE, detail=f"{row} is already active.")
            case KindState.DISCARDED:
                detail = f"{row} was discarded. Draft a new version."
                return Problem(code=ProblemCode.RULESET_DISCARDED, detail=detail)
            case KindState.DRAFT | KindState.SUPERSEDED:
                mismatch = recorded_versions.compare_drafted_ruleset(row)
                return dual_control.refuse_tampered(mismatch) or _refuse_unsound(row)

    def refuse_discard(self, row: Ruleset) -> Problem | None:
        if version_states.state_of(row) is KindState.DRAFT:
            return None
        detail = f"{row} is not a draft: only one can be discarded."
        return Problem(code=ProblemCode.RULESET_NOT_A_DRAFT, detail=detail)


def _refuse_unsound(row: Ruleset) -> Problem | None:
    """Refuse what today's linter speaks against."""
    wrong = linter.errors(ruleset_versions.contract_of(row))
    if not wrong:
        return None
    detail = f"{document_reading.written(wrong[0].place)}: {wrong[0].message}. Draft a new version."
    return Problem(code=ProblemCode.RULESET_UNSOUND, status=409, detail=detail)


def _read(text: str) -> DraftText[RulesetDocument]:
    """Read a text, with what is filled in for its author; no row is read."""
    found = versioned_documents.read(text, contract=RulesetDocument, max_chars=MAX_DRAFT_CHARS, tab_width=2)
    return found if found.contract is None else replace(found, contract=cedar.pin(found.contract))
