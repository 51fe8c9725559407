"""What policy may know of an escalation, from its rows and the evidence that was shown."""

from collections.abc import Mapping
from typing import Any

from escalations.contracts import Family, State
from escalations.models import Escalation
from escalations.policy import Situation
from runtime.contracts.states import Impact
from runtime.contracts.verdict import FindingOutcome
from runtime.kernel import moments
from runtime.models import Agent


def of(*, escalation: Escalation, agent: Agent, shown: Mapping[str, Any]) -> Situation:
    """The situation of one escalation; `shown` is the decoded bundle in force."""
    manifest = agent.active_manifest
    activated_at = None if manifest is None else manifest.activated_at
    return Situation(
        family=Family(escalation.family),
        state=State(escalation.state),
        impact=impact_of(escalation),
        agent_owner=agent.owner,
        manifest_activated_by="" if manifest is None else manifest.activated_by,
        manifest_activated_at_ms=None if activated_at is None else moments.to_ms(activated_at),
        deadline_at_ms=None if escalation.deadline_at is None else moments.to_ms(escalation.deadline_at),
        failing=tuple(
            item["message"] for item in shown["findings"] if item["outcome"] == FindingOutcome.FAIL
        ),
    )


def impact_of(escalation: Escalation) -> Impact:
    """The impact category as the enum."""
    return Impact(escalation.impact)
