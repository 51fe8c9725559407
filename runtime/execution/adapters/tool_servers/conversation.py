"""What is said to an MCP server: greet it, list its tools, call one of them.

The handshake of the protocol's versions from 2024-11-05 to 2025-11-25. Only `call` has an effect: whatever
fails before it, nothing was done.
"""

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from audit import canonical
from runtime.contracts.receipt import FailureCategory
from runtime.contracts.tool import MAX_DEFINITION_BYTES, MOST_TOOLS, ToolDefinition
from runtime.execution.adapters.tool_servers import wire
from runtime.execution.adapters.tool_servers.wire import Gate, Wire, WireError

OFFERED: Final = "2025-11-25"
SPOKEN: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", OFFERED})
_MOST_PAGES: Final = 20
_LONGEST_CURSOR: Final = 1024
_TEXT: Final = "text"

C = FailureCategory


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The tools of a server, by name, and how many it described in a way that cannot be used."""

    tools: dict[str, ToolDefinition]
    unusable: int = 0


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """What a tool answered: the receipt as a JSON object, or an error of the protocol or of its own.

    `error_code` is the protocol's; `is_error` says that the tool itself reports that it has failed.
    """

    receipt: dict[str, Any] | None = None
    error_code: int | None = None
    is_error: bool = False


class Conversation:
    """One conversation over one wire; `close` the wire when it is over."""

    def __init__(self, over: Wire) -> None:
        self._wire = over
        self._numbers = itertools.count(1)

    def greet(self, *, gate: Gate = nullcontext) -> None:
        """Agree on a version. Raises `WireError`."""
        hello = {
            "protocolVersion": OFFERED,
            "capabilities": {},
            "clientInfo": {"name": "dir-console", "version": "1"},
        }
        result = self._result("initialize", hello, gate=gate)
        version = result.get("protocolVersion")
        if version not in SPOKEN:
            raise WireError(C.ANSWER_UNREADABLE, "the server speaks no version of MCP that we do", sent=True)
        self._wire.agree(version)
        self._wire.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def list_tools(self) -> Listed:
        """Every tool of the server. Raises `WireError`, also where it lists one twice or too many."""
        found: dict[str, ToolDefinition] = {}
        unusable = 0
        for described in self._pages():
            tool = read_tool(described)
            if tool is None:
                unusable += 1
            elif tool.name in found:
                raise WireError(C.ANSWER_UNREADABLE, "the server lists a tool twice", sent=True)
            else:
                found[tool.name] = tool
            if len(found) + unusable > MOST_TOOLS:
                words = f"the server lists more than {MOST_TOOLS} tools"
                raise WireError(C.ANSWER_TOO_LARGE, words, sent=True)
        return Listed(tools=found, unusable=unusable)

    def call(self, name: str, arguments: Any, *, gate: Gate) -> ToolAnswer:
        """Call a tool, the first bytes inside `gate`. Raises `WireError`: with `sent`, it may have run."""
        answer = self._ask(
            "tools/call", {"name": name, "arguments": arguments}, gate=gate, most_bytes=wire.MAX_ANSWER_BYTES
        )
        if "error" in answer:
            error = answer["error"]
            code = error.get("code") if isinstance(error, dict) else None
            return ToolAnswer(error_code=code if isinstance(code, int) else 0)
        result = answer.get("result")
        if not isinstance(result, dict):
            raise WireError(C.ANSWER_UNREADABLE, "the server's answer has no result", sent=True)
        if result.get("isError") is True:
            return ToolAnswer(is_error=True)
        return ToolAnswer(receipt=receipt_of(result))

    def _pages(self) -> Iterator[Any]:
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            asked = {} if cursor is None else {"cursor": cursor}
            page = self._result("tools/list", asked, most_bytes=wire.MAX_LIST_BYTES)
            tools = page.get("tools")
            if not isinstance(tools, list):
                raise WireError(C.ANSWER_UNREADABLE, "the server's list of tools is no list", sent=True)
            yield from tools
            cursor = page.get("nextCursor")
            if cursor is None:
                return
            if not isinstance(cursor, str) or len(cursor) > _LONGEST_CURSOR:
                break
        raise WireError(C.ANSWER_TOO_LARGE, "the server's list of tools does not end", sent=True)

    def _result(
        self,
        method: str,
        params: dict[str, Any],
        *,
        gate: Gate = nullcontext,
        most_bytes: int = wire.MAX_ANSWER_BYTES,
    ) -> dict[str, Any]:
        result = self._ask(method, params, gate=gate, most_bytes=most_bytes).get("result")
        if not isinstance(result, dict):
            raise WireError(C.TARGET_REFUSED, f"the server refuses {method}", sent=True)
        return result

    def _ask(self, method: str, params: dict[str, Any], *, gate: Gate, most_bytes: int) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        return self._wire.ask(message, gate=gate, most_bytes=most_bytes)


def read_tool(described: Any) -> ToolDefinition | None:
    """A tool as its server describes it; None where that is no description that could be used."""
    if not isinstance(described, dict):
        return None
    members = {
        "name": described.get("name"),
        "description": described.get("description") or "",
        "input_schema": described.get("inputSchema"),
        "output_schema": described.get("outputSchema"),
        "annotations": described.get("annotations") or {},
    }
    try:
        body = canonical.encode(members)
        return ToolDefinition.from_bytes(body) if len(body) <= MAX_DEFINITION_BYTES else None
    except (canonical.CanonicalError, ValidationError):
        return None


def receipt_of(result: dict[str, Any]) -> dict[str, Any]:
    """The receipt: the structured content where there is one, else the text, and what else came.

    Beside structured content the text is left out: it says the same again, or what no schema bounds.
    """
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return structured
    content = result.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [str(part.get("text", "")) for part in parts if part.get("type") == _TEXT]
    others = sorted({str(part.get("type", ""))[:64] for part in parts if part.get("type") != _TEXT})
    return {"text": "\n".join(texts), **({"left_out": others} if others else {})}
