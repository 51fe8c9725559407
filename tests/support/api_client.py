"""A small world for tests of the API: one pack, its agents' keys, and a client that speaks JSON."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.test import Client

from runtime.contracts.problem import Problem
from runtime.packs.services import packs
from runtime.registry.services import credentials

TRADER, OTHER = "trader", "other-trader"
KIND, HIDDEN_KIND = "ADJUST_POSITION", "TRANSFER_FUNDS"

PACK = """
pack: test-desk
version: 1.0.0
facts: {market: {state: OPEN}, price: {AAPL: 18950, MSFT: 41620}, cash: {main: 5000}}
targets: {broker: {base_url: "http://127.0.0.1:9"}}
policy_kinds:
  - kind: ADJUST_POSITION
    version: 1.2.0
    title: Adjust a position
    risk_tier: T1
    params_schema: &params
      type: object
      properties: {symbol: {type: string}, action: {type: string}, quantity: {type: number},
                   notional_cents: {type: integer, minimum: 1}}
      required: [symbol, action, quantity]
      additionalProperties: false
    constraints_schema:
      type: object
      properties:
        validity_window_sec: {type: number}
        max_slippage_bps: {type: integer, minimum: 0}
        requires_market_state: {type: string}
    depends_on:
      - fact: "price.${params.symbol}"
        unless: "has(constraints.max_slippage_bps)
          && current * 10000 <= seen * (10000 + constraints.max_slippage_bps)"
      - market.state
    constraints:
      - id: market_state
        require: "!has(constraints.requires_market_state)
          || context.facts.market.state == constraints.requires_market_state"
    impact: "'LOW_IMPACT'"
    limits:
      - {id: max_notional, value: "has(params.notional_cents) ? params.notional_cents : 1",
         limit: manifest.limits.max_notional_cents}
    rules:
      - {id: R_MARKET_OPEN, require: "context.facts.market.state == 'OPEN'", message: The market is closed}
    effect: "{action} {quantity} {symbol}"
    steps: &steps
      - {id: order, executor: http, target: broker, request: {method: POST, path: /orders}}
  - kind: TRANSFER_FUNDS
    version: 1.0.0
    title: Transfer funds
    risk_tier: T2
    params_schema: *params
    depends_on: [cash.main]
    effect: "{action} {quantity}"
    steps: *steps
agents:
  - agent_id: trader
    role: EXECUTOR
    owner: desk
    mission: Keep positions near their targets.
    manifest: &manifest
      version: 1.4.0
      policy_kinds: [ADJUST_POSITION]
      limits: {max_notional_cents: 100000}
      escalations_per_hour: 3
  - agent_id: other-trader
    role: EXECUTOR
    owner: desk
    mission: Keep away from the other one's flows.
    manifest: *manifest
"""


def load_pack() -> None:
    """The pack, in force."""
    loaded = packs.load(text=PACK, source="ground.yaml", activate=True, actor="system")
    assert isinstance(loaded, packs.Loaded), loaded


def agent_key(agent_id: str = TRADER, environment: str = "") -> str:
    """The text of a new key of an agent."""
    issued = credentials.issue_agent_key(
        tenant="default", agent_id=agent_id, actor="system", environment=environment
    )
    assert not isinstance(issued, Problem)
    return issued.text


def feed_key(prefix: str = "price.", feed: str = "prices") -> str:
    """The text of a new key of a feed."""
    issued = credentials.issue_feed_key(tenant="default", feed=feed, prefix=prefix, actor="system")
    assert not isinstance(issued, Problem)
    return issued.text


def auditor_key(auditor: str = "regulator") -> str:
    """The text of a new key of an auditor."""
    issued = credentials.issue_auditor_key(tenant="default", auditor=auditor, actor="system")
    assert not isinstance(issued, Problem)
    return issued.text


def hello(agent_id: str = TRADER, **changes: Any) -> dict[str, Any]:
    """The body of a handshake."""
    return {"agent_id": agent_id, "manifest_version": "1.4.0", "protocol_version": "1.0", **changes}


def proposal(context_ref: str | None = None, **changes: Any) -> dict[str, Any]:
    """A proposal that is accepted, but for `changes`."""
    body: dict[str, Any] = {
        "policy_kind": KIND,
        "params": {"symbol": "AAPL", "action": "BUY", "quantity": 1, "notional_cents": 18950},
        "execution_constraints": {"validity_window_sec": 30},
        "context_ref": context_ref,
        "confidence": 0.9,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


class Caller:
    """Calls the API in process with one Bearer credential; `token` may be empty."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.client = Client(raise_request_exception=False)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "Heard":
        """One call below /api/v1; `raw` is sent as it is in place of `body`."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent |= headers or {}
        content_type = sent.pop("Content-Type", "application/json")
        content = raw if raw is not None else (b"" if body is None else json.dumps(body).encode())
        address = f"/api/v1{path}"
        return Heard(self.client.generic(method, address, content, content_type=content_type, headers=sent))

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> "Heard":
        """GET."""
        return self.call("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> "Heard":
        """POST with a JSON body."""
        return self.call("POST", path, body, headers=headers)

    def put(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> "Heard":
        """PUT with a JSON body."""
        return self.call("PUT", path, body, headers=headers)

    def open_flow(self) -> str:
        """The DFID of a new flow."""
        return str(self.post("/flows", {"trigger": "a price moved"}).ok(201)["dfid"])

    def context(self, dfid: str) -> str:
        """The context_ref of a new context."""
        return str(self.post(f"/flows/{dfid}/context").ok(201)["context_ref"])

    def propose(self, dfid: str, body: dict[str, Any], key: str = "") -> "Heard":
        """A proposal under a key, by default a new one."""
        return self.post(f"/flows/{dfid}/proposals", body, {"Idempotency-Key": key or uuid.uuid4().hex})


class Heard:
    """An answer of the API."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.headers = response.headers
        self.content: bytes = response.content
        is_json = "json" in self.headers.get("Content-Type", "")
        self.body: Any = json.loads(response.content) if is_json else None

    def ok(self, status: int = 200) -> Any:
        """The body, after a check of the status."""
        assert self.status == status, (self.status, self.body)
        assert self.headers["Content-Type"] == "application/json"
        return self.body

    def problem(self, status: int, code: str) -> Any:
        """The problem document, after a check of its form, status and code."""
        assert (self.status, self.body.get("code")) == (status, code), (self.status, self.body)
        assert self.headers["Content-Type"] == "application/problem+json"
        assert self.body["status"] == status
        assert self.body["detail"]
        assert isinstance(self.body["violations"], list)
        return self.body


def session(agent_id: str = TRADER) -> Caller:
    """A caller with a new session of the agent."""
    answer = Caller(agent_key(agent_id)).post("/handshake", hello(agent_id)).ok()
    return Caller(answer["session_token"])
