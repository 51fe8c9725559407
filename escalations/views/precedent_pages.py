"""What people always decide alike, and the rules that were drafted of it."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from escalations import precedents
from escalations.precedents import Change
from escalations.services import precedent_cases, strategy_rules
from escalations.services.strategy_rules import Offer, Place, StrategyRule
from runtime.contracts.problem import Problem
from runtime.contracts.states import KindState
from runtime.core.views import error_page, labels
from runtime.core.views.labels import Badge
from runtime.registry.queries import people

_CHANGES: Final[Mapping[Change, str]] = {
    Change.RAISE_LIMIT: "Raise the limit",
    Change.REJECT_AT_ONCE: "Reject without asking",
}
_STATES: Final[Mapping[str, Badge]] = {
    KindState.DRAFT: Badge("accent", "edit", "Draft"),
    KindState.ACTIVE: Badge("ok", "check", "Active"),
    KindState.SUPERSEDED: Badge("idle", "clock", "Superseded"),
    KindState.DISCARDED: Badge("idle", "cross", "Discarded"),
    "": Badge("danger", "cross", "Gone"),
}


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List what could be a rule, and what was drafted before."""
    tenant = tenant_of(request.user)
    proposed = strategy_rules.list_proposed(tenant=tenant)
    names = people.names_of([rule.actor for rule in proposed])
    context = {
        "offers": [_offer(offer) for offer in strategy_rules.list_offers(tenant=tenant)],
        "proposed": [_rule(rule, names) for rule in proposed],
        "days": precedent_cases.DAYS,
        "least_cases": precedents.LEAST_CASES,
        "least_people": precedents.LEAST_PEOPLE,
    }
    return render(request, "escalations/precedents.html", context)


@require_safe
@signed_in
def detail(request: HttpRequest, digest: str) -> HttpResponse:
    """Show every case that a precedent rests on, and the form that drafts its rule."""
    offer = strategy_rules.get_offer(tenant=tenant_of(request.user), digest=digest)
    if offer is None:
        raise Http404
    names = people.names_of([name for case in offer.precedent.cases for name in case.approvers])
    cases = [
        {
            "case": case,
            "value": labels.amount_in(str(case.value), case.unit),
            "approvers": [labels.actor_words(name, names) for name in case.approvers],
        }
        for case in reversed(offer.precedent.cases)
    ]
    context = _offer(offer) | {
        "cases": cases,
        "may_draft": may(request.user, Permission.MANAGE_REGISTRY),
    }
    return render(request, "escalations/precedent.html", context)


@require_POST
@require(Permission.MANAGE_REGISTRY)
def draft(request: HttpRequest, digest: str) -> HttpResponse:
    """Draft the rule of the precedent that was shown, and go to the draft."""
    made = strategy_rules.propose(tenant=tenant_of(request.user), digest=digest, actor=actor_of(request.user))
    if isinstance(made, Problem):
        return error_page.page(request, made, back=reverse("precedents"), title="Nothing was drafted")
    return redirect(_address(made.document, made.name, made.version))


def _offer(offer: Offer) -> dict[str, Any]:
    found, change = offer.precedent, offer.change
    raises = found.change is Change.RAISE_LIMIT
    # What is no limit has no unit: its values are words of the policy kind.
    unit = found.cases[0].unit if raises else ""
    return {
        "precedent": found,
        "change": change,
        "verb": _CHANGES[found.change],
        "raises": raises,
        "before": labels.amount_in(change.before, unit),
        "after": labels.amount_in(change.after, unit),
        "in_manifest": change.place is Place.MANIFEST,
    }


def _rule(rule: StrategyRule, names: Mapping[str, str]) -> dict[str, Any]:
    said = rule.said
    return {
        "said": said,
        "at": rule.at,
        "by": labels.actor_words(rule.actor, names),
        "verb": _CHANGES.get(said["change"], said["change"]),
        "badge": labels.badge(_STATES, rule.state),
        "address": _address(said["document"], said["name"], said["version"]),
        "records": said["record_ids"],
    }


def _address(document: str, name: str, version: str) -> str:
    if document == Place.MANIFEST:
        return reverse("manifest", args=[name, version])
    return f"{reverse('kind', args=[name])}?version={version}"
