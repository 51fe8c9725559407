"""A LangGraph agent that refunds: DIR_AGENT_KEY=... python docs/examples/langgraph_refund.py http://127.0.0.1:8000

It has no model: its one node calls the tool as a model would. The refund needs a person: decide it in the
browser.
"""

import os
import sys
import uuid
from typing import Any

from dir_console_client import Client
from dir_console_client.langgraph import governed_tool, resume_when_decided
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

REFUND = {"order": "o-17", "cents": 42_000, "why": "It arrived broken"}


def ask_for_a_refund(state: MessagesState) -> dict[str, Any]:
    """What a model would say."""
    call = {"name": "issue_refund", "args": REFUND, "id": str(uuid.uuid4())}
    return {"messages": [AIMessage("", tool_calls=[call])]}


with Client(sys.argv[1], agent_id="refund-clerk", key=os.environ["DIR_AGENT_KEY"]) as console:
    graph = StateGraph(MessagesState)
    graph.add_node("agent", ask_for_a_refund)
    graph.add_node("tools", ToolNode([governed_tool(console, "ISSUE_REFUND")]))
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "tools")
    program = graph.compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}
    answer = program.invoke({"messages": []}, config)
    for held in answer.get("__interrupt__", ()):
        print(f"Held: {held.value['reasons']}\nDecide at {held.value['page']}", flush=True)
        answer = resume_when_decided(program, config, console)
    print(answer["messages"][-1].content)
