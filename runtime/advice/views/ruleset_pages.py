"""Rulesets: their tables and rules, how often each fires, and the activation of drafts."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from runtime.advice.queries import rule_outputs
from runtime.advice.views import ruleset_diff
from runtime.contracts.ruleset import DecisionTable, RuleOutputDocument
from runtime.contracts.states import KindState
from runtime.core import mismatches
from runtime.core.views import labels
from runtime.kernel.rulesets import linter
from runtime.registry.models import Ruleset
from runtime.registry.queries import recorded_versions, ruleset_versions, version_states
from runtime.registry.services import document_reading, rulesets
from runtime.registry.views import version_pages


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List each ruleset: its active version, or else its newest."""
    rows = [_listed(row) for row in ruleset_versions.list_newest(tenant=tenant_of(request.user))]
    return render(request, "runtime/rulesets.html", {"rows": rows})


@require_safe
@signed_in
def detail(request: HttpRequest, ruleset: str) -> HttpResponse:
    """Show one version, the active or else the newest, or one by `?version=`; `?trial=1` adds a dry run."""
    versions = ruleset_versions.list_versions(tenant=tenant_of(request.user), ruleset=ruleset)
    row = version_pages.pick(request, versions)
    require_recorded(row)
    contract, state = ruleset_versions.contract_of(row), version_states.state_of(row)
    active = next((version for version in versions if version.active), None)
    newest = rule_outputs.list_newest(row)
    outputs = newest.documents
    fired = rule_outputs.count_fired(outputs)
    approved = rulesets.VersionedRuleset(row.tenant, ruleset).may_activate(row, actor=actor_of(request.user))
    context = {
        "row": row,
        "contract": contract,
        "strategy": ", then ".join(contract.strategy),
        "features": [
            {
                "name": name,
                "type": str(feature.type),
                "max_age_s": feature.max_age_s,
                "value": feature.value or "",
            }
            for name, feature in contract.features.items()
        ],
        "tables": [_table(table, fired, len(outputs)) for table in contract.tables],
        "rules": [
            {
                "rule": rule,
                "does": ruleset_diff.words_of(rule.then),
                "fired": fired[rule.id],
                "often": rule_outputs.often(fired[rule.id], len(outputs)),
            }
            for rule in contract.rules
        ],
        "guardrails": [
            {
                "rule": guard,
                "fired": fired[guard.id],
                "often": rule_outputs.often(fired[guard.id], len(outputs)),
            }
            for guard in contract.guardrails
        ],
        "policies": [
            {
                "rule": policy,
                "fired": fired[policy.id],
                "often": rule_outputs.often(fired[policy.id], len(outputs)),
            }
            for policy in contract.policies
        ],
        "outputs": len(outputs),
        "untrusted": newest.untrusted,
        "statuses": Counter(str(output.status) for output in outputs).most_common(),
        "conflicts": _conflicts(outputs),
        "findings": [
            {
                "field": document_reading.written(item.place),
                "words": item.message,
                "severity": labels.badge(labels.LINT_SEVERITIES, item.severity),
            }
            for item in linter.lint(contract)
        ],
        "is_draft": state is KindState.DRAFT,
        "is_offered": state in {KindState.DRAFT, KindState.SUPERSEDED},
        "seen_active": "" if active is None else active.version,
        "trial_url": f"?{urlencode({'version': row.version})}&trial=1",
        "trial": ruleset_diff.trial(row.tenant, contract) if request.GET.get("trial") else None,
        **version_pages.listed(versions, row),
        **version_pages.permissions(request, approved),
    }
    return render(request, "runtime/ruleset.html", context)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def activate(request: HttpRequest, ruleset: str, version: str) -> HttpResponse:
    """Activate a draft in place of the version that the page showed as active."""
    work = partial(rulesets.activate, tenant=tenant_of(request.user), ruleset=ruleset, version=version)
    page = page_of(ruleset, version)
    return version_pages.activate(request, work, page=page, done=f"{ruleset} {version} is active.")


@require_POST
@require(Permission.MANAGE_REGISTRY)
def discard(request: HttpRequest, ruleset: str, version: str) -> HttpResponse:
    """Discard a draft: it can never be activated."""
    work = partial(rulesets.discard, tenant=tenant_of(request.user), ruleset=ruleset, version=version)
    page = page_of(ruleset, version)
    return version_pages.discard(request, work, page=page, done=f"{ruleset} {version} is discarded.")


def page_of(ruleset: str, version: str) -> str:
    """The address of a version."""
    return f"{reverse('ruleset', args=[ruleset])}?{urlencode({'version': version})}"


def require_recorded(row: Ruleset) -> None:
    """Raise unless a version is what its author saved."""
    mismatches.require(_mismatch(row))


def _mismatch(row: Ruleset) -> mismatches.Mismatch | None:
    return recorded_versions.compare_ruleset(row, by=Kind.RULESET_REGISTERED)


def _listed(row: Ruleset) -> dict[str, Any]:
    state = labels.badge(labels.KIND_STATES, version_states.state_of(row))
    if _mismatch(row) is not None:
        return {"row": row, "state": state, "is_untrusted": True}
    contract = ruleset_versions.contract_of(row)
    return {
        "row": row,
        "state": state,
        "decides": ", ".join(contract.declared),
        "tables": len(contract.tables),
        "rules": sum(len(table.rules) for table in contract.tables) + len(contract.rules),
        "guardrails": len(contract.guardrails),
        "policies": len(contract.policies),
    }


def _table(table: DecisionTable, fired: Counter[str], outputs: int) -> dict[str, Any]:
    return {
        "table": table,
        "hit": table.hit.value + (f" {table.aggregate}" if table.collect else ""),
        "rows": [
            {
                "rule": rule,
                "does": ruleset_diff.words_of(rule.then),
                "fired": fired[rule.id],
                "often": rule_outputs.often(fired[rule.id], outputs),
            }
            for rule in table.rules
        ],
    }


def _conflicts(outputs: Sequence[RuleOutputDocument]) -> list[dict[str, Any]]:
    """The rules that said different things, how often, and whether a strategy told which of them counts."""
    found = Counter(
        (conflict.rule_ids, str(conflict.resolved_by)) for output in outputs for conflict in output.conflicts
    )
    return [
        {"rules": rules, "by": by, "count": count}
        for (rules, by), count in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]
