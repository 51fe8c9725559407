"""A reasoning graph with the runtime's signature over its root, as one JSON document.

Ed25519 gives the same signature for the same bytes, so a graph that did not change is answered byte for byte.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.utils import timezone

from audit.packs import flow_reading
from audit.reasoning import graph
from audit.reasoning.graph import Graph
from audit.records import dsse
from audit.sealing import own_key

PAYLOAD_TYPE: Final = "application/vnd.dir-console.reasoning-graph+json"


@dataclass(frozen=True, slots=True)
class SignedGraph:
    """A graph, and who signed its root."""

    graph: Graph
    signature: bytes
    key_id: str

    @property
    def signed(self) -> bytes:
        """The bytes under the signature."""
        return dsse.statement(self.graph.statement(), PAYLOAD_TYPE)

    def plain(self) -> dict[str, Any]:
        """The document as it is downloaded: the root, the graph, each node by its address, the signature."""
        return {
            "root": self.graph.root,
            "graph": self.graph.document(),
            "nodes": {node.address: dict(node.body) for node in self.graph.nodes},
            "signature": dsse.envelope(
                self.graph.statement(),
                signature=self.signature,
                key_id=self.key_id,
                payload_type=PAYLOAD_TYPE,
            ),
        }


def of_flow(*, tenant: str, dfid: UUID, decision_id: str = "") -> SignedGraph | None:
    """The signed graph of a decision of a flow, or of its newest; None where no entry is about the flow.

    In the caller's snapshot. Raises NotThereError where there is nothing to show, DamagedError where an entry
    is not what was written: then nothing is signed.
    """
    flow = flow_reading.read(tenant=tenant, dfid=dfid)
    if flow is None:
        return None
    made, signer = graph.of_flow(flow, decision_id), own_key.signer(tenant=tenant, at=timezone.now())
    statement = dsse.statement(made.statement(), PAYLOAD_TYPE)
    return SignedGraph(made, signer.sign(statement), signer.key_id)
