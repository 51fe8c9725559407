"""The record of what people make go wrong in the demo on purpose."""

from audit import events, ledger
from runtime.core import clock, transactions

STREAM = "system"


@transactions.retried
def record_start(*, tenant: str, actor: str, scenario: str, lasts_s: int, symbol: str) -> None:
    """Record that the demo took on a scenario, for at most `lasts_s` seconds."""
    started = events.DemoScenarioStarted(scenario=scenario, lasts_s=lasts_s, symbol=symbol)
    ledger.append_to(tenant=tenant, stream=STREAM, actor=actor, at=clock.now(), events=[started])


@transactions.retried
def record_end(*, tenant: str, actor: str, scenario: str) -> None:
    """Record that a person ended a scenario before its time."""
    ended = events.DemoScenarioEnded(scenario=scenario)
    ledger.append_to(tenant=tenant, stream=STREAM, actor=actor, at=clock.now(), events=[ended])
