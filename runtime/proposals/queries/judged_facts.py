"""Which open decisions stand on a fact: verdicts of flows that have not ended, whose gate read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from audit import canonical, cells, queries
from audit.events import Kind
from audit.verification.verify import UNREADABLE
from runtime.contracts.states import ENDED
from runtime.flows.models import Verdict

MOST_READ: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """A verdict whose gate read a fact, and at which version; None: from before that was kept."""

    verdict: Verdict
    version: int | None


def list_open(*, tenant: str, path: str) -> list[Dependent]:
    """The verdicts of open flows that stand on a fact, the newest first.

    Among the newest MOST_READ of such flows. One that is not what the ledger recorded is left out.
    """
    rows = Verdict.objects.filter(proposal__flow__tenant=tenant).exclude(proposal__flow__state__in=ENDED)
    rows = rows.select_related("proposal__flow__agent").order_by("-pk")[:MOST_READ]
    found = [dependent for row in rows if (dependent := _read(row, path)) is not None]
    recorded = _recorded(tenant, found)
    return [
        dependent
        for dependent in found
        if recorded.get(str(dependent.verdict.pk)) == cells.digest_of(dependent.verdict.input)
    ]


def _read(row: Verdict, path: str) -> Dependent | None:
    try:
        facts = canonical.decode(bytes(row.input))["facts"]
        if path not in facts["world"]:
            return None
        version = facts.get("world_versions", {}).get(path)
    except UNREADABLE:
        return None
    return Dependent(verdict=row, version=version)


def _recorded(tenant: str, found: Sequence[Dependent]) -> dict[str, str]:
    """The digests of the inputs of these verdicts, as the entries of their flows hold them."""
    streams = {str(dependent.verdict.proposal.flow_id) for dependent in found}
    told = queries.list_payloads_of_streams(tenant=tenant, streams=streams, kinds=[Kind.VERDICT_GIVEN])
    return {said["proposal_id"]: said["input_digest"] for _, said in told}
