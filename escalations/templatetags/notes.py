"""Notes and claims on the pages. Tags, since pages of the runtime show notes and cannot import them."""

from typing import Any
from uuid import UUID

from django import template
from django.template.context import RequestContext

from audit.access.permissions import tenant_of
from escalations.models import Escalation
from escalations.views import claims, notes

register = template.Library()


@register.inclusion_tag("escalations/_notes.html", takes_context=True)
def notes_of_flow(context: RequestContext, dfid: UUID) -> dict[str, Any]:
    """The notes beside a flow, with the form for another."""
    return notes.shown(context["request"], notes.flow_subject(tenant_of(context["request"].user), dfid))


@register.inclusion_tag("escalations/_notes.html", takes_context=True)
def notes_of_escalation(context: RequestContext, escalation: Escalation) -> dict[str, Any]:
    """The notes of an escalation's flow, with the form for another."""
    return notes.shown(context["request"], notes.escalation_subject(escalation))


@register.inclusion_tag("escalations/_notes.html", takes_context=True)
def notes_of_agent(context: RequestContext, agent_id: str) -> dict[str, Any]:
    """The notes beside an agent, with the form for another."""
    return notes.shown(context["request"], notes.agent_subject(tenant_of(context["request"].user), agent_id))


@register.inclusion_tag("escalations/_claim_move.html", takes_context=True)
def claim_move(context: RequestContext, escalation: Escalation) -> dict[str, Any]:
    """Who took the claim over, or handed it over, with what words."""
    return claims.last_move(context["request"], escalation)


@register.simple_tag(takes_context=True)
def other_deciders(context: RequestContext) -> list[str]:
    """Who else has a role that decides, by name."""
    return claims.list_others(context["request"])
