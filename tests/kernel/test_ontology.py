"""What an ontology says of a fact: the declaration that counts, and what does not fit it."""

from typing import Any

import pytest

from runtime.contracts.ontology import OntologyDocument
from runtime.kernel import ontology

DOCUMENT = OntologyDocument.model_validate_json(
    """{"schema_version": "1.0.0", "facts": [
    {"path": "account.*", "schema": {"type": "object", "required": ["cents"]}, "tags": ["money"],
     "source": "ledger"},
    {"path": "account.EU-*", "schema": {"type": "integer"}, "tags": ["money", "eu"]},
    {"path": "account.EU-1", "source": "intent:x", "max_age_s": 60},
    {"path": "price.*", "schema": {"type": "number", "minimum": 0}, "unit": "cents"}]}"""
)


@pytest.mark.parametrize(
    ("path", "declared"),
    [
        ("account.A", "account.*"),
        ("account.EU-7", "account.EU-*"),
        ("account.EU-1", "account.EU-1"),
        ("price.X", "price.*"),
        ("accounts.A", None),
    ],
)
def test_the_narrowest_declaration_counts(path: str, declared: str | None) -> None:
    found = ontology.find_type(DOCUMENT, path)
    assert (found and found.path) == declared


@pytest.mark.parametrize(
    ("path", "value", "fits"),
    [
        ("account.A", {"cents": 1}, True),
        ("account.A", {}, False),
        ("account.EU-7", 1, True),
        ("account.EU-1", "anything", True),
        ("price.X", -1, False),
        ("market.state", None, True),
    ],
)
def test_a_value_fits_the_schema_of_its_declaration(path: str, value: Any, fits: bool) -> None:
    said = ontology.why_unfit(DOCUMENT, path=path, value=value)
    assert (said is None) == fits
    assert fits or (said is not None and said.startswith(f"{path} is declared as "))


def test_the_place_in_the_value_is_named() -> None:
    document = OntologyDocument.model_validate_json(
        '{"schema_version": "1.0.0", "facts": [{"path": "a.b", '
        '"schema": {"properties": {"cents": {"type": "integer"}}}}]}'
    )
    assert " at /cents: " in str(ontology.why_unfit(document, path="a.b", value={"cents": "x"}))


@pytest.mark.parametrize(
    ("path", "writer", "may"),
    [
        ("account.A", "feed:ledger", True),
        ("account.A", "feed:other", False),
        ("account.EU-7", "feed:other", True),
        ("account.EU-1", "feed:ledger", False),
        ("market.state", "feed:other", True),
    ],
)
def test_a_fact_comes_from_its_source(path: str, writer: str, may: bool) -> None:
    assert (ontology.why_foreign(DOCUMENT, path=path, writer=writer) is None) == may


@pytest.mark.parametrize(
    ("path", "tags", "has"),
    [
        ("account.A", ["money"], True),
        ("account.A", ["money", "eu"], False),
        ("account.EU-7", ["eu", "money"], True),
        ("market.state", ["money"], False),
    ],
)
def test_a_fact_has_the_tags_of_its_declaration(path: str, tags: list[str], has: bool) -> None:
    assert ontology.has_tags(DOCUMENT, path=path, tags=tags) is has


def test_a_schema_that_cannot_be_used_is_named() -> None:
    assert list(ontology.lint(DOCUMENT)) == []
    wrong = OntologyDocument.model_validate_json(
        '{"schema_version": "1.0.0", "facts": [{"path": "a.b"}, {"path": "a.c", "schema": {"type": 7}}]}'
    )
    assert [at for at, _ in ontology.lint(wrong)] == [1]


def test_stored_bytes_are_read_back_as_they_were() -> None:
    assert OntologyDocument.from_bytes(DOCUMENT.to_bytes()).to_bytes() == DOCUMENT.to_bytes()
    with pytest.raises(ValueError, match="declared once"):
        OntologyDocument.model_validate_json(
            '{"schema_version": "1.0.0", "facts": [{"path": "a.b"}, {"path": "a.b"}]}'
        )
