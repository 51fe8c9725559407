"""The W3C trace that a flow belongs to, as its first entry has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Trace:
    """`trace_id` has 32 hexadecimal digits; `span_id`, the agent's own span in it, has 16 or is empty."""

    trace_id: str
    span_id: str = ""


def of_flow(dfid: str, opened: Mapping[str, Any]) -> Trace:
    """The trace that the agent sent with `flow:opened`; without one, the digits of the DFID."""
    parts = str(opened.get("traceparent") or "").split("-")
    return Trace(parts[1], parts[2]) if len(parts) == _PARTS else Trace(dfid.replace("-", ""))
