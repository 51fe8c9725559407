"""Pure builders of rulesets: short ways to write features, tables and rules, and to ask them."""

from typing import Any

from audit import canonical
from runtime.contracts.ruleset import FeatureType, RuleResult, RulesetDocument
from runtime.kernel.rulesets import evaluate, tables
from runtime.kernel.rulesets.tables import Table

FEATURES: dict[str, Any] = {
    "score": {"type": "integer"},
    "rate": {"type": "number"},
    "region": {"type": "string"},
    "member": {"type": "boolean"},
}


def row(name: str, *when: str, action: str = "GO", params: Any = None, **fields: Any) -> dict[str, Any]:
    """A rule of a table."""
    return {"id": name, "when": when, "then": {"action": action, "params": params or {}}, **fields}


def table(*rules: dict[str, Any], inputs: Any = ("score",), name: Any = "t", **fields: Any) -> dict[str, Any]:
    """A table of these rules that decides the aspect `a`."""
    return {"table": name, "decides": "a", "inputs": inputs, "rules": rules, **fields}


def rule(name: str, when: str, action: str = "GO", params: Any = None, **fields: Any) -> dict[str, Any]:
    """A rule of its own that decides the aspect `a`."""
    then = {"action": action, "params": params or {}}
    return {"id": name, "decides": "a", "when": when, "then": then, **fields}


def document(*tables_of_it: dict[str, Any], **fields: Any) -> RulesetDocument:
    """A ruleset of these tables, validated as a file of a pack is."""
    body = {"ruleset": "cases", "version": "1.0.0", "features": FEATURES, "tables": tables_of_it, **fields}
    return RulesetDocument.model_validate_json(canonical.encode(body))


def compiled(one: dict[str, Any]) -> Table:
    """A single table, compiled."""
    ruleset = document(one)
    return tables.compile_table(ruleset.tables[0], ruleset)


def ask(ruleset: RulesetDocument, **features: Any) -> RuleResult:
    """What a ruleset says of these features."""
    return evaluate.evaluate(ruleset, features)


def feature_type(name: str) -> FeatureType:
    """The type of one of FEATURES."""
    return FeatureType(FEATURES[name]["type"])
