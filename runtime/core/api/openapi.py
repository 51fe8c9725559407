"""What OpenAPI states beyond the signatures: bodies, headers and problem documents."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from audit.canonical import MAX_SAFE_INTEGER
from runtime.contracts import api_schemas
from runtime.kernel import ijson

# What no schema can express about the values that an agent chooses is stated in words.
I_JSON = (
    "I-JSON (RFC 7493), also where the schema allows any value: numbers within +-(2^53-1), no duplicate "
    f"keys, no NUL, lone surrogate or noncharacter; at most {ijson.MAX_BYTES:,} bytes, {ijson.MAX_DEPTH} "
    f"levels, {ijson.MAX_VALUES:,} members and items."
)
# The forbidden characters of the first plane that a pattern can name in every dialect of regular expressions.
TEXT = r"^[^\u0000\uFDD0-\uFDEF\uFFFE\uFFFF]*$"
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": (
        "The same key and body return the stored response; the same key with another body is refused."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
TRACEPARENT: dict[str, Any] = {
    "name": "traceparent",
    "in": "header",
    "description": "W3C trace context; stored with the flow, never trusted as identity.",
    "schema": {"type": "string"},
}
IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "description": "Write only if the fact still has this ETag.",
    "schema": {"type": "string"},
}
IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Return 304 if the caller already has this ETag.",
    "schema": {"type": "string"},
}


PREFER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=N` holds the answer until the write is numbered, for at most N seconds, and 5.",
    "schema": {"type": "string"},
}


def describe(
    *,
    body: type[BaseModel] | None = None,
    body_required: bool = True,
    headers: Sequence[dict[str, Any]] = (),
    required: bool = False,
    not_modified: bool = False,
) -> dict[str, Any]:
    """The extra members of an operation. `required` says whether the headers are that do not say so."""
    extra: dict[str, Any] = {
        "parameters": [{"required": required, **header} for header in headers],
        "responses": {"default": PROBLEM},
    }
    if body is not None:
        extra["requestBody"] = {
            "required": body_required,
            "description": I_JSON,
            "content": {"application/json": {"schema": _as_i_json(inlined(body))}},
        }
    if not_modified:
        extra["responses"]["304"] = {"description": "Not Modified"}
    return extra


def inlined(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a model without references, to be placed inside an operation."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    whole: dict[str, Any] = _inline(schema, definitions)
    return whole


def _as_i_json(schema: Any) -> Any:
    """The schema of a body, with the limits that every text and whole number of a body has."""
    if isinstance(schema, list):
        return [_as_i_json(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    limits: dict[str, Any] = {}
    match schema.get("type"):
        case "string" if not {"enum", "const", "format", "pattern"} & set(schema):
            limits = {"pattern": TEXT}
        case "integer" | "number":
            limits = {"minimum": -MAX_SAFE_INTEGER, "maximum": MAX_SAFE_INTEGER}
        case "object" if "patternProperties" in schema:
            limits = {"additionalProperties": False}  # a name of another form is refused
    return {**limits, **{key: _as_i_json(member) for key, member in schema.items()}}


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    return {key: _inline(member, definitions) for key, member in schema.items()}


PROBLEM: dict[str, Any] = {
    "description": "A problem document (RFC 9457): `code` says why, `detail` what to do next.",
    "content": {"application/problem+json": {"schema": inlined(api_schemas.ProblemDocument)}},
}
