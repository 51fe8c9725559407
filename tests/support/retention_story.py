"""Flows whose kind keeps their words for thirty days, and the time after that."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import ModuleType, SimpleNamespace
from uuid import UUID

import pytest
from django.conf import settings

from audit.models import LedgerEntry
from runtime.core import clock
from runtime.flows.services import flows
from runtime.maintenance.services import retention, scoring
from tests.support import fake_target, trading_desk
from tests.support.trading_desk import Desk

DAYS = 30
REVERSIBLE = "reversible: true"


@contextmanager
def opened(patch: pytest.MonkeyPatch, *, kind: str = REVERSIBLE, is_refused: bool = False) -> Iterator[Desk]:
    """A desk whose kind says `kind` too, with its target listening, which may refuse the first call."""
    with fake_target.opened() as target:
        if is_refused:
            target.faults["/reserve"] = [fake_target.REFUSE]
        patch.setattr(settings, "DIR_EGRESS_ALLOW", ["127.0.0.1"])
        said = f"risk_tier: T0\n    retention_days: {DAYS}" + (f"\n    {kind}" if kind else "")
        patch.setattr(trading_desk, "PACK", fake_target.pack().replace("risk_tier: T0", said))
        yield trading_desk.open_desk(base_url=target.base_url)


def run(desk: Desk) -> UUID:
    """A flow that was accepted, executed and scored."""
    intent = desk.accept()
    fake_target.walk(intent)
    scoring.score_due()
    return trading_desk.flow_of(intent).dfid


def cancelled(desk: Desk) -> UUID:
    """A flow that was accepted, cancelled before anything ran, and scored."""
    dfid = cancel(desk, trading_desk.flow_of(desk.accept()).dfid)
    scoring.score_due()
    return dfid


def cancel(desk: Desk, dfid: UUID) -> UUID:
    """A flow ends."""
    flows.cancel(agent=desk.agent, dfid=dfid, reason="no longer wanted")
    return dfid


def later(patch: pytest.MonkeyPatch, *, days: float = DAYS + 1, of: ModuleType = retention) -> None:
    """For rounds of retention, or of another module, it is so many days later; for all else it is not."""

    def now() -> datetime:
        return clock.now() + timedelta(days=days)

    patch.setattr(of, "clock", SimpleNamespace(now=now))


def list_erased() -> list[UUID]:
    """The flows that have an entry of an erasure, in the order of the entries."""
    return [UUID(entry.stream) for entry in LedgerEntry.objects.filter(kind="flow:erased").order_by("id")]
