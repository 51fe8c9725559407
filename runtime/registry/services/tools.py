"""Tools of MCP servers: the one place that notes what was seen, pins, quarantines and switches.

What a server says of a tool is a claim. An admin looks at it and pins it: from then on only a tool that is
described so is called, and one that is described otherwise is quarantined until an admin looks again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from audit import actors, canonical, events, ledger, row_locks
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import ToolState
from runtime.contracts.tool import MOST_TOOLS, ToolDefinition
from runtime.core import clock, given_reasons, transactions
from runtime.kernel import tool_drafts
from runtime.registry.models import PolicyKind
from runtime.registry.models.tools import ToolServer, UpstreamTool
from runtime.registry.queries import kind_versions, tool_pins
from runtime.registry.services import kinds


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """A tool that was pinned. `draft` is the kind that came of it: None where there was one before, and the
    problem where none could be made of what the server says."""

    tool: UpstreamTool
    draft: PolicyKind | Problem | None = None


@dataclass(frozen=True, kw_only=True)
class SeenTools:
    """What a look at a server found: the names of tools by what became of them, and what is wrong with it."""

    found: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    trouble: str = ""


@transactions.retried
def note_seen(
    *, tenant: str, server: str, tools: Mapping[str, ToolDefinition], trouble: str, every_s: int
) -> SeenTools:
    """Note the whole list of a server's tools, as it was seen outside any transaction.

    A quarantined tool stays so, even where its server describes it as pinned again: a person looks first. A
    server that shows other names each time is noted with MOST_TOOLS of them, and the trouble says so.
    """
    at = clock.now()
    rows = _lock_tools(tenant=tenant, server=server)
    entries: list[events.Event] = []
    found, quarantined = [], []
    room, left_out = MOST_TOOLS - len(rows), 0
    for name, tool in sorted(tools.items()):
        row = rows.get(name)
        if row is None and not room:
            left_out += 1
            continue
        if row is None:
            room -= 1
            row = UpstreamTool(tenant=tenant, server=server, name=name, state=ToolState.FOUND)
        elif ToolState(row.state) is not ToolState.FOUND:
            if (entry := _quarantine(row, tool, at=at)) is not None:
                entries.append(entry)
                quarantined.append(name)
            continue
        if row.found_digest == tool.digest:
            continue
        row.found, row.found_digest = tool.to_bytes(), tool.digest
        _save(row, actor=actors.SYSTEM, at=at)
        entries.append(events.ToolFound(server=server, tool=name, digest=tool.digest))
        found.append(name)
    for name, row in sorted(rows.items()):
        if name in tools or row.state == ToolState.FOUND:
            continue
        if (entry := _quarantine(row, None, at=at)) is not None:
            entries.append(entry)
            quarantined.append(name)
    if left_out:
        said = f"{left_out} tools are not noted: it has shown {MOST_TOOLS} already."
        trouble = f"{trouble} {said}".strip()
    _note_look(tenant=tenant, server=server, at=at, trouble=trouble, every_s=every_s)
    _append(tenant, server, actor=actors.SYSTEM, at=at, entries=entries)
    return SeenTools(found=tuple(found), quarantined=tuple(quarantined), trouble=trouble)


@transactions.retried
def note_trouble(*, tenant: str, server: str, trouble: str, every_s: int) -> None:
    """Note that a server could not be looked at. Its pins stay: it is looked at again before each call."""
    _note_look(tenant=tenant, server=server, at=clock.now(), trouble=trouble, every_s=every_s)


@transactions.retried
def note_other(*, tenant: str, server: str, name: str, seen: ToolDefinition | None) -> bool:
    """Quarantine a tool that its server described otherwise right before a call; None: it was not listed."""
    at = clock.now()
    row = _lock_tools(tenant=tenant, server=server).get(name)
    if row is None or row.state == ToolState.FOUND:
        return False
    entry = _quarantine(row, seen, at=at)
    if entry is None:
        return False
    _append(tenant, server, actor=actors.SYSTEM, at=at, entries=[entry])
    return True


def pin(*, tenant: str, server: str, name: str, shown: str, reason: str, actor: str) -> Pinned | Problem:
    """Pin a tool as it was seen last; `shown` is the digest of what the person looked at.

    The first pin makes a draft of a policy kind, which another admin activates, as any draft. 409 where the
    tool is described otherwise by now.
    """
    answer = _pin(tenant=tenant, server=server, name=name, shown=shown, reason=reason, actor=actor)
    if isinstance(answer, Problem):
        return answer
    tool = tool_pins.definition_of(answer.pinned)
    kind = tool_drafts.kind_name(server, name)
    if tool is None or kind_versions.list_version_names(tenant=tenant, kind=kind):
        return Pinned(tool=answer)
    text = canonical.encode(tool_drafts.draft(server, tool)).decode()
    return Pinned(tool=answer, draft=kinds.draft(tenant=tenant, text=text, actor=actor))


@transactions.retried
def _pin(
    *, tenant: str, server: str, name: str, shown: str, reason: str, actor: str
) -> UpstreamTool | Problem:
    if (missing := given_reasons.refuse(reason)) is not None:
        return missing
    row = _lock_tools(tenant=tenant, server=server).get(name)
    if row is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No server was seen to have this tool.")
    if row.state == ToolState.PINNED:
        return Problem(code=ProblemCode.TOOL_PINNED, detail=f"{name} is pinned as it is described.")
    if row.state == ToolState.VANISHED:
        detail = f"{server} no longer lists {name}: there is nothing to pin."
        return Problem(code=ProblemCode.TOOL_MOVED, detail=detail)
    if row.found_digest != shown:
        detail = f"{server} describes {name} otherwise than was shown. Look at it again."
        return Problem(code=ProblemCode.TOOL_MOVED, detail=detail)
    mismatch = tool_pins.compare_tool(
        row, tool_pins.recorded_server(tenant=tenant, server=server).tools.get(name)
    )
    if mismatch is not None:
        detail = f"The stored description of {name} is not what was recorded."
        return Problem(code=ProblemCode.TAMPERED, detail=detail)
    at, replaces = clock.now(), row.pinned_digest
    row.state, row.reason = ToolState.PINNED, reason.strip()
    row.pinned, row.pinned_digest = row.found, row.found_digest
    _save(row, actor=actor, at=at)
    entry = events.ToolPinned(
        server=server, tool=name, digest=row.pinned_digest, replaces=replaces, reason=row.reason
    )
    _append(tenant, server, actor=actor, at=at, entries=[entry])
    return row


@transactions.retried
def switch(*, tenant: str, server: str, enabled: bool, reason: str, actor: str) -> ToolServer | Problem:
    """Switch a server off, so that nothing of it is called, or on; as it is already: nothing happens."""
    if (missing := given_reasons.refuse(reason)) is not None:
        return missing
    at = clock.now()
    row = _lock_server(tenant=tenant, server=server)
    if row.enabled is enabled:
        return row
    row.enabled, row.switched_at, row.switched_by, row.switch_reason = enabled, at, actor, reason.strip()
    row.save(update_fields=["enabled", "switched_at", "switched_by", "switch_reason"])
    entry = events.ToolServerSwitched(server=server, enabled=enabled, reason=row.switch_reason)
    _append(tenant, server, actor=actor, at=at, entries=[entry])
    return row


@transactions.retried
def ask_look(*, tenant: str, server: str) -> None:
    """Let a worker look at a server as soon as it can: no request speaks to one."""
    row = _lock_server(tenant=tenant, server=server)
    row.due_at = clock.now()
    row.save(update_fields=["due_at"])


def _quarantine(
    row: UpstreamTool, seen: ToolDefinition | None, *, at: datetime
) -> events.ToolQuarantined | None:
    """Quarantine a row whose tool is not described as pinned; None where it is, or nothing is new."""
    digest = "" if seen is None else seen.digest
    if digest in (row.pinned_digest, row.found_digest) and (digest or row.state == ToolState.VANISHED):
        return None
    row.state = ToolState.VANISHED if seen is None else ToolState.CHANGED
    row.found, row.found_digest = (b"", "") if seen is None else (seen.to_bytes(), digest)
    row.reason = ""
    _save(row, actor=actors.SYSTEM, at=at)
    return events.ToolQuarantined(
        server=row.server, tool=row.name, because=row.state, pinned=row.pinned_digest, found=digest
    )


def _save(row: UpstreamTool, *, actor: str, at: datetime) -> None:
    row.changed_at, row.changed_by = at, actor
    row.save()


def _lock_tools(*, tenant: str, server: str) -> dict[str, UpstreamTool]:
    """The tools of a server by name; whoever else changes one waits for the server's row."""
    _lock_server(tenant=tenant, server=server)
    return {row.name: row for row in UpstreamTool.objects.of(tenant).filter(server=server)}


def _lock_server(*, tenant: str, server: str) -> ToolServer:
    rows = ToolServer.objects.of(tenant).filter(name=server)
    return row_locks.lock_or_create(rows, tenant=tenant, name=server)


def _note_look(*, tenant: str, server: str, at: datetime, trouble: str, every_s: int) -> None:
    row = _lock_server(tenant=tenant, server=server)
    row.checked_at, row.trouble, row.due_at = at, trouble, at + timedelta(seconds=every_s)
    row.save(update_fields=["checked_at", "trouble", "due_at"])


def _append(tenant: str, server: str, *, actor: str, at: datetime, entries: list[events.Event]) -> None:
    if entries:
        stream = actors.target(server)
        ledger.append_to(tenant=tenant, stream=stream, actor=actor, at=at, events=entries)
