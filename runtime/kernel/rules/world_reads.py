"""How much of an expression's work depends on how many facts are loaded for it.

The linter takes the facts of a case to be few. This is unknown before they are loaded, so the gate learns
afterwards whether they are too many for what reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import cel_tokens, cost, scope, shapes, sources, tree

# Far larger than anything that is compared with it, so that what grows with the facts shows whole.
_LARGE = 10**12


@lru_cache(maxsize=1024)
def of_kind(body: bytes) -> int:
    """How often the expressions of a stored kind copy all the facts of a case, at worst and together."""
    kind = KindDocument.from_bytes(body)
    return _reads((source for _, source in sources.list_every_source(kind)), kind)


def of_conditions(conditions: Iterable[str], kind: KindDocument) -> int:
    """The same of the conditions that a decision attaches."""
    return _reads(conditions, kind)


def _reads(texts: Iterable[str], kind: KindDocument) -> int:
    """Of each text once more than it is at worst, so never too few; none where no tree can be made of it."""
    sizes = scope.sizes(params_schema=kind.params_schema, constraints_schema=kind.constraints_schema)
    without, with_many = ({**sizes, "context": replace(sizes["context"], copy=copy)} for copy in (0, _LARGE))
    reads = 0
    for text in texts:
        try:
            node = tree.parse(cel_tokens.tokenize(text))
        except tree.UnreadableError:
            continue
        least, most = cost.of(node, without)[0], cost.of(node, with_many)[0]
        reads += -(-(most - least) // _LARGE)
    return reads


def work(reads: int, world: Mapping[str, Any]) -> int:
    """Nanoseconds at worst of so many copies of these facts."""
    return reads * shapes.copy_of(world) if reads else 0
