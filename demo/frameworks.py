"""Two agents that are built with frameworks: ``python -m demo.frameworks --base URL --keys FILE``.

One is what the host of a model is that has its tools over MCP, the other a graph of LangGraph. Neither has a
model: each does what one would say. They know the console by ``/mcp`` and by the client library.
"""

import argparse
import asyncio
import logging
import random
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx2
from dir_console_client import Client
from dir_console_client.langgraph import governed_tool, resume_when_decided
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from demo import parent_death
from demo.agents import MANIFEST_VERSION, read_keys

log = logging.getLogger("demo.frameworks")

KIND: Final = "PAY_EXPENSE"
# Of what nobody is asked about, what a person is asked about, and what is refused.
SMALL_CENTS, LARGE_CENTS, TOO_MUCH_CENTS = range(900, 9_900), range(12_000, 48_000), range(51_000, 90_000)
# Six questions an hour are the agent's; without one left it would become PASSIVE.
ASKS_EVERY_S: Final = 900.0
WAIT_S: Final = 30.0
TROUBLE_S: Final = 10.0
_CALL_S: Final = 60.0
_WHAT: Final = ("a train to the auditor", "two monitors", "a licence", "lunch with a client", "a book")


@dataclass
class Framework:
    """One agent: takes turns until it is told to stop, and waits trouble out."""

    base_url: str
    key: str
    rng: random.Random
    stop: threading.Event
    turns: int = 0

    agent_id: ClassVar[str]
    pace_s: ClassVar[tuple[float, float]] = (20.0, 35.0)

    def run(self) -> None:
        """Take turns."""
        while not self.stop.is_set():
            pause_s = self.rng.uniform(*self.pace_s)
            self.turns += 1
            try:
                self.turn()
            except Exception as trouble:
                log.warning("%s: %s: %s", self.agent_id, type(trouble).__name__, trouble)
                pause_s += TROUBLE_S
            self.stop.wait(pause_s)

    def turn(self) -> None:
        """One piece of work."""
        raise NotImplementedError

    def expense(self, cents: range) -> dict[str, Any]:
        """The arguments of the tool, for a new claim."""
        claim = f"e-{self.rng.randrange(10**8)}"
        return {"claim": claim, "cents": self.rng.choice(cents), "what": self.rng.choice(_WHAT)}


class Assistant(Framework):
    """Calls the tool over MCP; every third call asks for too much, and is mended as the reasons say."""

    agent_id: ClassVar[str] = "expense-assistant"

    def turn(self) -> None:
        """Pay one expense."""
        asked = self.expense(SMALL_CENTS if self.turns % 3 else TOO_MUCH_CENTS)
        answer = self.call(**asked, dir_explain="The receipt is with the claim.", dir_confidence=0.9)
        if answer.get("status") == "REJECTED":
            mended = {**asked, "cents": self.rng.choice(SMALL_CENTS)}
            answer = self.call(**mended, dfid=answer["dfid"], dir_explain="Only the part that may be paid.")
        log.info("%s: %s", self.agent_id, answer.get("status"))

    def call(self, **arguments: Any) -> Mapping[str, Any]:
        """What the tool of the kind answers."""
        return asyncio.run(self._call(arguments))

    async def _call(self, arguments: dict[str, Any]) -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=_CALL_S) as http,
            McpClient(streamable_http_client(f"{self.base_url}/mcp", http_client=http)) as client,
        ):
            answer = await client.call_tool(KIND.lower(), arguments)
        return answer.structured_content or {}


class State(MessagesState):
    """The messages of the graph, and what its model would ask for."""

    asked: dict[str, Any]


@dataclass
class Graph(Framework):
    """Calls the tool in a graph; what needs a person interrupts it, and it goes on once that is decided."""

    asked_at_s: float = field(default=float("-inf"))

    agent_id: ClassVar[str] = "expense-graph"

    def turn(self) -> None:
        """Pay one expense: a large one every quarter of an hour, and it waits for the person."""
        is_large = self.turns > 1 and time.monotonic() - self.asked_at_s >= ASKS_EVERY_S
        if is_large:
            self.asked_at_s = time.monotonic()
        asked = self.expense(LARGE_CENTS if is_large else SMALL_CENTS)
        with Client(
            self.base_url, agent_id=self.agent_id, key=self.key, manifest_version=MANIFEST_VERSION
        ) as console:
            program = self.program(console)
            config: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}
            answer = program.invoke({"messages": [], "asked": asked}, config)
            while answer.get("__interrupt__") and not self.stop.is_set():
                try:
                    answer = resume_when_decided(program, config, console, timeout_s=WAIT_S)
                except TimeoutError as waits:
                    log.info("%s: %s", self.agent_id, waits)
        log.info("%s: %s", self.agent_id, answer["messages"][-1].content if answer["messages"] else "")

    def program(self, console: Client) -> Any:
        """A graph of one call."""
        graph = StateGraph(State)
        graph.add_node("model", _say)
        graph.add_node("tools", ToolNode([governed_tool(console, KIND, confidence=0.9)]))
        graph.add_edge(START, "model")
        graph.add_edge("model", "tools")
        return graph.compile(checkpointer=InMemorySaver())


def _say(state: State) -> dict[str, Any]:
    call = {"name": KIND.lower(), "args": state["asked"], "id": str(uuid.uuid4())}
    return {"messages": [AIMessage("", tool_calls=[call])]}


CAST: Final[tuple[type[Framework], ...]] = (Assistant, Graph)


def main(argv: list[str]) -> int:
    """Run until SIGTERM, SIGINT or the parent's end."""
    parser = argparse.ArgumentParser(prog="demo.frameworks", description="Agents built with frameworks.")
    parser.add_argument("--base", required=True, metavar="URL")
    parser.add_argument("--keys", required=True, type=Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args(argv)
    try:
        keys = read_keys(file=chosen.keys, environ={})
    except (OSError, ValueError) as trouble:
        print(f"frameworks: {trouble}", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    stop = threading.Event()
    parent_death.stop_when_told(stop)
    agents = [
        agent(chosen.base, keys[agent.agent_id], random.Random(f"{chosen.seed}:{agent.agent_id}"), stop)
        for agent in CAST
        if agent.agent_id in keys
    ]
    for agent in agents:
        # A long poll that is under way must not hold the process.
        threading.Thread(target=agent.run, daemon=True).start()
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
