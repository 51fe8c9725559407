"""What happens to the workflows of agents, and to the steps of flows that follow one."""

from pydantic import Field

from audit.events.base import Event, Id, Kind, Names, Text, is_absent


class WorkflowRegistered(Event):
    """A version of a workflow; flows that begin with it keep it."""

    kind = Kind.WORKFLOW_REGISTERED
    workflow: str
    version: str
    digest: str


class StepTaken(Event):
    """A step that the flow's workflow allowed, as its agent reported it; `next` is what a router demands.

    The commitments stand for the report and for where the flow stands after it.
    """

    kind = Kind.STEP_TAKEN
    instruction: str
    workflow: str
    version: str
    report_commitment: str
    position_commitment: str
    next: str | None = None


class FlowContinued(Event):
    """A person let an interrupted flow continue; `next` is the instruction that they chose, if any.

    `allows` is a refused step that they allowed. The commitment stands for where the flow stands after it.
    """

    kind = Kind.FLOW_CONTINUED
    escalation_id: Id
    workflow: str
    version: str
    position_commitment: str
    next: str | None = None
    allows: str | None = Field(default=None, exclude_if=is_absent)


class StepRefused(Event):
    """A step that moved nothing; `asked` tells a report from a check before it."""

    kind = Kind.STEP_REFUSED
    instruction: str
    asked: Text
    policies: Names
    codes: Names
