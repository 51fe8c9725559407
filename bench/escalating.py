"""Escalations as agents cause them over the API, of the demo's kind: figures, facts, a claim, predictions."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import environment
from bench.environment import Stand
from demo import agents
from demo.client import Client

PACK = Path(__file__).resolve().parent.parent / "demo" / "paper-brokerage.yaml"
KIND, LIKE = "ADJUST_POSITION", "ambitious-trader"
AGENTS = tuple(f"desk-agent-{number}" for number in range(1, 6))
# Its escalations are decided in the bench, so that the history of the others stays as it is.
DECIDED = "desk-agent-decided"
SYMBOLS = {"AAPL": 18950, "MSFT": 41620, "NVDA": 12140, "GOOG": 17235, "AMZN": 18410}
# No deadline passes during the bench.
OPEN_S = 86_400
# Above the agents' limit of 1,000 USD; from 2,500 USD on the impact is high.
LOW_CENTS, HIGH_CENTS = 150_000, 900_000


@dataclass(frozen=True)
class Ready:
    """A flow with its context, and the proposal that the next call sends."""

    client: Client
    dfid: str
    body: dict[str, Any]

    def send(self) -> str:
        """Propose; the id of the escalation that was opened."""
        verdict = self.client.propose(self.dfid, self.body, idempotency_key=self.dfid)
        if verdict.escalation_id is None:
            raise RuntimeError(f"the bench's proposal was not escalated: {verdict}")
        return verdict.escalation_id


def load(stand: Stand) -> None:
    """Activate the demo's pack with agents of the bench, who may escalate as often as anyone may.

    Where nothing executes, cash that an override reserves stays reserved, so there is enough for every round.
    """
    pack = yaml.safe_load(PACK.read_text())
    for resource in pack["resources"]:
        resource["capacity"] *= 10_000
    like = next(agent for agent in pack["agents"] if agent["agent_id"] == LIKE)
    like["manifest"] |= {"policy_kinds": [KIND], "escalations_per_hour": 3600}
    pack["agents"] = [like | {"agent_id": agent_id} for agent_id in (*AGENTS, DECIDED)]
    kind = next(kind for kind in pack["policy_kinds"] if kind["kind"] == KIND)
    pack["policy_kinds"] = [kind | {"sla_s": OPEN_S}]
    environment.activate(stand, yaml.safe_dump(pack, sort_keys=False))


class Desk:
    """The agents of a running console. Every proposal differs in amount, and symbols take turns."""

    def __init__(self, stand: Stand, base_url: str) -> None:
        self._stand, self._base_url = stand, base_url
        self._clients: dict[str, Client] = {}
        self._turns = self._turn()

    def ready(self, *, cents: int, agent_id: str = "") -> Ready:
        """Open a flow and compile its context for an order of about `cents`; by the agents in turn."""
        number, symbol, in_turn = next(self._turns)
        client = self._client(agent_id or in_turn)
        quantity = cents // SYMBOLS[symbol] + number % 7
        dfid = client.open_flow(trigger="bench")
        body = {
            "policy_kind": KIND,
            "params": {
                "symbol": symbol,
                "action": "BUY",
                "quantity": quantity,
                "notional_cents": quantity * SYMBOLS[symbol],
            },
            "execution_constraints": {"validity_window_sec": 3600, "max_slippage_bps": 50},
            "context_ref": client.context(dfid).ref,
            "confidence": 0.9,
            "explain": f"Momentum is strong in {symbol}; the desk would agree to a larger position.",
        }
        return Ready(client, dfid, body)

    def open(self, count: int) -> list[str]:
        """Open `count` escalations, every third of high impact; their ids."""
        return [self.ready(cents=LOW_CENTS if number % 3 else HIGH_CENTS).send() for number in range(count)]

    def accept_one(self) -> None:
        """Propose a small order, which is accepted: the bare view copies its rows."""
        ready = self.ready(cents=50_000, agent_id=DECIDED)
        verdict = ready.client.propose(ready.dfid, ready.body, idempotency_key=ready.dfid)
        if verdict.verdict != "ACCEPT":
            raise RuntimeError(f"the bench's proposal was not accepted: {verdict}")

    def _client(self, agent_id: str) -> Client:
        if agent_id not in self._clients:
            key = environment.manage(self._stand, "issue_key", agent_id)
            self._clients[agent_id] = Client(
                base_url=self._base_url,
                agent_id=agent_id,
                key=key,
                manifest_version=agents.MANIFEST_VERSION,
            )
        return self._clients[agent_id]

    @staticmethod
    def _turn() -> Iterator[tuple[int, str, str]]:
        number, symbols = 0, list(SYMBOLS)
        while True:
            yield number, symbols[number % len(symbols)], AGENTS[number // 2 % len(AGENTS)]
            number += 1
