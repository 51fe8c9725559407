"""The context compiler (DIR paper, 8.2): pure, so that the same inputs give the same bytes and the same name.

Snapshot, time window, need-to-know, then the token budget. The name of a context is the digest of its
content: `context_ref` cannot point to anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from audit import canonical
from runtime.contracts.context import (
    ArtifactRef,
    ContextBudget,
    Remembered,
    SchemaRef,
    SeenFact,
    Trimmed,
    WorkingContext,
)
from runtime.kernel.rules import evaluate, templates

# Changed with what is compiled, or how: entries name it.
COMPILER_VERSION = "1.0.0"
RECENT_EVENTS = 10
MAX_REMEMBERED = 100
MAX_ARTIFACTS = 20
# Tokenizers differ; four bytes of JSON to a token is near enough for a bound, and never changes.
BYTES_PER_TOKEN = 4

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Canonical bytes of a context without its own name, and that name."""

    body: bytes
    context_ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The oldest moment of the session that is shown (RFC 3339, UTC, milliseconds), and the token budget."""

    since: str
    tokens: int


def compile_context(
    *,
    selected: Sequence[str],
    facts: Iterable[SeenFact],
    history: Sequence[dict[str, JsonValue]],
    mission: str,
    schemas: Iterable[SchemaRef],
    budget: ContextBudget,
    bounds: Bounds,
    memory: Iterable[Remembered] = (),
    artifacts: Sequence[ArtifactRef] = (),
    salt: str | None = None,
) -> Compiled:
    """Freeze what an agent may see.

    `selected` holds exact fact paths and namespaces (`price.`): a fact under none of them is left out, so
    that need-to-know does not rest on the query alone. `history` and `artifacts` come oldest first; the last
    RECENT_EVENTS and MAX_ARTIFACTS are kept. What does not fit the token budget is left out in a fixed order:
    artifacts, memory, history, of each the oldest first. Facts stay whole: nobody should decide on a state
    with holes that he cannot see. With a `salt`, nobody without it can confirm a guess of the content by its
    name.
    """
    seen = sorted(
        (fact for fact in facts if any(templates.selects(selector, fact.path) for selector in selected)),
        key=lambda fact: fact.path,
    )
    recent = [event for event in history if str(event["at"]) >= bounds.since]
    remembered = sorted(memory, key=_by_age)[-MAX_REMEMBERED:]
    whole = WorkingContext(
        facts=evaluate.nest({fact.path: fact.value for fact in seen}),
        versions={fact.path: fact.version for fact in seen},
        recent_history=tuple(recent[-RECENT_EVENTS:]),
        mission=mission,
        memory=tuple(sorted(remembered, key=_by_name)),
        artifacts=tuple(artifacts[-MAX_ARTIFACTS:]),
        schemas=tuple(sorted(schemas, key=lambda ref: (ref.kind, ref.version))),
        budget=budget,
        salt=salt,
    )
    body = _written(whole)
    over = len(body) - bounds.tokens * BYTES_PER_TOKEN
    if over > 0:
        body = _written(_trimmed(whole, over))
    return Compiled(body=body, context_ref=canonical.digest(body))


def _written(context: WorkingContext) -> bytes:
    return canonical.encode(context.model_dump(mode="json"))


def _by_age(item: Remembered) -> tuple[str, str, str]:
    """How memory is trimmed."""
    return item.written_at, item.scope, item.key


def _by_name(item: Remembered) -> tuple[str, str]:
    """How memory is shown."""
    return item.scope, item.key


def _trimmed(whole: WorkingContext, over: int) -> WorkingContext:
    artifacts, over = _fitting(whole.artifacts, over)
    memory, over = _fitting(tuple(sorted(whole.memory, key=_by_age)), over)
    history, over = _fitting(whole.recent_history, over)
    cuts = (
        Trimmed(layer="artifacts", left_out=len(whole.artifacts) - len(artifacts)),
        Trimmed(layer="memory", left_out=len(whole.memory) - len(memory)),
        Trimmed(layer="recent_history", left_out=len(whole.recent_history) - len(history)),
    )
    return whole.model_copy(
        update={
            "artifacts": artifacts,
            "memory": tuple(sorted(memory, key=_by_name)),
            "recent_history": history,
            "trimmed": tuple(cut for cut in cuts if cut.left_out),
        }
    )


def _fitting(items: tuple[Item, ...], over: int) -> tuple[tuple[Item, ...], int]:
    """The items without the first ones, so many that `over` bytes are saved, and what is still over."""
    kept = 0
    while over > 0 and kept < len(items):
        item = items[kept]
        plain = item.model_dump(mode="json") if isinstance(item, BaseModel) else item
        kept += 1
        # The comma goes with it, but the last one has none.
        over -= len(canonical.encode(plain)) + (kept < len(items))
    return items[kept:], over
