"""Looks at MCP servers: what they say of their tools, asked by a worker or a command, never by a request.

A call looks once more, right before, in its own conversation: what is done here is seen earlier by people.
"""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from runtime.contracts.states import ToolState
from runtime.core import clock, transactions
from runtime.execution.adapters.tool_servers import wires
from runtime.execution.adapters.tool_servers.conversation import Conversation, Listed
from runtime.execution.adapters.tool_servers.wire import WireError
from runtime.registry.models.tools import ToolServer
from runtime.registry.queries import target_endpoints, tool_pins
from runtime.registry.services import tools
from runtime.registry.services.tools import SeenTools
from runtime.stops.services import call_gate

TIMEOUT_S = 15
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ServerLook:
    """What a look at a server found; `trouble` is a sentence where it failed, or left a tool out."""

    server: str
    seen: SeenTools
    trouble: str = ""
    failed: bool = False


def look(*, tenant: str, server: str) -> ServerLook | None:
    """List the tools of a server, and note what is new or otherwise; None where there is no such server.

    No database connection may be in use: it blocks for as long as the server takes, at most TIMEOUT_S.
    """
    place = target_endpoints.list_servers(tenant=tenant).get(server)
    if place is None:
        return None
    transactions.give_back_connection()
    try:
        listed = _listed(place, tenant=tenant)
    except WireError as error:
        trouble = f"{error.words[:1].upper()}{error.words[1:]}."
        tools.note_trouble(tenant=tenant, server=server, trouble=trouble, every_s=settings.DIR_TOOL_CHECK_S)
        return ServerLook(server=server, seen=SeenTools(), trouble=trouble, failed=True)
    trouble = (
        f"{listed.unusable} tools are described in a way that cannot be used." if listed.unusable else ""
    )
    seen = tools.note_seen(
        tenant=tenant,
        server=server,
        tools=listed.tools,
        trouble=trouble,
        every_s=settings.DIR_TOOL_CHECK_S,
    )
    return ServerLook(server=server, seen=seen, trouble=seen.trouble)


def look_due(*, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Look at the servers that are due; how many were. A server that is switched off is not spoken to."""
    tenant = settings.DIR_TENANT
    kept, at = tool_pins.list_servers(tenant=tenant), clock.now()
    looked = 0
    for name in sorted(target_endpoints.list_servers(tenant=tenant)):
        if name in kept and not _is_due(kept[name], at):
            continue
        if is_stopping():
            break
        try:
            look(tenant=tenant, server=name)
        except call_gate.ClosedError:
            break
        except Exception:
            _log.exception("the tools of %s could not be looked at", name)
        looked += 1
    return looked


def _is_due(server: ToolServer, at: datetime) -> bool:
    return server.enabled and (server.due_at is None or server.due_at <= at)


def list_unpinned(*, tenant: str, server: str) -> list[tuple[str, str]]:
    """The tools of a server that nobody has pinned, by name, with the digests of their descriptions."""
    rows = tool_pins.list_tools(tenant=tenant, server=server)
    return [(row.name, row.found_digest) for row in rows if row.state == ToolState.FOUND]


def _listed(place: target_endpoints.TargetEndpoint, *, tenant: str) -> Listed:
    with closing(
        wires.open_wire(
            base_url=place.base_url, secret_env=place.secret_env, traceparent="", timeout_s=TIMEOUT_S
        )
    ) as wire:
        conversation = Conversation(wire)
        conversation.greet(gate=lambda: call_gate.asking(tenant=tenant))
        return conversation.list_tools()
