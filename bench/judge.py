"""`judge` on the demo's ADJUST_POSITION beside its two main tools alone on the same document.

In one thread of one process, without a database: the gate is pure. Each round measures all of them in turn.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import cel
import jsonschema_rs
import yaml

from audit import canonical
from runtime.contracts.facts import AgentFacts, Facts, FlowFacts, ResourceFacts, SnapshotFacts
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.states import AgentRole, AgentStatus, Decision
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import NEWEST, PolicyBundle

PACK = Path(__file__).resolve().parent.parent / "demo" / "paper-brokerage.yaml"
KIND, AGENT = "ADJUST_POSITION", "momentum-trader"
NOW_MS = 1_767_323_045_000
TURN_S = 0.5
# As many calls between two looks at the clock: a look costs as much as a validation.
BATCH = 50


def run(rounds: int) -> dict[str, float]:
    """Measure, and print calls a second and ratios."""
    asked = _case()
    asked_bytes, rules_bytes = asked.to_bytes(), _rules().to_bytes()
    verdict = pipeline.judge(asked.proposal, asked.facts, _rules(), NOW_MS)
    if verdict.decision is not Decision.ACCEPT:
        raise RuntimeError(f"the bench's proposal was not accepted: {verdict.reasons}")
    works: dict[str, Callable[[], object]] = {
        "jsonschema-rs alone": _schema(),
        "one CEL rule alone": _expression(),
        "judge": partial(pipeline.judge, asked.proposal, asked.facts, _rules(), NOW_MS),
        "judge, bytes to bytes": partial(pipeline.judge_bytes, asked_bytes, rules_bytes),
    }
    rates = calls_per_second(works, rounds)
    print(f"one {KIND}, one thread, no database, {rounds} rounds of {TURN_S} s, median round")
    print(f"{'what':<28}{'per second':>12}{'us':>9}{'/ schema':>10}{'/ CEL':>8}")
    for name, rate in rates.items():
        schema, rule = rate / rates["jsonschema-rs alone"], rate / rates["one CEL rule alone"]
        print(f"{name:<28}{rate:>12,.0f}{1e6 / rate:>9.1f}{schema:>10.4f}{rule:>8.3f}")
    return {
        "time of judge / of one CEL rule": rates["one CEL rule alone"] / rates["judge"],
        "time of judge, bytes to bytes / of one CEL rule": rates["one CEL rule alone"]
        / rates["judge, bytes to bytes"],
    }


def calls_per_second(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """How often a second each piece of work is done: the median of its turns, of which each round has one."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(_per_second(work))
    return {name: statistics.median(measured) for name, measured in found.items()}


def _per_second(work: Callable[[], object]) -> float:
    done, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < TURN_S:
        for _ in range(BATCH):
            work()
        done += BATCH
    return done / took


def _pack() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(PACK.read_text())
    return loaded


def _kind() -> dict[str, Any]:
    return next(kind for kind in _pack()["policy_kinds"] if kind["kind"] == KIND)


def _rules() -> PolicyBundle:
    agent = next(agent for agent in _pack()["agents"] if agent["agent_id"] == AGENT)
    return PolicyBundle(
        manifest=ManifestDocument.from_bytes(canonical.encode(agent["manifest"])),
        kind=KindDocument.from_bytes(canonical.encode(_kind())),
    )


def _params() -> dict[str, Any]:
    return {"symbol": "AAPL", "action": "BUY", "quantity": 3, "notional_cents": 56_850}


def _schema() -> Callable[[], object]:
    """Parameters against the kind's schema: yes or no."""
    return partial(jsonschema_rs.Draft202012Validator(_kind()["params_schema"]).is_valid, _params())


def _expression() -> Callable[[], object]:
    """The kind's longest rule, compiled beforehand, over the values that it reads."""
    source = max((rule["require"] for rule in _kind()["rules"]), key=len)
    program, params, facts = cel.compile(source), _params(), _pack()["facts"]

    def evaluate() -> object:
        context = cel.Context()
        context.add_variable("params", params)
        context.add_variable("context", {"facts": facts})
        return program.execute(context)

    return evaluate


def _case() -> pipeline.Judgement:
    world = {
        f"{namespace}.{name}": value
        for namespace, facts in _pack()["facts"].items()
        for name, value in facts.items()
        if namespace in {"market", "price", "position", "cash"}
    }
    return pipeline.Judgement(
        proposal=ProposalDocument(
            proposal_id="019b7c00-0000-7000-8000-000000000002",
            intent_id="019b7c00-0000-7000-8000-000000000003",
            dfid="019b7c00-0000-7000-8000-000000000001",
            tenant="default",
            author=f"agent:{AGENT}",
            by_person=False,
            policy_kind=KIND,
            policy_version=None,
            params=_params(),
            execution_constraints={"validity_window_sec": 60, "max_slippage_bps": 50},
            context_ref="c" * 64,
            confidence=0.9,
            human_review_required=False,
            received_at_ms=NOW_MS,
            valid_until_ms=NOW_MS + 60_000,
        ),
        facts=Facts(
            agent=AgentFacts(
                agent_id=AGENT, role=AgentRole.EXECUTOR, status=AgentStatus.ACTIVE, owner="trading-desk"
            ),
            session_valid=True,
            flow=FlowFacts(
                state="ACTIVE",
                attempts_used=0,
                attempts_allowed=3,
                opened_at_ms=NOW_MS - 5_000,
                trigger={"type": "tick"},
            ),
            world=world,
            snapshot=SnapshotFacts(facts=world, expires_at_ms=NOW_MS + 900_000),
            history=None,
            escalation_tokens=3,
            resources=(
                ResourceFacts(name="cash:USD", unit="cents", capacity=100_000_000, reserved=0, committed=0),
            ),
        ),
        now_ms=NOW_MS,
        rules_digest=canonical.digest(_rules().to_bytes()),
        gate_version=NEWEST,
    )
