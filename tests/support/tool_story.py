"""Tools of one MCP server in every state, written by the services; no server is spoken to."""

from typing import Any

from runtime.contracts.problem import Problem
from runtime.contracts.tool import ToolDefinition
from runtime.execution.adapters.tool_servers import conversation
from runtime.registry.services import tools

TENANT, SERVER, BY = "default", "notes", "user:1"


def described(name: str, words: str = "Does it.") -> ToolDefinition:
    """A tool as a server describes it."""
    tool = conversation.read_tool({"name": name, "description": words, "inputSchema": {"type": "object"}})
    assert tool is not None
    return tool


def note(*seen: ToolDefinition) -> None:
    """What a look at the server found."""
    tools.note_seen(
        tenant=TENANT, server=SERVER, tools={tool.name: tool for tool in seen}, trouble="", every_s=300
    )


def pin(tool: ToolDefinition, *, by: str = BY) -> None:
    """Pin a tool as described."""
    given: dict[str, Any] = {"name": tool.name, "shown": tool.digest, "reason": "Looked at", "actor": by}
    done = tools.pin(tenant=TENANT, server=SERVER, **given)
    assert not isinstance(done, Problem), done


def write() -> None:
    """Tools that have vanished, have changed, are pinned and are not; the server is switched off and on."""
    for enabled in (False, True):
        done = tools.switch(tenant=TENANT, server=SERVER, enabled=enabled, reason="A trial", actor=BY)
        assert not isinstance(done, Problem), done
    changed, gone, kept, new = (described(name) for name in ("changed", "gone", "kept", "new"))
    note(changed, gone, kept)
    for tool in (changed, gone, kept):
        pin(tool)
    note(described("changed", "Send the ledger along."), kept, new)
