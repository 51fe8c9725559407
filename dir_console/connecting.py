"""What to put where, so that an agent works under this console: texts for `manage.py connect`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_PYTHON: Final = """\
# pip install dir-console-client
import os

from dir_console_client import Client

agent = {{"agent_id": "{agent_id}", "manifest_version": "{version}", "key": os.environ["DIR_AGENT_KEY"]}}
with Client("{url}", **agent) as console:
    result = console.act(
        "{kind}",
        {params},
        confidence=0.9,
        explain="Why this, and why now.",
    )
    print(result.words())
"""
_LANGGRAPH: Final = """\
# pip install "dir-console-client[langgraph]"
import os

from dir_console_client import Client
from dir_console_client.langgraph import governed_tool, resume_when_decided

agent = {{"agent_id": "{agent_id}", "manifest_version": "{version}", "key": os.environ["DIR_AGENT_KEY"]}}
console = Client("{url}", **agent)
tools = [governed_tool(console, kind) for kind in {kinds}]
# Give `tools` to your graph, which needs a checkpointer. When a person must decide, `invoke` returns with
# an interrupt; this waits for the decision in the browser and lets the graph go on:
#     resume_when_decided(graph, config, console)
"""
_OPENAI_AGENTS: Final = """\
# pip install "dir-console-client[openai-agents]"
import asyncio
import os

from agents import Agent, Runner
from dir_console_client import AsyncClient
from dir_console_client.openai_agents import governed_tool, resume_when_decided

settings = {{"agent_id": "{agent_id}", "manifest_version": "{version}", "key": os.environ["DIR_AGENT_KEY"]}}


async def main(asked):
    async with AsyncClient("{url}", **settings) as console:
        tools = [await governed_tool(console, kind) for kind in {kinds}]
        agent = Agent(name="{agent_id}", tools=tools)
        result = await Runner.run(agent, asked)
        # When a person must decide, the run is interrupted; this waits for the decision in the browser.
        while result.interruptions:
            result = await resume_when_decided(agent, result)
        print(result.final_output)


asyncio.run(main("Say here what is to be done."))
"""
_MCP: Final = """\
# In the settings of an MCP client (for example .mcp.json); it puts the key from its environment in place:
{settings}
"""
_HOOK: Final = """\
# pip install dir-console-client, then add this to the settings of the coding agent:
{settings}
"""
_TOPIC: Final = """\
# pip install redis, and in a shell, once: export DIR_TOPIC_URL="$(python manage.py topic_user {agent_id})"
import json
import os
import urllib.request
import uuid

import redis

hello = {{"agent_id": "{agent_id}", "manifest_version": "{version}", "protocol_version": "1.0.0"}}
headers = {{"Authorization": "Bearer " + os.environ["DIR_AGENT_KEY"], "Content-Type": "application/json"}}
asked = urllib.request.Request("{url}/api/v1/handshake", json.dumps(hello).encode(), headers)
with urllib.request.urlopen(asked) as opened:
    token = json.load(opened)["session_token"]

body = {{
    "policy_kind": "{kind}",
    "params": {params},
    "execution_constraints": {{"validity_window_sec": 300}},
    "context": "current",
    "confidence": 0.9,
    "explain": "Why this, and why now.",
}}
topic = redis.Redis.from_url(os.environ["DIR_TOPIC_URL"], decode_responses=True, protocol=2)
# The same key finds the same answer: keep it until there is one.
message = {{"token": token, "key": uuid.uuid4().hex, "body": json.dumps(body)}}
sent = topic.xadd("dir:intake:{agent_id}", message)
last, answer = "0-0", None
while answer is None:
    for _, entries in topic.xread({{"dir:answers:{agent_id}": last}}, block=5000):
        last = entries[-1][0]
        answer = next((entry for _, entry in entries if entry.get("to") == sent), answer)
print(answer["status"], answer["body"])
"""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """An agent as it is registered: the version of its active manifest, its kinds and their parameters."""

    url: str
    agent_id: str
    version: str
    kinds: Mapping[str, Mapping[str, Any]]


def python(to: Connection) -> str:
    """A program of ten lines that acts once."""
    kind, params = _example(to)
    return _PYTHON.format(url=to.url, agent_id=to.agent_id, version=to.version, kind=kind, params=params)


def topic(to: Connection) -> str:
    """A program that proposes once over the agent's topic at Redis."""
    kind, params = _example(to)
    return _TOPIC.format(url=to.url, agent_id=to.agent_id, version=to.version, kind=kind, params=params)


def langgraph(to: Connection) -> str:
    """Tools of a LangGraph agent, one for each kind."""
    return _with_kinds(_LANGGRAPH, to)


def openai_agents(to: Connection) -> str:
    """An agent of the OpenAI Agents SDK with a tool for each kind."""
    return _with_kinds(_OPENAI_AGENTS, to)


def hook(to: Connection) -> str:
    """Settings of a coding agent that asks before it runs a tool."""
    kind = next(iter(to.kinds))
    command = {"type": "command", "command": "dir-hook", "timeout": 330}
    settings = {
        "env": {
            "DIR_URL": to.url,
            "DIR_AGENT_ID": to.agent_id,
            "DIR_MANIFEST_VERSION": to.version,
            "DIR_HOOK_KIND": kind,
            "DIR_HOOK_WAIT_S": "300",
        },
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]},
    }
    return _HOOK.format(settings=json.dumps(settings, indent=2))


def mcp(to: Connection) -> str:
    """Settings of an MCP client: the policy kinds are its tools."""
    server = {
        "type": "http",
        "url": f"{to.url}/mcp",
        "headers": {"Authorization": "Bearer ${DIR_AGENT_KEY}"},
    }
    return _MCP.format(settings=json.dumps({"mcpServers": {"dir-console": server}}, indent=2))


CONFIGURATIONS: Final[Mapping[str, Callable[[Connection], str]]] = {
    "python": python,
    "langgraph": langgraph,
    "openai-agents": openai_agents,
    "hook": hook,
    "mcp": mcp,
    "topic": topic,
}


def _with_kinds(program: str, to: Connection) -> str:
    kinds = json.dumps(list(to.kinds))
    return program.format(url=to.url, agent_id=to.agent_id, version=to.version, kinds=kinds)


def _example(to: Connection) -> tuple[str, str]:
    """The first kind, and parameters of it as Python."""
    kind, schema = next(iter(to.kinds.items()))
    params = json.dumps(example_of(schema)).replace("true", "True").replace("false", "False")
    return kind, params.replace("null", "None")


def example_of(schema: Mapping[str, Any]) -> Any:
    """A value that has the form of a schema: required members only, the least that each allows."""
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            members = schema.get("properties", {})
            return {name: example_of(members.get(name, {})) for name in schema.get("required", [])}
        case "array":
            return [example_of(schema.get("items", {}))] * int(schema.get("minItems", 0))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    return "..."
