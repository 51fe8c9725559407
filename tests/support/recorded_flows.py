"""Flows that came to different ends, made through the API, for tests of their decision records."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from django.db import transaction

from audit import actors, events, ledger
from audit.models import DecisionRecord
from audit.records import emission
from audit.records.fold import Rules
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.core import clock
from runtime.packs.services import packs
from tests.support import api_client, factories

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RULE = "R_NOT_MSFT"
OVER, HIGH = 150_000, 200_000
OTHER_TENANT = "other"
_RULES = "    rules:\n"
PACK = api_client.PACK.replace(
    _RULES,
    f"{_RULES}      - {{id: {RULE}, require: \"params.symbol != 'MSFT'\", message: Not this one}}\n",
    1,
).replace("    impact:", '    reversible: true\n    subjects: ["symbol:${params.symbol}"]\n    impact:', 1)


@dataclass
class Recorded:
    """The flows by name; a record is named by its flow and its place in it, such as `overridden 2`."""

    flows: dict[str, UUID] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """The name of each record, by its id."""
        return {
            row.record_id: f"{name} {place}"
            for name, dfid in self.flows.items()
            for place, row in enumerate(DecisionRecord.objects.filter(dfid=dfid).order_by("pk"), start=1)
        }

    def row(self, name: str) -> DecisionRecord:
        """The record of this name."""
        ids = {found: record_id for record_id, found in self.names().items()}
        return DecisionRecord.objects.get(record_id=ids[name])


def build() -> Recorded:
    """Accepted, rejected, overridden by olivia, aborted by otto, cancelled; one of another agent."""
    loaded = packs.load(text=PACK, source="recorded.yaml", activate=True, actor=actors.SYSTEM)
    assert isinstance(loaded, packs.Loaded), loaded
    recorded = Recorded()
    trader, other = api_client.session(), api_client.session(api_client.OTHER)
    recorded.flows["accepted"] = propose(trader, trace=TRACE)
    recorded.flows["rejected"] = propose(trader, symbol="MSFT")
    for name, person, action, cents in (
        ("overridden", "olivia", Action.OVERRIDE, OVER),
        ("aborted", "otto", Action.ABORT, HIGH),
    ):
        dfid = recorded.flows[name] = propose(trader, cents=cents)
        decided = factories.decide(Escalation.objects.get(flow=dfid), factories.user(person), action)
        assert not isinstance(decided, Problem), decided
    recorded.flows["cancelled"] = UUID(trader.open_flow())
    trader.post(f"/flows/{recorded.flows['cancelled']}/cancel", {"reason": "no longer wanted"}).ok()
    recorded.flows["another agent's"] = propose(other)
    write_elsewhere()
    return recorded


def propose(
    caller: api_client.Caller,
    *,
    symbol: str = "AAPL",
    cents: int = 18_950,
    trace: str = "",
    explain: str | None = None,
) -> UUID:
    """A flow of its own with one proposal."""
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"} if trace else {}
    dfid = caller.post("/flows", {"trigger": "a price moved"}, headers).ok(201)["dfid"]
    params = {"symbol": symbol, "action": "BUY", "quantity": 1, "notional_cents": cents}
    caller.propose(dfid, api_client.proposal(caller.context(dfid), params=params, explain=explain)).ok()
    return UUID(dfid)


def write_elsewhere() -> DecisionRecord:
    """A whole record of another tenant, with its entries."""
    dfid, at = uuid4(), clock.now() - timedelta(seconds=1)
    said: list[events.Event] = [
        events.FlowOpened(agent_id=api_client.TRADER, trigger_commitment="ab" * 32),
        events.FlowMoved(from_state="CREATED", to_state="ABORTED", reason="CANCELLED"),
    ]
    with transaction.atomic():
        made = emission.prepare(
            tenant=OTHER_TENANT,
            dfid=dfid,
            head_seq=0,
            actor=actors.SYSTEM,
            at=at,
            events=said,
            find_rules=lambda payload: Rules(),
        )
        assert made is not None
        made.store()
        ledger.append_to(
            tenant=OTHER_TENANT, stream=str(dfid), actor=actors.SYSTEM, at=at, events=[*said, made.event]
        )
    return made.row
