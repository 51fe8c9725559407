"""Tools of MCP servers: what was seen of them, and what an admin pinned."""

from audit.events.base import Event, Kind, Text


class ToolFound(Event):
    """A server describes a tool that nobody has pinned; `digest` is that of the description."""

    kind = Kind.TOOL_FOUND
    server: str
    tool: str
    digest: str


class ToolPinned(Event):
    """An admin looked at a description: only a tool described so is called. `replaces` may be empty."""

    kind = Kind.TOOL_PINNED
    server: str
    tool: str
    digest: str
    replaces: str
    reason: Text


class ToolQuarantined(Event):
    """A pinned tool is CHANGED or VANISHED, and is not called; `found` is empty where it is not listed."""

    kind = Kind.TOOL_QUARANTINED
    server: str
    tool: str
    because: Text
    pinned: str
    found: str


class ToolServerSwitched(Event):
    """A person switched an MCP server off, so that nothing of it is called, or on."""

    kind = Kind.TOOL_SERVER_SWITCHED
    server: str
    enabled: bool
    reason: Text
