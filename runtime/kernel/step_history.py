"""The steps of a flow as expressions of policy kinds read them: `history.steps`, `history.last`. Pure.

What an agent reported is a claim, may be personal, and would be stored with every verdict. So of input and
output only those fields are kept that the workflow declares, each as small as its schema says.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.contracts.workflow import StepHistory
from runtime.kernel import schemas

MOST_STEPS: Final = 100
MOST_FIELDS: Final = 10
MOST_CHARS: Final = 200
MOST_NAME: Final = 64
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
# Of an instruction or core.
_NAME: Final[Mapping[str, Any]] = {"type": "string", "maxLength": MOST_NAME}
_FIELDS: Final[Mapping[str, Any]] = {
    "type": "object",
    "maxProperties": MOST_FIELDS,
    "propertyNames": {"maxLength": MOST_NAME},
    "additionalProperties": {"type": sorted(_SCALARS), "maxLength": MOST_CHARS},
}
# The shape of one step.
STEP_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "instruction": _NAME,
        "core": _NAME,
        "age_s": {"type": "integer"},
        "input": _FIELDS,
        "output": _FIELDS,
    },
    "additionalProperties": False,
}


def lint_schema(schema: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the schema of an input or output, as plain sentences."""
    found = schemas.check_schema(schema)
    yield from found
    if found:
        return
    fields = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(fields, dict):
        yield "the schema must be of type object with properties"
        return
    if len(fields) > MOST_FIELDS:
        yield f"the schema has more than {MOST_FIELDS} properties"
    for name, field in sorted(fields.items()):
        kind = field.get("type") if isinstance(field, dict) else None
        if len(name) > MOST_NAME:
            yield f"a property has a name of more than {MOST_NAME} characters"
        elif kind not in _SCALARS:
            yield f"{name} must be of type string, integer, number or boolean"
        elif kind == "string" and not 0 < field.get("maxLength", 0) <= MOST_CHARS:
            yield f"add maxLength of at most {MOST_CHARS} to {name}"


def visible(schema: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the schema declares and that fit it; none without a schema."""
    declared = {} if schema is None else schema["properties"]
    return {
        name: given[name]
        for name, field in declared.items()
        if name in given and schemas.fits(field, given[name])
    }


def named(history: StepHistory, *, now_ms: int) -> dict[str, Any]:
    """The fields of `history` that are about steps; `last` is there once a step was taken."""
    steps = [
        {
            "instruction": step.instruction,
            "core": step.core.value,
            "age_s": max(0, now_ms - step.at_ms) // 1000,
            "input": step.input,
            "output": step.output,
        }
        for step in history.steps
    ]
    last = {"last": steps[-1]} if steps else {}
    return {"steps": steps, "truncated": history.truncated, **last}
