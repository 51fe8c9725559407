"""An agent whose proposals have come to every end, with the confidence that it had stated of each."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from audit import actors
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.problem import Problem
from runtime.execution.services import attempting
from runtime.flows.models import Flow, Intent
from runtime.packs.services import packs
from tests.support import api_client, factories

OVER = 150_000
PACK = (
    api_client.PACK.replace(
        "executor: http, target: broker, request: {method: POST, path: /orders}", "executor: simulated"
    )
    .replace("escalations_per_hour: 3", "escalations_per_hour: 60")
    .replace("    impact: \"'LOW_IMPACT'\"", "    undo_s: 0\n    impact: \"'LOW_IMPACT'\"")
)
# What is good or bad, and how often: 22 and 9.
SUCCEEDED, OVERRIDDEN, MODIFIED, ABORTED = 20, 2, 3, 6
PAIRS = SUCCEEDED + OVERRIDDEN + MODIFIED + ABORTED


def load() -> api_client.Caller:
    """The pack in force, and a session of its agent."""
    loaded = packs.load(text=PACK, source="calibrated.yaml", activate=True, actor=actors.SYSTEM)
    assert isinstance(loaded, packs.Loaded), loaded
    return api_client.session()


def build() -> None:
    """Every end, and what is no pair: rejected, waiting, and without a confidence."""
    trader, person = load(), factories.user("olivia")
    for _ in range(SUCCEEDED):
        run(propose(trader, confidence=0.9))
    for _ in range(OVERRIDDEN):
        run(decide(propose(trader, confidence=0.8, cents=OVER), person, Action.OVERRIDE))
    for _ in range(MODIFIED):
        run(decide(propose(trader, confidence=0.85, cents=OVER), person, Action.MODIFY))
    for _ in range(ABORTED):
        decide(propose(trader, confidence=0.75, cents=OVER), person, Action.ABORT)
    propose(trader, confidence=0.1, cents=OVER, symbol="")
    propose(trader, confidence=0.95)
    run(propose(trader, confidence=None, cents=1))


def propose(
    caller: api_client.Caller, *, confidence: float | None, cents: int = 18_950, symbol: str = "AAPL"
) -> UUID:
    """A flow of its own with one proposal; without a symbol its parameters do not fit."""
    dfid = caller.open_flow()
    params = {"action": "BUY", "quantity": 1, "notional_cents": cents}
    params |= {"symbol": symbol} if symbol else {}
    caller.propose(dfid, api_client.proposal(caller.context(dfid), params=params, confidence=confidence)).ok()
    return UUID(dfid)


def decide(dfid: UUID, person: User, action: Action) -> UUID:
    """What a person does about the escalation of a flow."""
    changed = {"symbol": "AAPL", "action": "BUY", "quantity": 1, "notional_cents": 10}
    fields: dict[str, Any] = {"params": changed} if action is Action.MODIFY else {}
    done = factories.decide(Escalation.objects.get(flow=dfid), person, action, **fields)
    assert not isinstance(done, Problem), done
    return dfid


def run(dfid: UUID) -> None:
    """Call what was accepted in a flow."""
    intent = Intent.objects.get(flow=Flow.objects.get(pk=dfid))
    done = attempting.attempt(intent.pk, owner="worker")
    assert done.status is attempting.AttemptStatus.SUCCEEDED, done
