"""The ontology: the one place that registers versions, activates them and discards drafts.

A version is immutable under its number, and has no effect until another admin than its author activates it.
From then on, what feeds write must fit it; facts that are there already stay as they are.
"""

from collections.abc import Iterator
from datetime import datetime

from audit import actors, events
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.ontology import OntologyDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import KindState
from runtime.core import transactions
from runtime.kernel import ontology as rules
from runtime.registry.models.ontologies import Ontology
from runtime.registry.queries import ontology_versions, recorded_versions, version_states
from runtime.registry.services import dual_control, versioned_documents
from runtime.registry.services.document_reading import DocumentProblem
from runtime.registry.services.versioned_documents import DraftText


@transactions.retried
def activate(*, tenant: str, version: str, seen_active: str, reason: str, actor: str) -> Ontology | Problem:
    """Activate a version in place of `seen_active`, the version that was shown as active ("" for none)."""
    return VersionedOntology(tenant).activate(version, seen_active=seen_active, reason=reason, actor=actor)


@transactions.retried
def discard(*, tenant: str, version: str, reason: str, actor: str) -> Ontology | Problem:
    """Mark a draft as one that is never activated; its row stays, and its version number stays taken."""
    return VersionedOntology(tenant).discard(version, reason=reason, actor=actor)


def problems(document: OntologyDocument) -> Iterator[DocumentProblem]:
    """What keeps an ontology from being registered."""
    for at, sentence in rules.lint(document):
        yield DocumentProblem(("facts", at, "schema"), sentence)


class VersionedOntology(versioned_documents.VersionedDocument[Ontology, OntologyDocument]):
    """The ontology of a tenant with its versions."""

    unsound = ProblemCode.ONTOLOGY_UNSOUND

    def __init__(self, tenant: str) -> None:
        super().__init__(tenant=tenant, stream=actors.SYSTEM)

    def lint(
        self, draft: DraftText[OntologyDocument], contract: OntologyDocument
    ) -> Iterator[tuple[DocumentProblem, LintSeverity]]:
        for problem in problems(contract):
            yield problem, LintSeverity.ERROR

    def register(
        self, contract: OntologyDocument, *, actor: str, at: datetime
    ) -> tuple[Ontology, events.OntologyRegistered]:
        row = Ontology.objects.create(
            tenant=self.tenant,
            version=contract.schema_version,
            body=contract.to_bytes(),
            digest=contract.digest,
            created_at=at,
            created_by=actor,
        )
        return row, events.OntologyRegistered(version=row.version, digest=row.digest)

    def lock_version(self, version: str) -> Ontology | Problem:
        # All versions: who activates another one waits here, and then sees this one active.
        for row in ontology_versions.lock_versions(tenant=self.tenant):
            if row.version == version:
                return row
        return Problem(code=ProblemCode.NOT_FOUND, detail="No version of the ontology has this number.")

    def get_active(self) -> Ontology | None:
        return ontology_versions.get_active(tenant=self.tenant)

    def set_active(
        self, row: Ontology, *, actor: str, at: datetime, reason: str = "", solo: bool = False
    ) -> events.OntologyActivated:
        """Make a version the active one; with the entry to append.

        Raises `transactions.ConcurrentUpdateError` where another version came or went between the caller's
        read and this write.
        """
        before = self.get_active()
        self.swap_in(row, before=before, actor=actor, at=at, reason=reason, solo=solo)
        return events.OntologyActivated(
            version=row.version,
            digest=row.digest,
            reason=reason,
            solo=solo,
            replaces="" if before is None else before.version,
        )

    def discarded(self, row: Ontology) -> events.OntologyDiscarded:
        return events.OntologyDiscarded(version=row.version, digest=row.digest, reason=row.reason)

    def name_of(self, row: Ontology) -> str:
        return str(row)

    def refuse_moved(self, row: Ontology, *, active: str) -> Problem:
        detail = f"{active or 'No version'} is active now. Review again what {row.version} changes."
        return Problem(code=ProblemCode.ONTOLOGY_MOVED, detail=detail)

    def refuse_activation(self, row: Ontology) -> Problem | None:
        match version_states.state_of(row):
            case KindState.ACTIVE:
                return Problem(code=ProblemCode.ONTOLOGY_ACTIVE, detail=f"{row} is already active.")
            case KindState.DISCARDED:
                detail = f"{row} was discarded. Load a new version."
                return Problem(code=ProblemCode.ONTOLOGY_DISCARDED, detail=detail)
            case KindState.DRAFT | KindState.SUPERSEDED:
                return dual_control.refuse_tampered(recorded_versions.compare_drafted_ontology(row))

    def refuse_discard(self, row: Ontology) -> Problem | None:
        if version_states.state_of(row) is KindState.DRAFT:
            return None
        detail = f"{row} is not a draft: only one can be discarded."
        return Problem(code=ProblemCode.ONTOLOGY_NOT_A_DRAFT, detail=detail)
