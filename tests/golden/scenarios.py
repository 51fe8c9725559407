"""The cases whose verdicts are kept for ever. Add one here, then run `python -m tests.golden.record`.

A case that was recorded is never changed: its file is judged, not its code here.
"""

from collections.abc import Callable
from typing import Any

from audit import canonical
from runtime.contracts.facts import DecisionFacts, Lift, ResourceFacts, ToolFacts
from runtime.contracts.reasons import Reason
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.states import AgentStatus, AutonomyLevel
from runtime.kernel.gate.gate_input import FIRST, Case
from tests.support import gate_cases, workflow_story

LIFT = Lift(check="limits", code="RISK_LIMIT_EXCEEDED", subject="max_notional", proposed_value="150000")

_SEVERAL: list[dict[str, Any]] = [
    {
        "id": "sell",
        "target": "broker",
        "request": {"path": "/orders"},
        "compensate": {"method": "DELETE", "path": "/orders/${key}", "body": "{'undoes': key}"},
        "probe": {"path": "/orders/by-key/${key}"},
    },
    {
        "id": "note",
        "executor": "simulated",
        "compensate": {"path": "/notes/${intent.step}"},
    },
    {
        "id": "buy",
        "target": "broker",
        "request": {"path": "/orders"},
        "probe": {"path": "/orders/by-key/${key}"},
    },
]


def _invariant(invariant_id: str, require: str, **fields: Any) -> dict[str, Any]:
    return {
        "invariant_id": invariant_id,
        "pinned": {"invariant_id": invariant_id, "require": require, **fields},
    }


_DESK: dict[str, Any] = {
    "ruleset": "desk",
    "version": "1.0.0",
    "strategy": ["mandatory"],
    "features": {
        "cents": {"type": "integer", "value": "params.notional_cents"},
        "seller": {"type": "string", "value": "params.action"},
    },
    "tables": [
        {
            "table": "size",
            "decides": "size",
            "inputs": ["cents"],
            "rules": [
                {"id": "D_LARGE", "when": ["> 90000"], "then": {"action": "CALL_DESK"}, "mandatory": True}
            ],
        }
    ],
}


def _ruleset(**fields: Any) -> dict[str, Any]:
    """A kind that names the desk's ruleset, with some of its fields replaced."""
    found = RulesetDocument.from_bytes(canonical.encode({**_DESK, **fields}))
    rules = gate_cases.rules(kind=gate_cases.kind(rulesets=["desk@1.0.0"]), rulesets=(found,))
    return {"rules": rules}


def _tool(step: str, name: str, **fields: Any) -> dict[str, Any]:
    """A step that calls a tool of an MCP server, and one that undoes it."""
    undo = {"undo": {"name": "remove", "arguments": "{'undoes': key}"}} if name == "add" else {}
    return {"id": step, "executor": "mcp", "target": "notes", "tool": {"name": name, **undo, **fields}}


def _says(rule: str, decides: str, action: str, **fields: Any) -> dict[str, Any]:
    return {"id": rule, "decides": decides, "when": "true", "then": {"action": action}, **fields}


def _follows(**decision: Any) -> dict[str, Any]:
    """A kind whose proposals follow a decision package, and the package that was named."""
    selected = {"decision_id": "d", "action": "ADJUST_POSITION", "params": gate_cases.PARAMS}
    found = DecisionFacts(**{**selected, "needs_person": False, **decision})
    return {**_kind(follows_decision=True), "facts": gate_cases.facts(decision=found)}


def _params(**fields: Any) -> dict[str, Any]:
    return {"proposal": gate_cases.proposal(params={**gate_cases.PARAMS, **fields})}


def _status(status: AgentStatus) -> dict[str, Any]:
    return {"facts": gate_cases.facts(status=status)}


def _kind(**fields: Any) -> dict[str, Any]:
    return {"rules": gate_cases.rules(kind=gate_cases.kind(**fields))}


def _claims(*amounts: str, reserved: int = 0, committed: int = 0) -> dict[str, Any]:
    claims = [{"resource": "cash", "amount": amount} for amount in amounts]
    cash = ResourceFacts(name="cash", unit="cents", capacity=100, reserved=reserved, committed=committed)
    return {**_kind(claims=claims), "facts": gate_cases.facts(resources=(cash,))}


def _manifest(**fields: Any) -> dict[str, Any]:
    return {"rules": gate_cases.rules(manifest=gate_cases.manifest(**fields))}


def _asked(**fields: Any) -> dict[str, Any]:
    return {"proposal": gate_cases.proposal(**fields)}


def _large(last: Any) -> dict[str, Any]:
    """More values than a schema of so many parts is checked with since there is a bound."""
    fields = {f"p{number}": {"type": "integer"} for number in range(300)}
    xs = {"type": "array", "items": {"type": "integer"}}
    schema = {**gate_cases.KIND["params_schema"]}
    schema["properties"] = {**schema["properties"], **fields, "xs": xs}
    return {**_kind(params_schema=schema), **_params(xs=[*([1] * 2_100), last])}


def _numbers() -> dict[str, Any]:
    """Floats, decimal strings and text beyond ASCII, where canonical forms part ways."""
    kind = gate_cases.kind(
        params_schema={"type": "object"},
        depends_on=[],
        constraints=[],
        predicts=[{"fact": "price.AAPL", "value": "params.rate * 3.0"}],
        impact="params.rate > 0.1 ? 'HIGH_IMPACT' : 'LOW_IMPACT'",
        limits=[{"id": "fee", "value": "params.fee", "limit": "'0.30'"}],
        rules=[{"id": "R_LATE", "require": "time.hour < 3 || time.weekday == 5", "on_fail": "ESCALATE"}],
        effect="Pay {fee} to {payee|upper} on {day|date}",
        steps=[
            {
                "id": "pay",
                "target": "bank",
                "request": {
                    "method": "PUT",
                    "path": "/pay/${params.payee}",
                    "body": "{'z': params.rate, 'a': [params.fee, flow.age_s], 'k': intent.step}",
                },
            }
        ],
    )
    params = {
        "rate": 0.1,
        "fee": "0.3",
        "payee": "Åsa \u202e€😀",
        "day": gate_cases.NOW_MS,
        "deep": [[{"x": 1e-7}]],
    }
    return {
        "proposal": gate_cases.proposal(params=params, confidence=0.75),
        "rules": gate_cases.rules(kind=kind),
    }


def _override(**world: Any) -> dict[str, Any]:
    return {
        "proposal": gate_cases.proposal(
            params={**gate_cases.PARAMS, "notional_cents": 150_000},
            by_person=True,
            author="user:7",
            confidence=None,
            conditions=("context.facts.price.AAPL < 19000",),
        ),
        "facts": gate_cases.facts(lifts=(LIFT,), world={**gate_cases.WORLD, **world}, escalation_tokens=0),
    }


_SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {
    "accept": dict,
    "accept-claims": lambda: _claims("60", "params.quantity", reserved=30, committed=5),
    "accept-compute": lambda: {"facts": gate_cases.facts(compute=gate_cases.compute(tokens_used=1_000))},
    "accept-last-millisecond": lambda: {"now_ms": gate_cases.NOW_MS + gate_cases.WINDOW_MS},
    "accept-numbers-and-text": _numbers,
    "accept-override": _override,
    "accept-override-within-slippage": lambda: _override(**{"price.AAPL": 18_990}),
    "accept-several-steps": lambda: _kind(steps=_SEVERAL, on_unknown="probe"),
    "accept-without-steps": lambda: _kind(steps=[]),
    "escalate-confidence": lambda: _asked(confidence=0.69),
    "escalate-limit": lambda: _params(notional_cents=150_000),
    "escalate-limit-high-impact": lambda: _params(notional_cents=300_000),
    "escalate-requested": lambda: _asked(human_review_required=True),
    "escalate-rule": lambda: _params(action="SELL"),
    "escalate-two-people": lambda: _kind(approvals=2),
    "escalate-approval-mode": lambda: _kind(approval_mode="destructive", impact="'LOW_IMPACT'"),
    "escalate-two-persons": lambda: _kind(approval_mode="two_persons"),
    "reject-red-line": lambda: _kind(
        red_lines=[
            {"id": "L_SIZE", "forbid": "params.quantity >= 1", "message": "Nothing at all is bought."},
            {"id": "L_ERROR", "forbid": "params.nothing"},
            {"id": "L_FREE", "forbid": "params.quantity < 0"},
            "Nothing is sold to a stranger.",
        ]
    ),
    "reject-invariant": lambda: _kind(
        safety_assertions=[
            _invariant("exposure", "(params.notional_cents) <= (90000)", severity="CRITICAL"),
            _invariant("error", "params.nothing", severity="LOW"),
            _invariant("open", "context.facts.market.state == 'OPEN'"),
        ]
    ),
    "escalate-invariant": lambda: _kind(
        safety_assertions=[_invariant("exposure", "params.notional_cents <= 90000", severity="MEDIUM")]
    ),
    "reject-evidence": lambda: {
        **_kind(
            required_evidence=[
                {"fact": "price.${params.symbol}", "max_age_s": 5},
                {"step": "self_check"},
                {"label": "ticket"},
                {"receipt": "LOOKUP"},
                "desk-was-called",
            ]
        ),
        "facts": gate_cases.facts(
            evidence={"fact:price.AAPL": gate_cases.NOW_MS - 5_001, "step:self_check": gate_cases.NOW_MS}
        ),
    },
    "accept-evidence": lambda: {
        **_kind(
            required_evidence=[{"fact": "price.${params.symbol}", "max_age_s": 5}, {"step": "self_check"}]
        ),
        "facts": gate_cases.facts(
            evidence={"fact:price.AAPL": gate_cases.NOW_MS - 5_000, "step:self_check": gate_cases.NOW_MS}
        ),
    },
    "reject-tools": lambda: {
        **_kind(steps=[_tool("a", "changed"), _tool("b", "off"), _tool("c", "new")]),
        "facts": gate_cases.facts(
            tools=(
                ToolFacts(server="notes", tool="changed", pinned="", refused=Reason.TOOL_QUARANTINED),
                ToolFacts(server="notes", tool="off", pinned="", refused=Reason.TOOL_SERVER_OFF),
            )
        ),
    },
    "accept-tools": lambda: {
        **_kind(steps=[_tool("a", "add"), _tool("b", "send", arguments="{'cents': params.notional_cents}")]),
        "facts": gate_cases.facts(
            tools=tuple(
                ToolFacts(server="notes", tool=name, pinned="ab" * 32) for name in ("add", "remove", "send")
            )
        ),
    },
    "escalate-supervised": lambda: {"facts": gate_cases.facts(autonomy=AutonomyLevel.SUPERVISED)},
    "escalate-labelled": lambda: {
        "rules": gate_cases.rules(
            manifest=gate_cases.manifest(label_rules=[{"id": "outward", "after": ["untrusted"]}])
        ),
        "facts": gate_cases.facts(labels=("secret", "untrusted")),
    },
    "reject-read-only": lambda: {"facts": gate_cases.facts(autonomy=AutonomyLevel.READ_ONLY)},
    "escalate-tier": lambda: _kind(risk_tier="T3"),
    "reject-unsafe": lambda: {
        "facts": gate_cases.facts(unsafe="rules.0.require: it takes too long", world={})
    },
    "reject-budget": lambda: {**_asked(confidence=0.1), "facts": gate_cases.facts(escalation_tokens=0)},
    "reject-claim-unreadable": lambda: _claims("-1"),
    "reject-compute": lambda: {
        "facts": gate_cases.facts(compute=gate_cases.compute(tokens_used=1_001, ends_at_ms=gate_cases.NOW_MS))
    },
    "reject-condition": lambda: _override(**{"price.AAPL": 19_010}),
    "reject-constraint": lambda: _asked(
        execution_constraints={**gate_cases.CONSTRAINTS, "max_price_cents": 100}
    ),
    "reject-contention": lambda: _claims("60", reserved=41),
    "reject-context-expired": lambda: {
        **_asked(valid_until_ms=gate_cases.NOW_MS + 2_000_000),
        "now_ms": gate_cases.NOW_MS + 1_000_000,
    },
    "reject-context-unknown": lambda: {"facts": gate_cases.facts(snapshot=None)},
    "reject-exhausted": lambda: {"facts": gate_cases.facts(attempts_used=3)},
    "reject-expired": lambda: {"now_ms": gate_cases.NOW_MS + gate_cases.WINDOW_MS + 1},
    "reject-kind-unknown": lambda: {"rules": gate_cases.rules(kind=None)},
    "reject-last-attempt": lambda: {**_params(quantity=0), "facts": gate_cases.facts(attempts_used=2)},
    "reject-limit-unreadable": lambda: _manifest(limits={}),
    "reject-locked": lambda: _status(AgentStatus.LOCKED),
    "reject-passive": lambda: _status(AgentStatus.PASSIVE),
    "reject-rate": lambda: {
        **_manifest(proposals_per_minute=2),
        "facts": gate_cases.facts(history={"proposals_1m": 2}),
    },
    # The last attempt of the flow: at the second gate a wait costs none.
    "reject-rate-costs-no-attempt": lambda: {
        **_manifest(proposals_per_minute=2),
        "facts": gate_cases.facts(history={"proposals_1m": 2}, attempts_used=2),
    },
    "reject-rendering": lambda: _kind(
        steps=[{"id": "order", "target": "broker", "request": {"path": "/${params.nothing}"}}]
    ),
    "reject-retired": lambda: _status(AgentStatus.RETIRED),
    "reject-rule": lambda: {
        "facts": gate_cases.facts(
            world={**gate_cases.WORLD, "market.state": "CLOSED"},
            seen={**gate_cases.WORLD, "market.state": "CLOSED"},
        )
    },
    "reject-schema": lambda: _params(quantity="five", symbol="aapl", colour="red"),
    "reject-scope": lambda: _manifest(scope={"symbol": ["MSFT"]}),
    "reject-session": lambda: {"facts": gate_cases.facts(session_valid=False)},
    "reject-shortage": lambda: _claims("60", reserved=5, committed=41),
    "reject-stale": lambda: {"facts": gate_cases.facts(world={**gate_cases.WORLD, "price.AAPL": 25_000})},
    "reject-suspended": lambda: _status(AgentStatus.SUSPENDED),
    "accept-large-first-gate": lambda: {**_large(1), "gate": FIRST},
    "reject-large-first-gate": lambda: {**_large("1"), "gate": FIRST},
    "reject-large": lambda: _large(1),
    "reject-undeclared-constraint": lambda: {
        **_kind(constraints_schema={"type": "object"}, depends_on=[], constraints=[]),
        **_asked(execution_constraints={"validity_window_sec": 30, "requires_market_state": "OPEN"}),
    },
    "reject-workflow": lambda: {
        "facts": gate_cases.facts(workflow=workflow_story.walk(workflow_story.document(), "GENERATE")),
        "rules": gate_cases.rules(workflow=workflow_story.document(checkers=[workflow_story.SEQUENCE])),
    },
    "escalate-ruleset": lambda: _ruleset(),
    "accept-ruleset": lambda: _ruleset(
        tables=[], rules=[_says("D_ANY", "size", "ADJUST_POSITION", mandatory=True)]
    ),
    "reject-ruleset-denies": lambda: _ruleset(rules=[_says("D_NO", "who", "DENY", mandatory=True)]),
    "reject-ruleset-conflict": lambda: _ruleset(rules=[_says("A", "who", "SELL"), _says("B", "who", "BUY")]),
    "reject-ruleset-guardrail": lambda: _ruleset(
        guardrails=[{"id": "G_BUYER", "forbid": "features.seller == 'BUY'", "message": "Buys only on Monday"}]
    ),
    "reject-ruleset-incomplete": lambda: _ruleset(
        features={**_DESK["features"], "owner": {"type": "string"}}
    ),
    "reject-ruleset-missing": lambda: _kind(rulesets=["desk@1.0.0"]),
    "accept-decision": lambda: _follows(),
    "escalate-decision": lambda: _follows(needs_person=True),
    "reject-decision-other": lambda: _follows(params={**gate_cases.PARAMS, "quantity": 6}),
    "reject-decision-none": lambda: _kind(follows_decision=True),
    "reject-unpinned": lambda: {
        "rules": gate_cases.rules(
            kind=gate_cases.kind(strict=True), manifest=gate_cases.manifest(model_profile="opus")
        )
    },
    "accept-pinned": lambda: {
        "rules": gate_cases.rules(
            kind=gate_cases.kind(strict=True),
            manifest=gate_cases.manifest(model_profile="opus", evaluator_suite="standard"),
        )
    },
    "reject-version": lambda: _asked(policy_version="2.0.0"),
    "reject-everything": lambda: {
        "proposal": gate_cases.proposal(
            params={**gate_cases.PARAMS, "notional_cents": 300_000, "action": "SELL"},
            execution_constraints={**gate_cases.CONSTRAINTS, "max_price_cents": 1},
            confidence=0.2,
            human_review_required=True,
        )
    },
}


def names() -> list[str]:
    """The names of all scenarios."""
    return sorted(_SCENARIOS)


def case(name: str) -> Case:
    """The case of a scenario."""
    return gate_cases.case(**_SCENARIOS[name]())
