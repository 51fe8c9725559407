"""Agents: their profile, permissions and status, and the switch that stops one."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from audit import canonical
from audit.access import roles
from audit.access.permissions import actor_of, held_by, may, signed_in, tenant_of
from audit.access.roles import Permission
from audit.events import Kind
from runtime.contracts import states
from runtime.contracts.reasons import Reason
from runtime.core import clock, paging
from runtime.core.views import labels, query_params
from runtime.flows.queries import flow_search, flow_summaries, saga_progress
from runtime.flows.views import flow_words
from runtime.kernel import manifest_lint, separation
from runtime.registry.models import Agent, Manifest
from runtime.registry.queries import agent_list, manifest_versions, owners, people, recorded_versions
from runtime.registry.services import agents, ownership
from runtime.registry.views import agent_lookup, autonomy_pages, label_pages, manifest_tables, version_diff
from runtime.resources.views import budget_pages


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """List all agents with status, owner, open flows and when each was last seen."""
    tenant = tenant_of(request.user)
    status = request.GET.get("status", "")
    status = status if status in states.AgentStatus.values() else ""
    level = request.GET.get("level", "")
    level = level if level in states.AutonomyLevel.values() else ""
    page = agent_list.list_agents(
        tenant=tenant, after=query_params.text(request.GET.get("after", "")), status=status, level=level
    )
    last = flow_summaries.last_flows(agent_pks=[agent.pk for agent in page.rows])
    words = flow_words.of_flows(tenant=tenant, dfids=set(last.values()))
    context = {
        "rows": [
            {
                "agent": agent,
                "last_flow": last.get(agent.pk),
                "words": words.get(last[agent.pk]) if agent.pk in last else None,
                "status": _status(agent),
                "level": _lowered(agent),
                "tokens": budget_pages.tokens(agent, now=clock.now()),
                "is_overdue": _is_overdue(agent),
            }
            for agent in page.rows
        ],
        "pager": paging.pager(
            page=page,
            query=request.GET,
            key="after",
            last=page.rows[-1].agent_id if page.rows else "",
            order="by name",
        ),
        "status": status,
        "statuses": labels.AGENT_STATUSES.items(),
        "level": level,
        "levels": labels.AUTONOMY_LEVELS.items(),
        "filtered": bool(status or level),
        "any_agent": bool(page.rows) or agent_list.any_agent(tenant=tenant),
        "may_manage": may(request.user, Permission.MANAGE_REGISTRY),
    }
    return render(
        request, "runtime/_agents.html" if "HX-Request" in request.headers else "runtime/agents.html", context
    )


@require_safe
@signed_in
def detail(request: HttpRequest, agent_id: str) -> HttpResponse:
    """Show one agent with its manifest as tables and as stored, key ids only, and its newest flows."""
    agent = agent_lookup.get_or_404(request, agent_id)
    held = held_by(request.user)
    keys = agent_list.list_keys(agent=agent)
    # Flows keep the agent locked, unless a person locked it.
    why = (agent.status, agent.status_reason)
    is_dirty = why == (states.AgentStatus.LOCKED, Reason.PARTIAL_SUCCESS_DIRTY)
    context = {
        "agent": agent,
        "status": _status(agent),
        "dirty_flows": saga_progress.list_dirty_flows(agent, limit=5) if is_dirty else [],
        "tokens": budget_pages.tokens(agent, now=clock.now()),
        "keys": keys,
        "session": agent_list.get_last_session(agent=agent),
        "token_issuers": sorted(settings.DIR_TOKEN_ISSUERS),
        "live_keys": sum(key.revoked_at is None for key in keys),
        "manifest": _manifest(agent),
        "manifests": _history(agent),
        "moves": [
            (status.value, labels.AGENT_STATUSES[status].word)
            for status in agents.MOVES[states.AgentStatus(agent.status)]
            if status is not states.AgentStatus.RETIRED
        ],
        "owner": _ownership(agent, actor=actor_of(request.user)),
        "autonomy": autonomy_pages.shown(agent, actor=actor_of(request.user), at=clock.now()),
        "labels": label_pages.shown(agent, actor=actor_of(request.user), at=clock.now()),
        "is_retired": agent.status == states.AgentStatus.RETIRED,
        "is_overdue": _is_overdue(agent),
        "may_manage": roles.allows(held, Permission.MANAGE_REGISTRY),
        "flows": [
            {"flow": flow, "state": labels.badge(labels.FLOW_STATES, flow.state)}
            for flow in flow_search.list_recent_of(agent=agent, size=12)
        ],
        "stopped_by": labels.actor_words(agent.stopped_by, people.names_of([agent.stopped_by])),
        "may_stop": roles.allows(held, Permission.STOP),
        "may_resume": roles.allows(held, Permission.RESUME),
    }
    return render(
        request,
        "runtime/_agent_head.html" if "HX-Request" in request.headers else "runtime/agent.html",
        context,
    )


def _ownership(agent: Agent, *, actor: str) -> dict[str, Any]:
    """Return the pending change of owner, and whom recent changes bar from deciding."""
    asked = owners.get_asked(agent=agent)
    recent = owners.list_recent(agent=agent, at=clock.now())
    actors = [name for row in recent for name in (row.asked_by, row.agreed_by)]
    names = people.names_of([*actors, *([asked.asked_by] if asked else [])])
    barred = None if asked is None else ownership.may_agree(change=asked, actor=actor)
    return {
        "asked": asked,
        "asked_by": "" if asked is None else labels.actor_words(asked.asked_by, names),
        "barred": "" if barred is None else barred.detail,
        "recent": [
            {
                "row": row,
                "by": labels.actor_words(row.agreed_by, names),
                "bound": list(
                    dict.fromkeys(
                        [
                            row.owner_before,
                            labels.actor_words(row.asked_by, names),
                            labels.actor_words(row.agreed_by, names),
                        ]
                    )
                ),
                "until": row.agreed_at + timedelta(days=separation.DAYS) if row.agreed_at else None,
            }
            for row in recent
        ],
    }


def _status(agent: Agent) -> labels.Badge:
    if agent.stopped_at is not None:
        return labels.STOPPED
    return labels.badge(labels.AGENT_STATUSES, agent.status)


def _lowered(agent: Agent) -> labels.Badge | None:
    """The level of an agent that was lowered; most were not, and the list says nothing of those."""
    if agent.autonomy == states.AutonomyLevel.AUTONOMOUS:
        return None
    return labels.badge(labels.AUTONOMY_LEVELS, agent.autonomy)


def _is_overdue(agent: Agent) -> bool:
    retired = agent.status == states.AgentStatus.RETIRED
    return not retired and agent.review_on is not None and agent.review_on < clock.now().date()


def _history(agent: Agent) -> list[dict[str, Any]]:
    """Return all versions with state, changes from the previous one, author and activator."""
    rows = agent_list.list_manifests(agent=agent)
    before = manifest_versions.list_predecessors(agent=agent, rows=rows)
    names = people.names_of(actor for row in rows for actor in (row.created_by, row.activated_by))
    return [
        {
            "row": row,
            "state": labels.badge(
                labels.MANIFEST_STATES, manifest_versions.state_of(row, active_id=agent.active_manifest_id)
            ),
            "summary": _summary(agent, before[row.pk], row),
            "made_by": labels.actor_words(row.created_by, names),
            "activated_by": labels.actor_words(row.activated_by, names),
        }
        for row in rows
    ]


def _summary(agent: Agent, before: Manifest | None, row: Manifest) -> str:
    rows = [row] if before is None else [before, row]
    if any(recorded_versions.compare_manifest(agent, item, by=Kind.MANIFEST_REGISTERED) for item in rows):
        return "does not match the ledger"
    if before is None:
        return "first version"
    found = manifest_lint.diff(manifest_versions.contract_of(before), manifest_versions.contract_of(row))
    return version_diff.summary(found) or "no changes"


def _manifest(agent: Agent) -> dict[str, Any] | None:
    if agent.active_manifest is None:
        return None
    wrong = recorded_versions.compare_manifest(agent, agent.active_manifest)
    if wrong is not None:
        return {"row": agent.active_manifest, "untrusted": [wrong]}
    body = canonical.decode(bytes(agent.active_manifest.body))
    return {
        "row": agent.active_manifest,
        "limits": manifest_tables.limits(
            body, manifest_tables.limit_units(tenant=agent.tenant, policy_kinds=body["policy_kinds"])
        ),
        "rights": manifest_tables.rights(body),
        "bounds": manifest_tables.bounds(body),
        "autonomy": manifest_tables.autonomy(body),
        "own_autonomy": body.get("autonomy") is not None,
        "recorded": manifest_tables.recorded(body),
        "raw": labels.pretty(body),
        "activated_by": labels.actor_words(
            agent.active_manifest.activated_by, people.names_of([agent.active_manifest.activated_by])
        ),
    }
