"""Whether an agent may send and receive now: messages obey the kill switches as calls do."""

from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import AGENT_STATUS_CODES, ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.flows.queries import due_intents
from runtime.registry.models import Agent


def refuse_work(agent: Agent) -> Problem | None:
    """Why the agent can neither send nor receive; None where it can.

    503 while it, or everything, is stopped; 403 while it is not ACTIVE.
    """
    now = due_intents.get_standing(agent_pk=agent.pk)
    if now.stopped_by is not None:
        detail = f"No message is sent or delivered: {now.stopped_by}. Wait until a person ends that."
        return Problem(code=ProblemCode.TEMPORARILY_UNAVAILABLE, detail=detail)
    if now.status is not AgentStatus.ACTIVE:
        detail = f"The agent is {now.status}: only ACTIVE agents send and receive messages."
        return Problem(code=AGENT_STATUS_CODES[now.status], detail=detail)
    return None


def find_recipient(*, tenant: str, agent_id: str) -> Agent | Problem:
    """The agent that a message is for, if it can be reached now.

    404 CAPABILITY_NOT_FOUND for no such agent or one that is retired, 503 for one that is held.
    """
    agent = Agent.objects.of(tenant).filter(agent_id=agent_id).first()
    if agent is None or agent.status == AgentStatus.RETIRED:
        return Problem(code=ProblemCode.CAPABILITY_NOT_FOUND, detail="No agent with this id can be reached.")
    now = due_intents.get_standing(agent_pk=agent.pk)
    if now.stopped_by is not None or now.status is not AgentStatus.ACTIVE:
        detail = "The recipient is held and receives no messages now. Send it later."
        return Problem(code=ProblemCode.TEMPORARILY_UNAVAILABLE, detail=detail)
    return agent
