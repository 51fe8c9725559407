"""Reads of MCP servers and of the tools that admins pinned, for the gate, for the claim and for the pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import QuerySet

from audit import actors, canonical, queries, statements
from audit.events import Kind
from runtime.contracts.facts import ToolFacts
from runtime.contracts.reasons import Reason
from runtime.contracts.states import ToolState
from runtime.contracts.tool import ToolDefinition
from runtime.core import mismatches
from runtime.core.mismatches import Mismatch
from runtime.registry.models.tools import ToolServer, UpstreamTool

KINDS: Final = (Kind.TOOL_FOUND, Kind.TOOL_PINNED, Kind.TOOL_QUARANTINED, Kind.TOOL_SERVER_SWITCHED)
MOST_SHOWN: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the last entry about a tool records of its row."""

    state: ToolState
    pinned: str
    found: str
    reason: str = ""


def recorded_by(kind: str, said: Mapping[str, Any]) -> Recorded:
    """What an entry about a tool records of its row."""
    match kind:
        case Kind.TOOL_FOUND:
            return Recorded(state=ToolState.FOUND, pinned="", found=said["digest"])
        case Kind.TOOL_PINNED:
            return Recorded(
                state=ToolState.PINNED, pinned=said["digest"], found=said["digest"], reason=said["reason"]
            )
        case _:
            return Recorded(state=ToolState(said["because"]), pinned=said["pinned"], found=said["found"])


def columns(recorded: Recorded, row: UpstreamTool) -> list[tuple[str, object, object]]:
    """Each column of a tool's row that its last entry records: its name, what is recorded, what is held."""
    return [
        ("state", recorded.state.value, row.state),
        ("pinned_digest", recorded.pinned, row.pinned_digest),
        ("found_digest", recorded.found, row.found_digest),
        ("reason", recorded.reason, row.reason),
    ]


def bodies(recorded: Recorded, row: UpstreamTool) -> list[tuple[str, str, object]]:
    """The stored descriptions of a tool's row: their column, the recorded digest (empty: none), the cell."""
    return [("pinned", recorded.pinned, row.pinned), ("found", recorded.found, row.found)]


def compare_tool(row: UpstreamTool, recorded: Recorded | None) -> Mismatch | None:
    """Whether a tool's row is what its last entry records; None for `recorded`: there is no entry."""
    row_id = f"{row.server} {row.name}"
    if recorded is None:
        return mismatches.of_values("upstreamtool.state", row_id, mismatches.NOT_RECORDED, row.state)
    for name, told, stored in columns(recorded, row):
        if told != stored:
            return mismatches.of_values(f"upstreamtool.{name}", row_id, told, stored)
    for name, digest, cell in bodies(recorded, row):
        # Where nothing is recorded, the cell is empty.
        expected = digest or canonical.digest(b"")
        if found := mismatches.compare(f"upstreamtool.{name}", row_id, expected, cell):
            return found
    return None


@dataclass(frozen=True, kw_only=True)
class RecordedServer:
    """What the entries of a server record: its tools by name, and whether it is switched on."""

    tools: Mapping[str, Recorded]
    enabled: bool


def recorded_server(*, tenant: str, server: str) -> RecordedServer:
    """What the entries of one server record, in one query."""
    tools: dict[str, Recorded] = {}
    enabled = True
    for kind, said in queries.list_payloads(tenant=tenant, stream=actors.target(server), kinds=KINDS):
        if kind == Kind.TOOL_SERVER_SWITCHED:
            enabled = bool(said["enabled"])
        else:
            tools[said["tool"]] = recorded_by(kind, said)
    return RecordedServer(tools=tools, enabled=enabled)


@dataclass(frozen=True, kw_only=True)
class Pin:
    """What a call of a tool is made under: the digest of its pinned description, or why it is not made."""

    digest: str = ""
    refused: Reason | None = None
    mismatch: Mismatch | None = None


def find_pin(*, tenant: str, server: str, tool: str) -> Pin:
    """The pin of one tool, compared with the ledger: a row that differs is no pin."""
    return _pin(recorded_server(tenant=tenant, server=server), tenant=tenant, server=server, tool=tool)


def _pin(recorded: RecordedServer, *, tenant: str, server: str, tool: str) -> Pin:
    if not recorded.enabled:
        return Pin(refused=Reason.TOOL_SERVER_OFF)
    row = get_tool(tenant=tenant, server=server, name=tool)
    if row is None:
        return Pin(refused=Reason.TOOL_NOT_PINNED)
    mismatch = compare_tool(row, recorded.tools.get(tool))
    if mismatch is not None:
        return Pin(refused=Reason.TAMPERED, mismatch=mismatch)
    match ToolState(row.state):
        case ToolState.PINNED:
            return Pin(digest=row.pinned_digest)
        case ToolState.FOUND:
            return Pin(refused=Reason.TOOL_NOT_PINNED)
        case ToolState.CHANGED | ToolState.VANISHED:
            return Pin(refused=Reason.TOOL_QUARANTINED)


def list_facts(*, tenant: str, tools: Iterable[tuple[str, str]]) -> tuple[ToolFacts, ...]:
    """What the gate may know of the tools that a kind calls; a row unlike its entry is refused."""
    found, servers = [], dict[str, RecordedServer]()
    for server, tool in tools:
        if server not in servers:
            servers[server] = recorded_server(tenant=tenant, server=server)
        pin = _pin(servers[server], tenant=tenant, server=server, tool=tool)
        found.append(ToolFacts(server=server, tool=tool, pinned=pin.digest, refused=pin.refused))
    return tuple(found)


def _tool(*, tenant: str, server: str, name: str) -> QuerySet[UpstreamTool]:
    return UpstreamTool.objects.of(tenant).filter(server=server, name=name)


_TOOL: Final = statements.Read(_tool)


def get_tool(*, tenant: str, server: str, name: str) -> UpstreamTool | None:
    """The row of a tool; None where there is none. PostgreSQL cannot even compare a text that has a NUL."""
    return None if "\x00" in server + name else _TOOL.first(tenant=tenant, server=server, name=name)


def list_tools(*, tenant: str, server: str | None = None) -> Sequence[UpstreamTool]:
    """The tools of one server, or of all, by server and name; bounded."""
    rows = UpstreamTool.objects.of(tenant).order_by("server", "name")
    return list((rows if server is None else rows.filter(server=server))[:MOST_SHOWN])


def list_servers(*, tenant: str) -> Mapping[str, ToolServer]:
    """What is kept of servers, by name."""
    return {row.name: row for row in ToolServer.objects.of(tenant)}


def definition_of(body: object) -> ToolDefinition | None:
    """A stored description; None where there is none.

    Raises:
        pydantic.ValidationError: when the bytes are no description.
    """
    raw = bytes(body) if isinstance(body, bytes | memoryview) else b""
    return ToolDefinition.from_bytes(raw) if raw else None
