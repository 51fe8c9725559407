"""A manifest as readable tables: permissions, limits and budgets."""

from collections.abc import Iterable, Mapping
from typing import Any

from audit import canonical
from runtime.contracts import recorded_only
from runtime.contracts.autonomy import DEFAULT_RULE, AutonomyRule
from runtime.contracts.kind_types import OnFail
from runtime.contracts.manifest import ManifestDocument
from runtime.core.views import labels
from runtime.kernel.rules import kind_units
from runtime.registry.queries import granted_kinds, recorded_versions

Body = Mapping[str, Any]


def rights(body: Body) -> list[tuple[str, list[str], str]]:
    """Return what the agent can propose, read and delegate, and what an empty list means."""
    scope = [
        f"{name}: {', '.join(labels.plain_value(value) for value in values)}"
        for name, values in (body.get("scope") or {}).items()
    ]
    memory = [f"{item.get('scope')} ({item.get('access')})" for item in body.get("memory_scopes") or ()]
    return [
        ("Can propose", [str(kind) for kind in body.get("policy_kinds") or ()], "none"),
        ("Parameters limited to", scope, "as the kind allows"),
        ("Reads facts", [str(path) for path in body.get("subscribes") or ()], "those its kinds depend on"),
        ("Memory", memory, "none"),
        ("Can delegate to", [str(agent) for agent in body.get("may_delegate_to") or ()], "none"),
        ("Once it is labelled", [_label_rule(rule) for rule in body.get("label_rules") or ()], "as before"),
        (
            "Labels that end by themselves",
            [
                f"{label} after {labels.number(str(seconds))} s"
                for label, seconds in (body.get("labels_end_after_s") or {}).items()
            ],
            "none",
        ),
    ]


def _label_rule(rule: Body) -> str:
    """A rule as a sentence: after which labels, for which kinds, and what then happens."""
    kinds = ", ".join(rule.get("kinds") or ()) or "whatever has an effect"
    what = "is rejected" if rule.get("on_fail") == OnFail.REJECT else "asks a person"
    return f"{rule['id']}: after {' or '.join(rule['after'])}, {kinds} {what}"


def autonomy(body: Body) -> list[tuple[str, str]]:
    """Return what lowers the agent's level: the manifest's own rule, else the default one."""
    stated = body.get("autonomy")
    rule = DEFAULT_RULE if stated is None else AutonomyRule.model_validate(stated)
    signals = [(name, getattr(rule, name)) for name in labels.SIGNALS if name != "labels"]
    weights = [f"{label} {points}" for label, points in sorted(rule.labels.points.items())]
    return [
        ("Supervised from a risk score of", str(rule.supervised_at)),
        ("Read-only from", str(rule.read_only_at)),
        ("Counted over, seconds", labels.number(str(rule.window_s))),
        *((labels.SIGNALS[name], f"{weight.points} each, at most {weight.most}") for name, weight in signals),
        (labels.SIGNALS["labels"], f"{', '.join(weights) or 'none'}; at most {rule.labels.most}"),
    ]


def limits(body: Body, units: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the limits by name, amounts with their unit."""
    return [
        (name, labels.amount_in(labels.plain_value(value), units.get(name, "")))
        for name, value in (body.get("limits") or {}).items()
    ]


def limit_units(*, tenant: str, policy_kinds: Iterable[str]) -> dict[str, str]:
    """Return the units of a manifest's limits, from the active kinds that compare amounts with them."""
    rows = granted_kinds.list_active(tenant=tenant, names=frozenset(policy_kinds))
    # A kind that does not match the ledger has a page that says so; here it is left out.
    whole = (row for row in rows if recorded_versions.compare_kind(row) is None)
    return kind_units.of_manifest_limits(granted_kinds.contract_of(row) for row in whole)


def recorded(body: Body) -> tuple[str, ...]:
    """Return the fields that are recorded but not enforced."""
    return recorded_only.names(ManifestDocument.from_bytes(canonical.encode(dict(body))))


def bounds(body: Body) -> list[tuple[str, str]]:
    """Return budgets and thresholds; unset ones are left out."""
    compute = body.get("compute") or {}
    hours = body.get("hours") or {}
    consulting = body.get("consultations") or {}
    made = [
        ("Escalates below confidence", body.get("escalate_below_confidence")),
        ("Confidence that counts", body.get("confidence")),
        ("Escalations per hour", body.get("escalations_per_hour")),
        ("Proposals per minute", body.get("proposals_per_minute")),
        ("Attempts per flow", body.get("max_intent_retries")),
        ("Tokens per flow", compute.get("tokens")),
        ("Cost per flow, USD", compute.get("cost_usd")),
        ("Consults other agents, times per flow", consulting.get("per_flow")),
        ("Cost units of that per flow", consulting.get("cost_units")),
        ("Each answers within, seconds", consulting.get("time_s")),
        ("Silent after, seconds", body.get("silent_after_s")),
        ("Expected hours", f"{hours['opens']} to {hours['closes']} {hours['zone']}" if hours else None),
        ("Model profile", body.get("model_profile")),
        ("Prompt bundle", body.get("prompt_bundle_hash")),
        ("Evaluator suite", body.get("evaluator_suite")),
    ]
    return [(name, labels.number(labels.plain_value(value))) for name, value in made if value is not None]
