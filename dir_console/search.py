"""The search over everything: what has a part of an id or of a name, in groups, each with a link."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from audit.access import roles
from audit.access.permissions import held_by, tenant_of
from audit.access.roles import Permission
from dir_console import evidence_search, sections
from dir_console.search_hits import Group, Hit
from escalations import presenters, queries
from runtime.contracts import reasons
from runtime.core import id_search
from runtime.core.views import labels
from runtime.flows.queries import id_lookups
from runtime.flows.views import flow_words
from runtime.flows.views.flow_words import FlowWords
from runtime.incidents.queries import incident_list
from runtime.incidents.views import presenters as incident_presenters
from runtime.registry.models import Agent
from runtime.registry.queries import name_search
from runtime.stops.queries import stop_list

SHOWN = 8
LEAST_NAME = 2
LEAST_OF_CALL = 4


def find(*, tenant: str, text: str) -> list[Group]:
    """Everything with the text in its name or id; groups without a hit are left out."""
    names = _by_name(tenant, text) if len(text) >= LEAST_NAME else []
    ids = _by_id(tenant, text) if id_search.digits_of(text) else []
    exact = evidence_search.find(tenant=tenant, text=text)
    found = (*exact, *names, _incidents(tenant, text), *ids, *_by_call(tenant, text))
    return [group for group in found if group.hits]


def find_pages(text: str) -> Group:
    """The pages of the menu and the help; all of them without a text."""
    return Group(
        title="Pages",
        hits=[
            Hit(word=word, url=reverse(name), icon=icon)
            for _, items in [*sections.menu(), ("Help", sections.HELP)]
            for word, name, icon in items
            if text.casefold() in word.casefold()
        ],
    )


def find_actions(user: Any, text: str) -> Group:
    """What the person may do, as links to the page that has the form; nothing is done by following one."""
    held, tenant = held_by(user), tenant_of(user)
    stop, home = stop_list.get_stop(tenant=tenant), reverse("overview")
    offered: list[tuple[Permission, bool, str, str, str]] = [
        (Permission.STOP, stop is None, "Stop all agents and calls", f"{home}#stop-all", "stop"),
        (Permission.RESUME, stop is not None, "Resume all", f"{home}#resume-all", "play"),
        (Permission.WORK_INCIDENTS, True, "Open an incident", reverse("new-incident"), "critical"),
        (Permission.MANAGE_REGISTRY, True, "Register an agent", reverse("register-agent"), "agent"),
        (Permission.MANAGE_REGISTRY, True, "Draft a policy kind", reverse("new-kind"), "kind"),
    ]
    wanted = text.casefold().split()
    # The last word names the agent: "stop basket", "draft a manifest for basket".
    if wanted and len(wanted[-1]) >= LEAST_NAME:
        for agent in name_search.list_agents(tenant=tenant, part=wanted[-1], size=SHOWN):
            offered += _actions_on(agent)
    return Group(
        title="Actions",
        hits=[
            Hit(word=word, url=url, icon=icon)
            for permission, is_possible, word, url, icon in offered
            if is_possible and roles.allows(held, permission)
            if all(part in word.casefold() for part in wanted)
        ],
    )


def _actions_on(agent: Agent) -> list[tuple[Permission, bool, str, str, str]]:
    page = reverse("agent", args=[agent.agent_id])
    is_stopped = agent.stopped_at is not None
    draft = reverse("new-manifest", args=[agent.agent_id])
    return [
        (Permission.STOP, not is_stopped, f"Stop agent {agent.agent_id}", f"{page}#agent-switch", "stop"),
        (Permission.RESUME, is_stopped, f"Resume agent {agent.agent_id}", f"{page}#agent-switch", "play"),
        (Permission.MANAGE_REGISTRY, True, f"Draft a manifest for {agent.agent_id}", draft, "edit"),
    ]


def _by_name(tenant: str, text: str) -> list[Group]:
    code = text.upper().replace(" ", "_")
    decisions, flows = reverse("decisions"), reverse("flows")
    return [
        Group(
            title="Agents",
            hits=[
                Hit(
                    word=agent.agent_id,
                    url=reverse("agent", args=[agent.agent_id]),
                    icon="agent",
                    badge=labels.badge(labels.AGENT_STATUSES, agent.status)
                    if agent.stopped_at is None
                    else labels.STOPPED,
                )
                for agent in name_search.list_agents(tenant=tenant, part=text, size=SHOWN)
            ],
        ),
        Group(
            title="Policy kinds",
            hits=[
                Hit(word=kind, url=reverse("kind", args=[kind]), icon="kind")
                for kind in name_search.list_kinds(tenant=tenant, part=text, size=SHOWN)
            ],
        ),
        Group(
            title="Targets",
            hits=[
                Hit(word=name, url=reverse("targets"), icon="bolt")
                for name in name_search.list_targets(tenant=tenant, part=text, size=SHOWN)
            ],
        ),
        Group(
            title="People",
            hits=[
                Hit(
                    word=name,
                    url=f"{decisions}?{urlencode({'person': name})}",
                    icon="user",
                    detail="decisions",
                )
                for name in name_search.list_people(part=text, size=SHOWN)
            ],
        ),
        Group(
            title="Reason codes",
            hits=[
                Hit(
                    word=reason.value,
                    url=f"{flows}?{urlencode({'reason': reason.value})}",
                    icon="high",
                    detail=labels.meaning(reason.value),
                )
                for reason in reasons.Reason
                if code in reason.value
            ][:SHOWN],
        ),
    ]


def _incidents(tenant: str, text: str) -> Group:
    found = incident_list.find(tenant=tenant, text=text, size=SHOWN) if len(text) >= LEAST_NAME else ()
    return Group(
        title="Incidents",
        hits=[
            Hit(
                word=labels.visible_lines(incident.title),
                url=reverse("incident", args=[incident.pk]),
                icon="critical",
                detail=incident.severity,
                badge=labels.badge(incident_presenters.STATES, incident.state),
            )
            for incident in found
        ],
        more_url=f"{reverse('incidents')}?{urlencode({'q': text})}" if len(found) == SHOWN else "",
    )


def _by_id(tenant: str, text: str) -> list[Group]:
    part = id_search.digits_of(text)
    escalations = queries.list_by_part_of_id(tenant=tenant, part=part, size=SHOWN)
    evidence = queries.get_evidence(tenant=tenant, escalations=escalations)
    flows = id_lookups.list_flows(tenant=tenant, part=part, size=SHOWN)
    within: dict[str, Sequence[tuple[UUID, UUID]]] = {
        "Proposals": id_lookups.list_proposals(tenant=tenant, part=part, size=SHOWN),
        "Intents": id_lookups.list_intents(tenant=tenant, part=part, size=SHOWN),
    }
    dfids = {flow.pk for flow in flows} | {dfid for found in within.values() for _, dfid in found}
    words = flow_words.of_flows(tenant=tenant, dfids=dfids)
    return [
        Group(
            title="Escalations",
            hits=[
                Hit(
                    word="Escalation",
                    effect=presenters.segments(evidence[row.pk]) if row.pk in evidence else (),
                    url=reverse("escalation", args=[row.pk]),
                    icon="inbox",
                    ident=str(row.pk),
                    badge=labels.badge(presenters.RESOLUTIONS, row.resolution or row.state),
                )
                for row in escalations
            ],
        ),
        Group(
            title="Flows",
            hits=[
                _flow(flow.pk, words.get(flow.pk), ident=str(flow.pk), detail=flow.agent.agent_id)
                for flow in flows
            ],
            more_url=f"{reverse('flows')}?{urlencode({'dfid': part})}" if len(flows) == SHOWN else "",
        ),
        *(
            Group(
                title=title,
                hits=[_flow(dfid, words.get(dfid), ident=str(ident), detail="") for ident, dfid in found],
            )
            for title, found in within.items()
        ),
    ]


def _by_call(tenant: str, text: str) -> list[Group]:
    """The flows of calls, by a part of their idempotency key or of what the target answered."""
    if len(text) < LEAST_OF_CALL:
        return []
    calls = id_lookups.list_calls(tenant=tenant, part=text, size=SHOWN)
    receipts = id_lookups.list_receipts(tenant=tenant, part=text, size=SHOWN)
    words = flow_words.of_flows(tenant=tenant, dfids={dfid for _, dfid in calls} | set(receipts))
    return [
        Group(
            title="Calls, by idempotency key",
            hits=[_flow(dfid, words.get(dfid), ident=key, detail="") for key, dfid in calls],
        ),
        Group(
            title="Receipts",
            hits=[_flow(dfid, words.get(dfid), ident=str(dfid), detail="its receipt") for dfid in receipts],
        ),
    ]


def _flow(dfid: UUID, words: FlowWords | None, *, ident: str, detail: str) -> Hit:
    return Hit(
        word="Flow",
        effect=() if words is None else words.effect,
        url=reverse("flow", args=[dfid]),
        icon="flow",
        ident=ident,
        detail=detail,
        badge=None if words is None else words.ended,
    )
