"""The context compiler (DIR paper, 8.2): pure, so that the same inputs give the same bytes and the same name.

The name of a context is the digest of its content: `context_ref` cannot point to anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from audit import canonical
from runtime.contracts.context import ContextBudget, SchemaRef, SeenFact, WorkingContext
from runtime.kernel.rules import templates

RECENT_EVENTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Canonical bytes of a context without its own name, and that name."""

    body: bytes
    context_ref: str


def compile_context(
    *,
    selected: Sequence[str],
    facts: Iterable[SeenFact],
    history: Sequence[dict[str, JsonValue]],
    mission: str,
    schemas: Iterable[SchemaRef],
    budget: ContextBudget,
) -> Compiled:
    """Freeze what an agent may see.

    `selected` holds exact fact paths and namespaces (`price.`): a fact under none of them is left out, so
    that need-to-know does not rest on the query alone. Of `history` the last RECENT_EVENTS are kept.
    """
    seen = sorted(
        (fact for fact in facts if any(templates.selects(selector, fact.path) for selector in selected)),
        key=lambda fact: fact.path,
    )
    nested: dict[str, dict[str, JsonValue]] = {}
    for fact in seen:
        namespace, _, name = fact.path.partition(".")
        nested.setdefault(namespace, {})[name] = fact.value
    context = WorkingContext(
        facts=nested,
        versions={fact.path: fact.version for fact in seen},
        recent_history=tuple(history[-RECENT_EVENTS:]),
        mission=mission,
        schemas=tuple(sorted(schemas, key=lambda ref: (ref.kind, ref.version))),
        budget=budget,
    )
    body = canonical.encode(context.model_dump(mode="json"))
    return Compiled(body=body, context_ref=canonical.digest(body))
