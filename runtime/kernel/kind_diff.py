"""Two versions of a policy kind beside each other: what differs, and which way it goes.

More rules, limits, constraints and claims tighten; so do a higher tier, and a REJECT in place of an ESCALATE.
An expression that reads otherwise is CHANGED: which way it goes is for a person, and for the dry run, to say.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from runtime.contracts.policy_kind import OnFail, OnUnknown, PolicyKind, RiskTier
from runtime.kernel import version_diff
from runtime.kernel.version_diff import Difference, MissingMeans, Rule, Tighter

_NAME = "$name"
_ON_FAIL = version_diff.ranks(OnFail.ESCALATE.value, OnFail.REJECT.value)
_FALSE_TRUE: dict[str | bool, Decimal | frozenset[str]] = {False: Decimal(0), True: Decimal(1)}
_SCHEMAS = ("params_schema", "constraints_schema", "outputs_schema")


def _schema_rules(schema: str) -> tuple[Rule, ...]:
    each = f"{schema}.properties.*"
    return (
        Rule(path=f"{schema}.required", tighter=Tighter.MORE),
        Rule(
            path=f"{schema}.additionalProperties",
            tighter=Tighter.LOWER,
            absent=MissingMeans.OPEN,
            meaning=_FALSE_TRUE,
        ),
        Rule(path=f"{schema}.properties", tighter=Tighter.UNKNOWN, keyed_by=_NAME),
        *(
            Rule(path=f"{each}.{name}", tighter=Tighter.HIGHER, absent=MissingMeans.OPEN)
            for name in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
        ),
        *(
            Rule(path=f"{each}.{name}", tighter=Tighter.LOWER, absent=MissingMeans.OPEN)
            for name in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
        ),
        Rule(path=f"{each}.enum", tighter=Tighter.FEWER, absent=MissingMeans.OPEN),
        Rule(path=f"{each}.pattern", tighter=Tighter.UNKNOWN, absent=MissingMeans.OPEN),
        Rule(path=f"{each}.required", tighter=Tighter.MORE),
    )


RULES: tuple[Rule, ...] = (
    Rule(path="version", tighter=Tighter.SKIPPED),
    Rule(
        path="risk_tier",
        tighter=Tighter.HIGHER,
        meaning=version_diff.ranks(*(tier.value for tier in RiskTier)),
    ),
    Rule(path="confidence_waiver", tighter=Tighter.LOWER, meaning=_FALSE_TRUE),
    Rule(path="limits", tighter=Tighter.MORE, keyed_by="id"),
    Rule(path="limits.*.on_exceed", tighter=Tighter.HIGHER, meaning=_ON_FAIL),
    Rule(path="rules", tighter=Tighter.MORE, keyed_by="id"),
    Rule(path="rules.*.on_fail", tighter=Tighter.HIGHER, meaning=_ON_FAIL),
    Rule(path="rules.*.mandatory", tighter=Tighter.HIGHER, meaning=_FALSE_TRUE),
    Rule(path="constraints", tighter=Tighter.MORE, keyed_by="id"),
    Rule(path="depends_on", tighter=Tighter.MORE, keyed_by="fact"),
    # Without it any change of the fact is material.
    Rule(path="depends_on.*.unless", tighter=Tighter.UNKNOWN, absent=MissingMeans.SHUT),
    Rule(path="predicts", tighter=Tighter.UNKNOWN, keyed_by="fact"),
    Rule(path="predicts.*.unless", tighter=Tighter.UNKNOWN, absent=MissingMeans.SHUT),
    Rule(path="figures", tighter=Tighter.MORE, keyed_by="param"),
    Rule(path="claims", tighter=Tighter.MORE, keyed_by="resource"),
    Rule(path="steps", tighter=Tighter.UNKNOWN, keyed_by="id"),
    Rule(
        path="on_unknown",
        tighter=Tighter.HIGHER,
        meaning=version_diff.ranks(OnUnknown.RESEND.value, OnUnknown.PROBE.value, OnUnknown.PERSON.value),
    ),
    Rule(path="sla_s", tighter=Tighter.LOWER),
    Rule(path="allowed_outcomes", tighter=Tighter.FEWER, empty_is_absent=True, absent=MissingMeans.OPEN),
    Rule(path="required_evidence", tighter=Tighter.MORE),
    Rule(path="red_lines", tighter=Tighter.MORE),
    *(rule for schema in _SCHEMAS for rule in _schema_rules(schema)),
)


def differences(before: PolicyKind, after: PolicyKind) -> tuple[Difference, ...]:
    """Every field that differs but the version, ordered by path; empty where only the version does."""
    return version_diff.diff(_plain(before), _plain(after), RULES)


def _plain(kind: PolicyKind) -> dict[str, Any]:
    # Without what is null: a rule that comes is shown with what it says, not with what it leaves open.
    document = kind.model_dump(mode="json", exclude_none=True)
    for name in _SCHEMAS:
        schema = document.get(name)
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            # A list of named parts: a field that comes or goes is one difference, not one for each keyword.
            parts = [_named(field, part) for field, part in sorted(schema["properties"].items())]
            document[name] = {**schema, "properties": parts}
    return document


def _named(name: str, part: Any) -> dict[str, Any]:
    return {_NAME: name, **(part if isinstance(part, Mapping) else {"schema": part})}
