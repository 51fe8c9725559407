"""Pure builders: one plain case before the gate that is accepted, and every part of it by keyword."""

from collections.abc import Mapping
from typing import Any

from audit import canonical
from runtime.contracts.facts import AgentFacts, ComputeFacts, Facts, FlowFacts, Lift, SnapshotFacts
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.states import AgentRole, AgentStatus
from runtime.contracts.verdict import Finding, FindingOutcome, VerdictDocument
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import Case, PolicyBundle

NOW_MS = 1_767_323_045_000  # 2026-01-02 03:04:05 UTC, a Friday
WINDOW_MS = 30_000
DFID = "019b7c00-0000-7000-8000-000000000001"
WORLD: dict[str, Any] = {"price.AAPL": 18950, "price.MSFT": 41620, "market.state": "OPEN"}
PARAMS: dict[str, Any] = {"symbol": "AAPL", "action": "BUY", "quantity": 5, "notional_cents": 94_750}
CONSTRAINTS: dict[str, Any] = {"validity_window_sec": 30, "max_slippage_bps": 50}

# A price that moved inside the proposal's own slippage bound is not stale.
WITHIN_SLIPPAGE = (
    "current * 10000 <= seen * (10000 + constraints.max_slippage_bps)"
    " && current * 10000 >= seen * (10000 - constraints.max_slippage_bps)"
)
# The amount as the live price makes it: it moves with each tick.
LIVE_NOTIONAL = "params.quantity * context.facts.price[params.symbol]"

KIND: dict[str, Any] = {
    "kind": "ADJUST_POSITION",
    "version": "1.2.0",
    "title": "Adjust a position",
    "risk_tier": "T1",
    "params_schema": {
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "pattern": "^[A-Z-]{1,12}$"},
            "action": {"type": "string", "enum": ["BUY", "SELL"]},
            "quantity": {"type": "integer", "minimum": 1},
            "notional_cents": {"type": "integer", "minimum": 1},
        },
        "required": ["symbol", "action", "quantity", "notional_cents"],
        "additionalProperties": False,
    },
    "constraints_schema": {
        "type": "object",
        "properties": {
            "validity_window_sec": {"type": "number", "exclusiveMinimum": 0},
            "max_slippage_bps": {"type": "integer", "minimum": 0},
            "max_price_cents": {"type": "integer", "minimum": 1},
        },
        "required": ["validity_window_sec"],
        "additionalProperties": False,
    },
    "depends_on": [{"fact": "price.${params.symbol}", "unless": WITHIN_SLIPPAGE}, "market.state"],
    "impact": "params.notional_cents > 250000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'",
    "limits": [
        {
            "id": "max_notional",
            "value": "params.notional_cents",
            "limit": "manifest.limits.max_notional_cents",
        }
    ],
    "rules": [
        {
            "id": "R_MARKET_OPEN",
            "require": "context.facts.market.state == 'OPEN'",
            "message": "The market is closed",
        },
        {
            "id": "R_BUYS_ONLY",
            "require": "params.action == 'BUY'",
            "on_fail": "ESCALATE",
            "message": "A person decides on sales",
        },
    ],
    "constraints": [
        {
            "id": "max_price",
            "require": "!has(constraints.max_price_cents)"
            " || context.facts.price[params.symbol] <= constraints.max_price_cents",
            "message": "The price is above the proposal's own bound",
        }
    ],
    "predicts": [{"fact": "price.${params.symbol}", "value": "context.facts.price[params.symbol]"}],
    "effect": "{action} {quantity} {symbol} for {notional_cents|cents}",
    "steps": [
        {
            "id": "order",
            "executor": "http",
            "target": "broker",
            "request": {"method": "POST", "path": "/orders/${params.symbol}"},
        }
    ],
    "sla_s": 600,
    "reversible": True,
}
MANIFEST: dict[str, Any] = {
    "version": "1.4.0",
    "policy_kinds": ["ADJUST_POSITION"],
    "limits": {"max_notional_cents": 100_000},
    "escalations_per_hour": 3,
}


def kind(**fields: Any) -> KindDocument:
    """A policy kind that accepts `proposal()`; `fields` replace its own, and None takes one away."""
    return KindDocument.from_bytes(canonical.encode(_merged(KIND, fields)))


def manifest(**fields: Any) -> ManifestDocument:
    """The manifest of an agent that may propose `kind()` up to 1,000.00."""
    return ManifestDocument.from_bytes(canonical.encode(_merged(MANIFEST, fields)))


def proposal(**fields: Any) -> ProposalDocument:
    """A proposal that is accepted by `kind()` under `manifest()`."""
    return ProposalDocument(
        **{
            "proposal_id": "019b7c00-0000-7000-8000-000000000002",
            "intent_id": "019b7c00-0000-7000-8000-000000000003",
            "dfid": DFID,
            "tenant": "default",
            "author": "agent:trader",
            "by_person": False,
            "policy_kind": "ADJUST_POSITION",
            "policy_version": None,
            "params": dict(PARAMS),
            "execution_constraints": dict(CONSTRAINTS),
            "context_ref": "c" * 64,
            "confidence": 0.9,
            "human_review_required": False,
            "received_at_ms": NOW_MS,
            "valid_until_ms": NOW_MS + WINDOW_MS,
            **fields,
        }
    )


def facts(**fields: Any) -> Facts:
    """Facts of an ACTIVE agent in an open flow whose snapshot is still true.

    `status`, `attempts_used` and `seen` reach inside; the other fields are those of `Facts`.
    """
    status = fields.pop("status", AgentStatus.ACTIVE)
    attempts_used = fields.pop("attempts_used", 0)
    world = fields.pop("world", WORLD)
    seen = fields.pop("seen", WORLD)
    return Facts(
        **{
            "agent": AgentFacts(agent_id="trader", role=AgentRole.EXECUTOR, status=status, owner="desk"),
            "session_valid": True,
            "flow": FlowFacts(
                state="ACTIVE",
                attempts_used=attempts_used,
                attempts_allowed=3,
                opened_at_ms=NOW_MS - 5_000,
                trigger={"type": "tick"},
            ),
            "world": dict(world),
            "snapshot": SnapshotFacts(facts=dict(seen), expires_at_ms=NOW_MS + 900_000),
            "history": None,
            "escalation_tokens": 3,
            **fields,
        }
    )


def compute(**fields: Any) -> ComputeFacts:
    """A compute budget with every cap, of which nothing is used."""
    return ComputeFacts(
        **{
            "tokens_cap": 1_000,
            "tokens_used": 0,
            "cost_cap_micros": 500_000,
            "cost_used_micros": 0,
            "tool_calls_cap": 10,
            "tool_calls_used": 0,
            "ends_at_ms": NOW_MS + 60_000,
            **fields,
        }
    )


def rules(**fields: Any) -> PolicyBundle:
    """`manifest()` and `kind()` in force."""
    return PolicyBundle(**{"manifest": manifest(), "kind": kind(), **fields})


def case(**fields: Any) -> Case:
    """One case before a check; `proposal`, `facts`, `rules` and `now_ms` by keyword."""
    return Case(**{"proposal": proposal(), "facts": facts(), "rules": rules(), "now_ms": NOW_MS, **fields})


def judge(**fields: Any) -> VerdictDocument:
    """The verdict on `case(**fields)`."""
    asked = case(**fields)
    return pipeline.judge(asked.proposal, asked.facts, asked.rules, asked.now_ms, asked.gate)


def judgement(asked: Case) -> tuple[bytes, bytes]:
    """The stored input of a case and its rules, as bytes."""
    in_force = asked.rules.to_bytes()
    stored = pipeline.Judgement(
        proposal=asked.proposal,
        facts=asked.facts,
        now_ms=asked.now_ms,
        rules_digest=canonical.digest(in_force),
        gate_version=asked.gate,
    )
    return stored.to_bytes(), in_force


def lifts_of(verdict: VerdictDocument) -> tuple[Lift, ...]:
    """What a person lifts who has seen `verdict`."""
    return tuple(
        Lift(
            check=item.check,
            code=item.code,
            subject=item.subject,
            proposed_value=item.proposed_value,
        )
        for item in verdict.findings
        if item.outcome is FindingOutcome.REFER
    )


def codes(found: Any) -> list[str]:
    """The codes of a verdict's reasons, or of findings."""
    items: tuple[Finding, ...] = found.reasons if isinstance(found, VerdictDocument) else tuple(found)
    return [item.code for item in items]


def _merged(base: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**base, **fields}.items() if value is not None}
