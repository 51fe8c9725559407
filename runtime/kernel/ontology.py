"""What an ontology says of a fact: which declaration is about it, and whether a write fits that."""

from collections.abc import Collection, Iterator
from typing import Any

from runtime.contracts.ontology import FactType, OntologyDocument
from runtime.kernel import schemas


def find_type(document: OntologyDocument, path: str) -> FactType | None:
    """The declaration of a fact: the exact one, or else that with the longest beginning."""
    found: FactType | None = None
    for declared in document.facts:
        if declared.prefix is None:
            if declared.path == path:
                return declared
        elif path.startswith(declared.prefix) and (found is None or len(declared.path) > len(found.path)):
            found = declared
    return found


def why_unfit(document: OntologyDocument, *, path: str, value: Any) -> str | None:
    """Why a value is none that the fact may have, as a sentence; None where it may."""
    declared = find_type(document, path)
    if declared is None or declared.value_schema is None:
        return None
    broken = schemas.violations(declared.value_schema, value)
    if not broken:
        return None
    where = f" at {broken[0].pointer}" if broken[0].pointer else ""
    named = f"{path} is declared as {declared.path} in {document.schema_version}"
    return f"{named}, and its value does not fit{where}: {broken[0].message}."


def why_foreign(document: OntologyDocument, *, path: str, writer: str) -> str | None:
    """Why this writer may not write the fact, as a sentence; None where it may."""
    declared = find_type(document, path)
    if declared is None or declared.writer is None or declared.writer == writer:
        return None
    return (
        f"{path} is declared as {declared.path} in {document.schema_version}, which comes from "
        f"{declared.writer}, and {writer} is another source."
    )


def has_tags(document: OntologyDocument, *, path: str, tags: Collection[str]) -> bool:
    """Whether the fact is declared with all of these tags."""
    declared = find_type(document, path)
    return declared is not None and set(tags) <= set(declared.tags)


def lint(document: OntologyDocument) -> Iterator[tuple[int, str]]:
    """What is wrong with an ontology: the place of a declaration, and a sentence."""
    for at, declared in enumerate(document.facts):
        if declared.value_schema is not None:
            for sentence in schemas.check_schema(declared.value_schema):
                yield at, sentence
