"""A tool of an MCP server, as its server describes it: all that a pin is the hash of."""

from typing import Any

from pydantic import Field

from runtime.contracts.document import Contract, is_none
from runtime.contracts.kind_types import JsonSchema, ToolName

# Of one server, and the bytes of one description.
MOST_TOOLS = 200
MAX_DEFINITION_BYTES = 65_536


class ToolDefinition(Contract):
    """What a server says that a tool is: its words, of which nothing is believed.

    The digest of its canonical bytes is what an admin pins: a tool whose name, description, schemas or
    annotations are others is not the tool that was looked at.
    """

    name: ToolName
    description: str = ""
    input_schema: JsonSchema
    output_schema: JsonSchema | None = Field(default=None, exclude_if=is_none)
    annotations: dict[str, Any] = Field(default_factory=dict)
