"""Every optional field of a pack is acted on, or stands in the table of those that enforce nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from audit import canonical
from runtime.contracts import recorded_only
from runtime.contracts.document import Contract
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.pack import PackDocument
from runtime.contracts.policy_kind import KindDocument, Rule
from runtime.contracts.ruleset import RulesetDocument
from tests.support import gate_cases

ROOT = Path(__file__).parents[2]
# What judges, carries out and stores. Pages and comparisons of versions show a field without acting on it.
ACTING = ("runtime", "escalations/services")
SHOWING = {"views", "api"}
ONLY_SHOWING = {"recorded_only.py", "version_diff.py", "kind_linter.py", "sources.py"}
# Words for people, which promise nothing.
WORDS = {(KindDocument, "description"), (PackDocument, "description"), (RulesetDocument, "description")}


def contracts(model: Any) -> Iterator[type[Contract]]:
    """A contract and those inside it."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        yield model  # type: ignore[misc]  # every model in a pack is a contract
        for field in model.model_fields.values():
            yield from contracts(field.annotation)
    for inner in get_args(model):
        yield from contracts(inner)


ALL = tuple(dict.fromkeys(contracts(PackDocument)))
OPTIONAL = [
    (model, name)
    for model in ALL
    for name, field in model.model_fields.items()
    if not field.is_required() and (model, name) not in WORDS
]


def names_read() -> set[str]:
    """Every attribute that acting code reads, and every name in quotes that it may read by."""
    found = set[str]()
    for folder in ACTING:
        for file in (ROOT / folder).rglob("*.py"):
            if file.name in ONLY_SHOWING or SHOWING & set(file.relative_to(ROOT).parts):
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
    # What kinds declare about scores is read from the JSON of a record, by its names.
    scored = ast.walk(ast.parse((ROOT / "audit/records/evaluators.py").read_text(encoding="utf-8")))
    return found | {str(node.value) for node in scored if isinstance(node, ast.Constant)}


READ = names_read()


def test_the_contracts_of_a_pack_are_found() -> None:
    assert all(any((ROOT / "runtime").rglob(name)) for name in ONLY_SHOWING)
    assert {KindDocument, Rule, ManifestDocument, PackDocument} <= set(ALL)
    assert len(OPTIONAL) > 50


@pytest.mark.parametrize(("model", "name"), OPTIONAL, ids=lambda item: getattr(item, "__name__", item))
def test_an_optional_field_is_acted_on_or_stands_in_the_table(model: type[Contract], name: str) -> None:
    if name not in recorded_only.FIELDS.get(model, ()):
        assert name in READ, f"nothing reads {model.__name__}.{name}: enforce it, or add it to the table"


@pytest.mark.parametrize(
    ("model", "name"),
    [(model, name) for model, names in recorded_only.FIELDS.items() for name in sorted(names)],
)
def test_what_stands_in_the_table_is_an_optional_field_that_nothing_reads(
    model: type[Contract], name: str
) -> None:
    assert (model, name) in OPTIONAL
    # Others have fields of these names, or decision records name them.
    of_others = {
        *("version", "category", "severity", "priority", "mandatory"),
        *("model_profile", "evaluator_suite", "jurisdiction"),
    }
    # What is read only where another field of the document makes it count.
    if name not in of_others and (model, name) not in recorded_only.ENFORCED_BY:
        assert name not in READ


def kind(**fields: Any) -> KindDocument:
    plain = {
        "kind": "TRADE",
        "version": "1.0.0",
        "title": "Trade",
        "risk_tier": "T0",
        "params_schema": {"type": "object"},
        "effect": "Trade",
    }
    return KindDocument.from_bytes(canonical.encode({**plain, **fields}))


def test_only_values_of_the_documents_own_are_named() -> None:
    assert recorded_only.sentence(kind()) == ""
    assert (
        recorded_only.sentence(kind(subjects=[], rules=[{"id": "R", "require": "true", "priority": 0}])) == ""
    )


def test_each_is_named_once_and_placed_wherever_it_stands() -> None:
    rules = [
        {"id": "A", "require": "true", "severity": "LOW"},
        {"id": "B", "require": "true", "severity": "HIGH", "mandatory": False},
    ]
    line = {"id": "L", "forbid": "false"}
    made = kind(rules=rules, red_lines=[line, "Never"], approval_mode="four-eyes", required_evidence=["call"])
    assert recorded_only.sentence(made) == (
        "recorded, not enforced: rules.severity, rules.mandatory, required_evidence, approval_mode, red_lines"
    )
    assert list(recorded_only.places(made)) == [
        ("rules", 0, "severity"),
        ("rules", 1, "severity"),
        ("rules", 1, "mandatory"),
        ("required_evidence", 0),
        ("approval_mode",),
        ("red_lines", 1),
    ]
    enforced = kind(red_lines=[line], approval_mode="person", required_evidence=[{"step": "self_check"}])
    assert list(recorded_only.places(enforced)) == []


def test_a_jurisdiction_is_shown_and_enforced_by_nothing() -> None:
    assert recorded_only.sentence(kind(jurisdiction=["EU"])) == "recorded, not enforced: jurisdiction"


def test_a_manifest_has_its_own() -> None:
    plain = {"version": "1.0.0", "policy_kinds": [], "memory_scopes": ["desk"], "model_profile": "small"}
    assert recorded_only.names(ManifestDocument.from_bytes(canonical.encode(plain))) == ("model_profile",)


def test_the_documentation_names_them_all() -> None:
    page = (ROOT / "docs/packs.md").read_text(encoding="utf-8")
    said = " ".join(part.split("\n\n", 1)[0] for part in page.split("Recorded, not enforced: ")[1:])
    assert set(re.findall(r"`(\w+)`", said)) == {
        name for names in recorded_only.FIELDS.values() for name in names
    }


@pytest.mark.parametrize(
    ("more", "left"),
    [
        ({}, ("outputs_schema", "allowed_outcomes")),
        ({"outputs": {"price": "receipt.price"}}, ("allowed_outcomes",)),
        ({"outcome": "'filled'"}, ()),
    ],
)
def test_outcomes_and_the_schema_of_outputs_count_only_where_something_is_asked_for(
    more: dict[str, Any], left: tuple[str, ...]
) -> None:
    kind = gate_cases.kind(allowed_outcomes=["filled"], outputs_schema={"type": "object"}, **more)
    assert recorded_only.names(kind) == left
