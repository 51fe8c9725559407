"""Which advertised capability is what a query asks for.

A number, a schema or a tag that a provider does not state, it does not offer; without a jurisdiction it
offers all of them.
"""

from collections.abc import Collection
from dataclasses import dataclass

from runtime.kernel import conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for. None asks nothing; `latency_ms` is the 95th percentile."""

    capability_name: str | None = None
    latency_ms: float | None = None
    cost_ceiling: float | None = None
    jurisdiction: str | None = None
    required_schema: str | None = None
    tag: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What a provider claims. No jurisdiction: it has no such limit."""

    capability_name: str
    versions: Collection[str]
    p95_ms: float | None
    per_call: float | None
    jurisdiction: Collection[str]
    schema_refs: Collection[str]
    tags: Collection[str]


def matches(offered: Offered, wanted: Wanted) -> bool:
    """Whether the offer keeps to everything that is asked."""
    return all(
        (
            wanted.capability_name in {None, offered.capability_name},
            _is_within(offered.p95_ms, wanted.latency_ms),
            _is_within(offered.per_call, wanted.cost_ceiling),
            wanted.jurisdiction is None
            or not offered.jurisdiction
            or wanted.jurisdiction in offered.jurisdiction,
            wanted.required_schema is None or wanted.required_schema in offered.schema_refs,
            wanted.tag is None or wanted.tag in offered.tags,
            wanted.version is None or _has(offered.versions, wanted.version),
        )
    )


def rank(offered: Offered, provider: str) -> tuple[float, float, str]:
    """The order in which providers are named: the cheapest first, then the fastest, then by name."""
    unknown = float("inf")
    cost = unknown if offered.per_call is None else offered.per_call
    return cost, unknown if offered.p95_ms is None else offered.p95_ms, provider


def _is_within(claimed: float | None, most: float | None) -> bool:
    return most is None or (claimed is not None and claimed <= most)


def _has(versions: Collection[str], version: str) -> bool:
    return conversation.parsed(version) in {conversation.parsed(each) for each in versions}
