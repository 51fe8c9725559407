"""Policy kinds: the active rules, their versions, and what a draft would change."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access.permissions import actor_of, may, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from runtime.contracts import recorded_only
from runtime.contracts.policy_kind import ApprovalMode, KindDocument
from runtime.contracts.redaction import Kept, RedactedIn
from runtime.contracts.states import KindState
from runtime.core import mismatches
from runtime.core.views import labels
from runtime.kernel import kind_diff
from runtime.kernel.rules import kind_units
from runtime.proposals.queries import policy_dry_run
from runtime.registry.models import PolicyKind
from runtime.registry.queries import (
    agent_list,
    kind_versions,
    people,
    recorded_versions,
    ruleset_versions,
    version_states,
)
from runtime.registry.services import kinds
from runtime.registry.views import version_diff, version_pages


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List the active version of each kind, the drafts, and the loaded packs."""
    tenant = tenant_of(request.user)
    drafts, packs = kind_versions.list_drafts(tenant=tenant), kind_versions.list_packs(tenant=tenant)
    names = people.names_of([row.created_by for row in drafts] + [row.loaded_by for row in packs])
    context = {
        # Of a version that does not match the ledger, only the name is shown.
        "rows": [
            {"kind": row, "is_untrusted": True}
            if recorded_versions.compare_kind(row, by=Kind.KIND_REGISTERED)
            else _summary(row)
            for row in agent_list.list_kinds(tenant=tenant)
        ],
        "drafts": [{"row": row, "by": labels.actor_words(row.created_by, names)} for row in drafts],
        "packs": [{"row": row, "by": labels.actor_words(row.loaded_by, names)} for row in packs],
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
    }
    return render(request, "runtime/kinds.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, kind: str) -> HttpResponse:
    """Show one kind: the active or newest version, or one by `?version=`; `?trial=1` adds a dry run."""
    versions = agent_list.list_kind_versions(tenant=tenant_of(request.user), kind=kind)
    row = version_pages.pick(request, versions)
    active = next((version for version in versions if version.active), None)
    before = _compared(row, active, versions)
    require(row, before)
    contract, wrong = kind_versions.contract_of(row), kind_versions.list_wrong(row)
    state = version_states.state_of(row)
    approved = kinds.VersionedKind(row.tenant, kind).may_activate(row, actor=actor_of(request.user))
    context = (
        _summary(row)
        | _rules(contract, canonical.decode(bytes(row.body)))
        | version_pages.listed(versions, row)
        | {
            "is_draft": state is KindState.DRAFT,
            "is_offered": state in {KindState.DRAFT, KindState.SUPERSEDED},
            "seen_active": "" if active is None else active.version,
            "trial_url": f"?{urlencode({'version': row.version})}&trial=1",
            "recorded": recorded_only.names(contract),
            "wrong": wrong,
            "is_unsafe": kind_versions.is_unsafe(wrong),
        }
        | changes(contract, before)
        | version_pages.permissions(request, approved)
        | {"trial": trial(row.tenant, contract) if request.GET.get("trial") else None}
    )
    return render(request, "runtime/kind.html", context)


def require(*rows: PolicyKind | None) -> None:
    """Raise unless all versions match what their authors saved."""
    mismatches.require(*(recorded_versions.compare_kind(row, by=Kind.KIND_REGISTERED) for row in rows if row))


def changes(contract: KindDocument, before: PolicyKind | None) -> dict[str, Any]:
    """Return what a version changes compared to another one; nothing without one."""
    earlier = contract if before is None else kind_versions.contract_of(before)
    units = kind_units.of_paths(earlier), kind_units.of_paths(contract)
    return version_diff.changes(before, kind_diff.differences(earlier, contract), units=units)


def trial(tenant: str, draft: KindDocument) -> dict[str, Any]:
    """Dry-run the draft on the newest proposals of the kind, each with its manifest at that time."""
    rulesets, _ = ruleset_versions.compare_named(tenant=tenant, names=draft.rulesets)
    report = policy_dry_run.rejudge(
        rows=policy_dry_run.list_of_kind(tenant=tenant, kind=draft.kind),
        swap=lambda then: then.model_copy(update={"kind": draft, "rulesets": rulesets}),
    )
    return version_diff.trial(report)


def _compared(
    row: PolicyKind, active: PolicyKind | None, versions: Sequence[PolicyKind]
) -> PolicyKind | None:
    """Return the active version, or for the active one the version activated before it."""
    if not row.active:
        return active
    earlier = [other for other in versions if other.activated_at is not None and other.pk != row.pk]
    return max(earlier, key=lambda other: (other.activated_at, other.pk), default=None)


_APPROVALS = {
    ApprovalMode.NONE: "",
    ApprovalMode.PERSON: "A person must let it run, within every limit too.",
    ApprovalMode.DESTRUCTIVE: "A person must let it run, as of high impact at least.",
    ApprovalMode.TWO_PERSONS: "Two different people must let it run.",
}


_TARGETS = {"wall_clock_s": "within {} s", "cost_usd": "within {} USD", "tokens": "within {} tokens"}


def _scoring(contract: KindDocument) -> list[tuple[str, str]]:
    """What its decision records are scored by: of each target and each minimum the name, and words."""
    if contract.scorecard is None:
        return []
    targets = contract.scorecard.targets.model_dump(mode="json")
    minimums = contract.scorecard.minimum.model_dump(mode="json")
    return [
        *(
            (f"targets.{name}", _TARGETS[name].format(labels.number(value)))
            for name, value in targets.items()
        ),
        *((f"minimum.{name}", f"at least {least}") for name, least in minimums.items()),
    ]


_REDACTED = {
    RedactedIn.RECEIPT: "receipts",
    RedactedIn.EXPLANATION: "explanations",
    RedactedIn.ANSWER: "answers",
}


def _redactions(contract: KindDocument) -> list[tuple[str, str]]:
    """What is replaced before anything is stored: of each rule the id, and words."""
    return [
        (
            rule.id,
            f"{rule.field or rule.pattern} in "
            + ", ".join(words for source, words in _REDACTED.items() if rule.covers(source))
            + (", but for the last four signs" if rule.keep is Kept.LAST_4 else ""),
        )
        for rule in contract.redact
    ]


def _has_spec(contract: KindDocument) -> bool:
    """Whether the kind asks for anything before something runs, or says what it comes to."""
    return any(
        (
            contract.forbidden,
            contract.safety_assertions,
            contract.needs,
            _APPROVALS[contract.least_approval],
            contract.gate_id,
            contract.allowed_outcomes,
            contract.outputs,
            contract.jurisdiction,
        )
    )


def _rules(contract: KindDocument, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "body": body,
        "params": _schema_rows(body.get("params_schema") or {}),
        "limits": [(limit, kind_units.of_limit(contract, limit)) for limit in contract.limits],
        "rules": body.get("rules") or [],
        "constraints": body.get("constraints") or [],
        "has_spec": _has_spec(contract),
        "red_lines": contract.forbidden,
        "invariants": [
            (one, " and ".join(place.value.lower().replace("_", " ") for place in one.at))
            for one in (each.pinned for each in contract.safety_assertions)
            if one is not None
        ],
        "needs": contract.needs,
        "approval_mode": _APPROVALS[contract.least_approval],
        "scoring": _scoring(contract),
        "redactions": _redactions(contract),
        "depends_on": [
            item if isinstance(item, dict) else {"fact": item, "unless": ""}
            for item in body.get("depends_on") or ()
        ],
        "steps": body.get("steps") or [],
        "claims": body.get("claims") or [],
        "raw": labels.pretty(body),
    }


def _summary(row: PolicyKind) -> dict[str, Any]:
    body = canonical.decode(bytes(row.body))
    return {
        "kind": row,
        "effect": body.get("effect", ""),
        "reversible": bool(body.get("reversible")),
        "rule_count": len(body.get("rules") or ()) + len(body.get("limits") or ()),
        "targets": sorted({str(step["target"]) for step in body.get("steps") or () if step.get("target")}),
        "tier_title": {
            "T0": "Routine: confidence 0.6",
            "T1": "Moderate: confidence 0.7",
            "T2": "Elevated: confidence 0.8",
            "T3": "Highest: always escalated unless waived",
        }.get(row.risk_tier, row.risk_tier),
    }


def _schema_rows(schema: dict[str, Any]) -> list[dict[str, str]]:
    required, units = set(schema.get("required") or ()), kind_units.of_schema(schema)
    made = []
    for name, part in (schema.get("properties") or {}).items():
        if not isinstance(part, dict):
            continue
        shown = {"type", "description", "title", kind_units.KEYWORD}
        rest = {key: value for key, value in part.items() if key not in shown}
        kind = part.get("type", "any")
        made.append(
            {
                "name": str(name),
                "type": " or ".join(kind) if isinstance(kind, list) else str(kind),
                "unit": units.get(name, ""),
                "required": "required" if name in required else "optional",
                "rest": ", ".join(
                    f"{key} {labels.amount(value, units.get(name, ''))}" for key, value in rest.items()
                ),
                "words": str(part.get("description") or part.get("title") or ""),
            }
        )
    return made
