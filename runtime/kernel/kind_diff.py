"""Two versions of a policy kind beside each other: what differs, and which way it goes.

More rules, limits, constraints and claims tighten; so do a higher tier, and a REJECT in place of an ESCALATE.
An expression that reads otherwise is CHANGED: which way it goes is for a person, and for the dry run, to say.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from runtime.contracts.kind_types import OnFail
from runtime.contracts.policy_kind import ApprovalMode, KindDocument, OnUnknown, RiskTier
from runtime.kernel import version_diff
from runtime.kernel.version_diff import DiffRule, MissingMeans, Tighter, VersionDifference

_NAME = "$name"
_ON_FAIL = version_diff.ranks(OnFail.ESCALATE.value, OnFail.REJECT.value)
_FALSE_TRUE: dict[str | bool, Decimal | frozenset[str]] = {False: Decimal(0), True: Decimal(1)}
_SCHEMAS = ("params_schema", "constraints_schema", "outputs_schema")


def _schema_rules(schema: str) -> tuple[DiffRule, ...]:
    each = f"{schema}.properties.*"
    return (
        DiffRule(path=f"{schema}.required", tighter=Tighter.MORE),
        DiffRule(
            path=f"{schema}.additionalProperties",
            tighter=Tighter.LOWER,
            absent=MissingMeans.OPEN,
            meaning=_FALSE_TRUE,
        ),
        DiffRule(path=f"{schema}.properties", tighter=Tighter.UNKNOWN, keyed_by=_NAME),
        *(
            DiffRule(path=f"{each}.{name}", tighter=Tighter.HIGHER, absent=MissingMeans.OPEN)
            for name in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
        ),
        *(
            DiffRule(path=f"{each}.{name}", tighter=Tighter.LOWER, absent=MissingMeans.OPEN)
            for name in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
        ),
        DiffRule(path=f"{each}.enum", tighter=Tighter.FEWER, absent=MissingMeans.OPEN),
        DiffRule(path=f"{each}.pattern", tighter=Tighter.UNKNOWN, absent=MissingMeans.OPEN),
        DiffRule(path=f"{each}.required", tighter=Tighter.MORE),
    )


RULES: tuple[DiffRule, ...] = (
    DiffRule(path="version", tighter=Tighter.SKIPPED),
    DiffRule(
        path="risk_tier",
        tighter=Tighter.HIGHER,
        meaning=version_diff.ranks(*(tier.value for tier in RiskTier)),
    ),
    DiffRule(path="confidence_waiver", tighter=Tighter.LOWER, meaning=_FALSE_TRUE),
    DiffRule(path="limits", tighter=Tighter.MORE, keyed_by="id"),
    DiffRule(path="limits.*.on_exceed", tighter=Tighter.HIGHER, meaning=_ON_FAIL),
    DiffRule(path="rules", tighter=Tighter.MORE, keyed_by="id"),
    DiffRule(path="rules.*.on_fail", tighter=Tighter.HIGHER, meaning=_ON_FAIL),
    DiffRule(path="rules.*.mandatory", tighter=Tighter.HIGHER, meaning=_FALSE_TRUE),
    DiffRule(path="constraints", tighter=Tighter.MORE, keyed_by="id"),
    DiffRule(path="depends_on", tighter=Tighter.MORE, keyed_by="fact"),
    # Without it any change of the fact is material.
    DiffRule(path="depends_on.*.unless", tighter=Tighter.UNKNOWN, absent=MissingMeans.SHUT),
    DiffRule(path="requires_context", tighter=Tighter.HIGHER, meaning=_FALSE_TRUE),
    DiffRule(path="context_current", tighter=Tighter.UNKNOWN, absent=MissingMeans.SHUT),
    DiffRule(path="predicts", tighter=Tighter.UNKNOWN, keyed_by="fact"),
    DiffRule(path="predicts.*.unless", tighter=Tighter.UNKNOWN, absent=MissingMeans.SHUT),
    DiffRule(path="figures", tighter=Tighter.MORE, keyed_by="param"),
    DiffRule(path="claims", tighter=Tighter.MORE, keyed_by="resource"),
    DiffRule(path="steps", tighter=Tighter.UNKNOWN, keyed_by="id"),
    DiffRule(
        path="on_unknown",
        tighter=Tighter.HIGHER,
        meaning=version_diff.ranks(OnUnknown.RESEND.value, OnUnknown.PROBE.value, OnUnknown.PERSON.value),
    ),
    DiffRule(path="strict", tighter=Tighter.HIGHER, meaning=_FALSE_TRUE),
    DiffRule(path="sla_s", tighter=Tighter.LOWER),
    DiffRule(path="undo_s", tighter=Tighter.HIGHER),
    DiffRule(path="redact", tighter=Tighter.MORE, keyed_by="id"),
    DiffRule(path="reading_s", tighter=Tighter.HIGHER),
    DiffRule(path="retention_days", tighter=Tighter.UNKNOWN, absent=MissingMeans.NEUTRAL),
    DiffRule(path="approvals", tighter=Tighter.HIGHER, absent=MissingMeans.OPEN),
    DiffRule(path="cooling_s", tighter=Tighter.HIGHER, absent=MissingMeans.OPEN),
    DiffRule(
        path="approval_mode",
        tighter=Tighter.HIGHER,
        meaning=version_diff.ranks(*(mode.value for mode in ApprovalMode)),
        absent=MissingMeans.OPEN,
    ),
    DiffRule(path="gate_id", tighter=Tighter.UNKNOWN, absent=MissingMeans.OPEN),
    DiffRule(path="allowed_outcomes", tighter=Tighter.FEWER, empty_is_absent=True, absent=MissingMeans.OPEN),
    DiffRule(path="required_evidence", tighter=Tighter.MORE),
    DiffRule(path="jurisdiction", tighter=Tighter.UNKNOWN, absent=MissingMeans.NEUTRAL),
    DiffRule(path="red_lines", tighter=Tighter.MORE),
    DiffRule(path="safety_assertions", tighter=Tighter.MORE, keyed_by="invariant_id"),
    DiffRule(path="scorecard.targets.*", tighter=Tighter.LOWER, absent=MissingMeans.OPEN),
    DiffRule(path="scorecard.minimum.*", tighter=Tighter.HIGHER),
    *(rule for schema in _SCHEMAS for rule in _schema_rules(schema)),
)


def differences(before: KindDocument, after: KindDocument) -> tuple[VersionDifference, ...]:
    """Every field that differs but the version, ordered by path; empty where only the version does."""
    return version_diff.diff(_plain(before), _plain(after), RULES)


def _plain(kind: KindDocument) -> dict[str, Any]:
    # Without what is null: a rule that comes is shown with what it says, not with what it leaves open.
    document = kind.model_dump(mode="json", exclude_none=True)
    for name in _SCHEMAS:
        schema = document.get(name)
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            # A list of named parts: a field that comes or goes is one difference, not one for each keyword.
            parts = [
                {_NAME: field, **(part if isinstance(part, Mapping) else {"schema": part})}
                for field, part in sorted(schema["properties"].items())
            ]
            document[name] = {**schema, "properties": parts}
    return document
