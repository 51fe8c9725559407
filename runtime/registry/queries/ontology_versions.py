"""Reads of the ontology and its versions, for their one writer, their calls and their pages."""

from collections.abc import Sequence

from audit.events import Kind
from runtime.contracts.ontology import OntologyDocument
from runtime.core.mismatches import Mismatch
from runtime.registry.models.ontologies import Ontology
from runtime.registry.queries import recorded_versions, stored_documents

MOST_VERSIONS = 200


def contract_of(row: Ontology) -> OntologyDocument:
    """The stored document, read once per body."""
    return stored_documents.ontology_of(bytes(row.body))


def get_active(*, tenant: str) -> Ontology | None:
    """The active version, or None."""
    return Ontology.objects.of(tenant).filter(active=True).first()


def get_version(*, tenant: str, version: str) -> Ontology | None:
    """One version, or None. PostgreSQL cannot even compare a text that has a NUL."""
    if "\x00" in version:
        return None
    return Ontology.objects.of(tenant).filter(version=version).first()


def find_in_force(*, tenant: str) -> OntologyDocument | Mismatch | None:
    """What the active version says; a mismatch where it is not what was activated."""
    row = get_active(tenant=tenant)
    if row is None:
        return None
    return recorded_versions.compare_ontology(row) or contract_of(row)


def compare(row: Ontology) -> Mismatch | None:
    """Whether a version is what was registered."""
    return recorded_versions.compare_ontology(row, by=Kind.ONTOLOGY_REGISTERED)


def lock_versions(*, tenant: str) -> Sequence[Ontology]:
    """Every version, locked in one order for this transaction."""
    return list(Ontology.objects.of(tenant).select_for_update().order_by("id"))


def list_versions(*, tenant: str) -> Sequence[Ontology]:
    """The versions, the active one first, then the newest; bounded."""
    return list(Ontology.objects.of(tenant).order_by("-active", "-id")[:MOST_VERSIONS])
