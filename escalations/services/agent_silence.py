"""The escalation of a silent agent: no proposal, no verdict, no deadline; its evidence has a form of its own.

The evidence says who is silent, whose agent it is, since when, and its open work.
"""

import secrets
from uuid import UUID

from audit import actors
from escalations.contracts import Family
from escalations.evidence_contracts import (
    LastVerdictEvidence,
    LiveIntentEvidence,
    LiveIntentsEvidence,
    OpenFlowEvidence,
    OpenFlowsEvidence,
    SilenceEvidence,
    SilencePeriod,
    SilentAgentEvidence,
)
from escalations.models import Escalation
from escalations.services import evidence, opening
from escalations.services.opening import OpenedEscalation
from runtime.contracts import timestamps
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ENDED, LIVE_INTENTS, FlowState, Impact
from runtime.contracts.verdict import Segment
from runtime.core.ids import new_id
from runtime.flows.models import Flow, Intent, Proposal
from runtime.kernel import effects
from runtime.kernel.silence import Silence
from runtime.maintenance.queries import silent_agents
from runtime.registry.models import Agent

SHOWN = 10
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def open_escalation(*, flow: Flow, agent: Agent, silence: Silence) -> OpenedEscalation:
    """Open the escalation of a silent agent with its evidence. The caller holds both and writes the entry.

    HIGH_IMPACT where a call of the agent is under way or may still be made, since nobody listens to what
    comes of it.
    """
    escalation_id = new_id()
    shown = build(escalation_id=escalation_id, flow=flow, agent=agent, silence=silence)
    body, impact = shown.to_bytes(), shown.impact
    row = Escalation(
        escalation_id=escalation_id,
        tenant=flow.tenant,
        flow=flow,
        proposal=None,
        family=Family.AGENT,
        reason=Reason.AGENT_SILENT.value,
        impact=impact,
        impact_rank=impact.rank,
        agent_id=agent.agent_id,
        policy_kind="",
        effect="".join(part.text for part in shown.effect)[: evidence.EFFECT_CHARS],
        proposed_value=str(silence.awake_s),
        limit=str(silence.silent_after_s),
        opened_at=silence.at,
    )
    return opening.store(row, body=body)


def build(*, escalation_id: UUID, flow: Flow, agent: Agent, silence: Silence) -> SilenceEvidence:
    """Everything that the page shows, except who claims it."""
    unended = [state.value for state in FlowState if state.value not in ENDED]
    open_flows = Flow.objects.of(agent.tenant).filter(agent=agent, state__in=unended).exclude(pk=flow.pk)
    live = Intent.objects.filter(flow__agent=agent, state__in=LIVE_INTENTS)
    intents = tuple(
        LiveIntentEvidence(
            intent_id=str(row.pk),
            dfid=str(row.flow_id),
            state=row.state,
            target=row.target,
            valid_until=timestamps.iso(row.valid_until),
        )
        for row in live.order_by("-intent_id")[:SHOWN]
    )
    # People's own proposals on its flows are left out.
    proposals = Proposal.objects.filter(agent=agent, author=actors.agent(agent.agent_id))
    verdicts = proposals.order_by("-received_at").values_list(
        "verdict__decision", "policy_kind", "flow_id", "received_at"
    )
    manifest = agent.active_manifest
    where = " of its hours" if silence.hours is not None else ""
    heard = "has not called" if silence.last_seen_at is not None else "has never called, and is missed"
    return SilenceEvidence(
        escalation_id=str(escalation_id),
        revision=1,
        family=Family.AGENT,
        reason=Reason.AGENT_SILENT.value,
        dfid=str(flow.dfid),
        frozen_at=timestamps.iso(silence.at),
        effect=(
            # What a person has to know, in one sentence; the name is isolated like every given value.
            Segment(text=effects.visible(agent.agent_id), value=True),
            Segment(
                text=f" {heard} for {spoken(silence.awake_s)}{where}; "
                f"it may be silent for {spoken(silence.silent_after_s)}",
                value=False,
            ),
        ),
        impact=Impact.HIGH_IMPACT if intents else Impact.LOW_IMPACT,
        type_again="",
        agent=SilentAgentEvidence(
            agent_id=agent.agent_id,
            role=agent.role,
            owner=agent.owner,
            mission=agent.mission,
            status=agent.status,
            manifest_version=None if manifest is None else manifest.version,
            manifest_digest=None if manifest is None else manifest.digest,
        ),
        silence=SilencePeriod(
            since=timestamps.iso(silence.since),
            last_seen_at=silent_agents.iso(silence.last_seen_at),
            awake_s=silence.awake_s,
            silent_after_s=silence.silent_after_s,
            hours=silence.hours,
        ),
        open_flows=OpenFlowsEvidence(
            total=open_flows.count(),
            newest=tuple(
                OpenFlowEvidence(
                    dfid=str(row.dfid),
                    state=row.state,
                    policy_kind=row.policy_kind,
                    opened_at=timestamps.iso(row.opened_at),
                )
                for row in open_flows.order_by("-dfid")[:SHOWN]
            ),
        ),
        live_intents=LiveIntentsEvidence(total=live.count(), newest=intents),
        last_verdicts=tuple(
            LastVerdictEvidence(
                decision=decision, policy_kind=kind, dfid=str(dfid), received_at=timestamps.iso(at)
            )
            for decision, kind, dfid, at in verdicts[:SHOWN]
        ),
        # Of its own: there is no proposal to derive it from.
        salt=secrets.token_hex(16),
    )


def spoken(seconds: int) -> str:
    """A length of time in its largest unit and what is left in the next, such as `1 h 30 min`."""
    for at, (size, name) in enumerate(_UNITS):
        if seconds >= size:
            words = f"{seconds // size} {name}"
            rest = _UNITS[at + 1 : at + 2]
            left = [
                f"{seconds % size // smaller} {unit}" for smaller, unit in rest if seconds % size >= smaller
            ]
            return " ".join([words, *left])
    return "0 s"
