"""An agent of the OpenAI Agents SDK that refunds. To run it:

    DIR_AGENT_KEY=... python docs/examples/openai_agents_refund.py http://127.0.0.1:8000

Its model is a script, so that it needs no key of OpenAI; leave `model` out to use a real one. The refund
needs a person: decide it in the browser.
"""

import asyncio
import os
import sys
import uuid

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from dir_console_client import AsyncClient
from dir_console_client.openai_agents import governed_tool, held_actions, resume_when_decided

REFUND = {"order": "o-17", "cents": 42_000, "why": "It arrived broken"}
SAYS = [
    [function_call("issue_refund", REFUND, call_id=str(uuid.uuid4()))],
    [assistant_message("The refund is on its way.")],
]


async def main(url: str) -> None:
    """Refund, and wait for the person."""
    async with AsyncClient(url, agent_id="refund-clerk", key=os.environ["DIR_AGENT_KEY"]) as console:
        tool = await governed_tool(console, "ISSUE_REFUND")
        agent = Agent(name="Refunds", tools=[tool], model=ScriptedModel(SAYS))
        result = await Runner.run(agent, "Order o-17 arrived broken.")
        while result.interruptions:
            for held in await held_actions(result):
                print(f"Held: {held['reasons']}\nDecide at {held['page']}", flush=True)
            result = await resume_when_decided(agent, result)
        print(result.new_items[-2].output)
        print(result.final_output)


set_tracing_disabled(True)  # it would be sent to OpenAI
asyncio.run(main(sys.argv[1]))
