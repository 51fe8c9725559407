"""Whether a schema has a bound on its work: followed through its references before anything reads it."""

from collections.abc import Mapping
from typing import Any

from runtime.kernel import schema_work

# Two branches that each refer two levels on, and so forth, or a schema that refers to itself in two
# branches, take time without end on a small instance: so references are followed and counted here.
MAX_EXPANDED = 10_000
# Everything that reads a schema goes as deep as it does, and Python's stack is not without end.
MAX_DEPTH = 64


class _UnboundedError(Exception):
    """Carries the sentence out of the recursion."""


_TOO_DEEP = (
    f"the schema is more than {MAX_DEPTH} levels deep, by schemas within schemas "
    "or by references that follow each other"
)


def why_unbounded(document: Mapping[str, Any]) -> str:
    """Why a schema has no bound on its work, as a sentence; empty when it has one."""
    known: dict[str, tuple[int, int] | None] = {}
    try:
        # What nothing refers to is read too: by who lints the schema, and by who shows it.
        parts = (document, *schema_work.definitions(document))
        size = max(_expanded(part, document, known, MAX_DEPTH)[0] for part in parts)
    except _UnboundedError as error:
        return str(error)
    return f"the schema unfolds to more than {MAX_EXPANDED} parts" if size > MAX_EXPANDED else ""


def _expanded(
    schema: Any, document: Mapping[str, Any], known: dict[str, tuple[int, int] | None], levels: int
) -> tuple[int, int]:
    """How many schemas are tried for one value, and how deep they go.

    `known` holds both by reference, None while in progress; `levels` are left for what is within.
    """
    if levels <= 0:
        raise _UnboundedError(_TOO_DEEP)
    if not isinstance(schema, dict):
        return 1, 1
    if "$dynamicRef" in schema or ("$id" in schema and schema is not document):
        # Both move what a reference means, and with it what this walk has seen.
        raise _UnboundedError(
            "the schema uses $dynamicRef, or $id below its top; write $ref with #/$defs/name"
        )
    found = [_expanded(one, document, known, levels - 1) for one in schema_work.members(schema)]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference == "#":
            raise _UnboundedError('the schema refers to itself by "#"')
        if not reference.startswith("#/") or "%" in reference:
            raise _UnboundedError(
                "a reference cannot be resolved; write references inside the schema, as #/$defs/name"
            )
        if reference not in known:
            known[reference] = None
            behind_it = schema_work.target(reference, document)
            known[reference] = _expanded(behind_it, document, known, levels - 1)
        behind = known[reference]
        if behind is None:
            raise _UnboundedError(f'the schema refers to itself by "{reference[:60]}"')
        if behind[1] >= levels:
            raise _UnboundedError(_TOO_DEEP)
        found.append(behind)
    return 1 + sum(size for size, _ in found), 1 + max((depth for _, depth in found), default=0)
