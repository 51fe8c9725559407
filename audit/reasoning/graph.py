"""The reasoning graph: the nodes of the contract `reasoning_trace`, each addressed by its content.

The address of a node is SHA-256 of its canonical JSON. The graph names nodes by their addresses only, and its
root is SHA-256 of its canonical JSON: so one changed letter in any node changes the root. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from audit import canonical
from audit.contracts import reasoning_trace
from audit.contracts.flow import Flow, Judged, Wanted

SCHEMA: Final = "dir-console/reasoning-graph/1"


class Sort(StrEnum):
    """What a node is, in the order in which they are drawn."""

    CONTEXT = "context"
    RULE = "rule"
    CONSULTATION = "consultation"
    CONFIDENCE = "confidence"
    SYNTHESIS = "synthesis"


# Which members of a node an agent has stated, and nobody has verified.
CLAIMS: Final[Mapping[Sort, tuple[str, ...]]] = {
    Sort.CONFIDENCE: ("confidence",),
    Sort.SYNTHESIS: ("steps", "weights", "utilities"),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its address."""

    address: str
    sort: Sort
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its id in the contract, without the sort."""
        return str(self.body["node_id"]).partition(":")[2]

    @property
    def claims(self) -> list[str]:
        """The members that are unverified claims of the agent, where the node has them."""
        return [name for name in CLAIMS.get(self.sort, ()) if self.body.get(name)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """The graph of one decision; edges lead from address to address. `trace` is the contract's view."""

    dfid: str
    decision_id: str
    nodes: Sequence[Node]
    edges: Sequence[tuple[str, str]]
    trace: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """What the root is the digest of: which nodes there are, and how they hang together."""
        return {
            "schema": SCHEMA,
            "dfid": self.dfid,
            "decision_id": self.decision_id,
            "trace_id": self.trace["trace_id"],
            "nodes": [node.address for node in self.nodes],
            "edges": [{"source": source, "target": target} for source, target in self.edges],
        }

    @property
    def root(self) -> str:
        """SHA-256 of the canonical JSON of the document."""
        return canonical.digest(canonical.encode(self.document()))

    def statement(self) -> bytes:
        """The bytes that are signed: which decision the root is about."""
        return canonical.encode(
            {"schema": SCHEMA, "dfid": self.dfid, "decision_id": self.decision_id, "root": self.root}
        )


def of_flow(flow: Flow, decision_id: str = "") -> Graph:
    """The graph of a decision, or of the newest one. Raises NotThereError where there is none to show."""
    judged = flow.judged(Wanted(decision_id))
    trace = reasoning_trace.view(flow, Wanted(judged.proposal_id))
    nodes = list(_nodes(trace["structure"], judged))
    addresses = {node.body["node_id"]: node.address for node in nodes}
    return Graph(
        dfid=flow.dfid,
        decision_id=judged.proposal_id,
        nodes=nodes,
        edges=[
            (addresses[edge["source"]], addresses[edge["target"]]) for edge in trace["structure"]["edges"]
        ],
        trace=trace,
    )


def _nodes(structure: Mapping[str, Any], judged: Judged) -> Iterator[Node]:
    for sort in Sort:
        for held in structure[f"{sort}_nodes"]:
            body = {"sort": sort.value, **held}
            if sort is Sort.SYNTHESIS:
                # What the verdict is: with these the node stands for the bytes that were judged and recorded.
                said = judged.verdict.payload
                body |= {
                    name: said[name]
                    for name in ("verdict", "verdict_digest", "input_digest", "policy_bundle_hash")
                }
                body["proposal_digest"] = judged.request_hash
            body["unverified_claims"] = [name for name in CLAIMS.get(sort, ()) if held.get(name)]
            yield Node(canonical.digest(canonical.encode(body)), sort, body)
