"""The draft of a policy kind that a pinned tool becomes: as careful as a kind can be, for an admin to change.

High impact, a person for each call, no retry, and nothing sent again whose result is unknown.
"""

import re
from typing import Any, Final

from runtime.contracts.tool import ToolDefinition

_LONGEST_NAME: Final = 64
_LONGEST_DESCRIPTION: Final = 2000
_MOST_SHOWN: Final = 8
_PARAM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PLAIN: Final = frozenset({"string", "integer", "number", "boolean"})


def kind_name(server: str, tool: str) -> str:
    """The name of the kind that calls a tool, such as CLOCK_GET_TIME."""
    words = re.sub(r"[^A-Z0-9]+", "_", f"{server}_{tool}".upper()).strip("_")
    return (words if words[:1].isalpha() else f"TOOL_{words}")[:_LONGEST_NAME]


def draft(server: str, tool: ToolDefinition) -> dict[str, Any]:
    """The draft as the document of a kind; what the server says may still be refused by the linter."""
    step: dict[str, Any] = {"id": "call", "executor": "mcp", "target": server, "tool": {"name": tool.name}}
    if tool.output_schema is not None:
        step["receipt_schema"] = _schema(tool.output_schema)
    described = tool.description.strip()[:_LONGEST_DESCRIPTION]
    return {
        "kind": kind_name(server, tool.name),
        "version": "1.0.0",
        "title": f"{tool.name} of {server}"[:200],
        **({"description": described} if described else {}),
        "risk_tier": "T2",
        "params_schema": _schema(tool.input_schema),
        "impact": "'HIGH_IMPACT'",
        "approval_mode": "person",
        "on_unknown": "person",
        "effect": _effect(server, tool),
        "steps": [step],
        "routes": [{"when": "outcome.status == 'FAILED'", "action": "CLOSE"}],
    }


def _schema(given: dict[str, Any]) -> dict[str, Any]:
    """The schema of a server without its dialect: here it is always 2020-12."""
    return {"type": "object", **{name: value for name, value in given.items() if name != "$schema"}}


def _effect(server: str, tool: ToolDefinition) -> str:
    """The sentence that people are shown, with the plain parameters that the tool must be given."""
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    names = [str(name) for name in required] if isinstance(required, list) else []
    shown = [name for name in names if _PARAM.fullmatch(name) and _is_plain(known.get(name))]
    given = ", ".join(f"{name} {{{name}}}" for name in shown[:_MOST_SHOWN])
    return f"Call {tool.name} of {server}{f' with {given}' if given else ''}"


def _is_plain(schema: Any) -> bool:
    """Whether a parameter is one value, which a sentence can show."""
    sort = schema.get("type") if isinstance(schema, dict) else None
    return isinstance(sort, str) and sort in _PLAIN
