"""Erased words that a record, or the proposal that it is about, may repeat."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Set
from typing import Final

from audit import queries
from audit.events import Kind
from audit.models import Payload

TRIGGER: Final = "trigger_commitment"
PARAMS: Final = "params_commitment"
EXPLAIN: Final = "explain_commitment"
_SAYING: Final = (Kind.FLOW_OPENED, Kind.PROPOSAL_SUBMITTED)


def list_erased(*, tenant: str, flows: Collection[str]) -> Mapping[str, Set[str]]:
    """Which of the three were erased of each flow, in two queries; a flow without any is left out."""
    said = queries.list_dated_by_stream(tenant=tenant, streams=flows, kinds=_SAYING) if flows else {}
    committed = [
        (dfid, name, payload[name])
        for dfid, entries in said.items()
        for _, _, payload in entries
        for name in (TRIGGER, PARAMS, EXPLAIN)
        if isinstance(payload.get(name), str)
    ]
    named = {value for _, _, value in committed}
    rows = Payload.objects.filter(tenant=tenant, commitment__in=named, content__isnull=True)
    gone = set(rows.values_list("commitment", flat=True)) if named else set()
    found: dict[str, set[str]] = defaultdict(set)
    for dfid, name, value in committed:
        if value in gone:
            found[dfid].add(name)
    return found
