"""Guards for tests: configured as a pack does, asked by real proposals, run by hand."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from audit import canonical
from runtime.contracts.guard import GuardDocument, GuardRunState
from runtime.core import clock, transactions
from runtime.guards.models import Guard, GuardRun, Review
from runtime.guards.services import guard_config, guard_runs
from tests.support import factories, gate_cases

LEXICAL: Mapping[str, Any] = {"id": "explain-fits", "guard": "lexical"}
WEBHOOK: Mapping[str, Any] = {"id": "second-look", "guard": "webhook", "target": "judge", "timeout_s": 2}
OPPOSITE = "I am selling ABC, as planned."


def configure(**fields: Any) -> Guard:
    """A guard, lexical where nothing else is said."""
    given = GuardDocument.from_bytes(canonical.encode({**LEXICAL, **fields}))

    def work() -> None:
        at = clock.now()
        added = guard_config.configure(tenant=factories.TENANT, given=given, at=at)
        factories.record("system", *added, actor="system", at=at)

    transactions.retry_on_conflict(work)
    return Guard.objects.get(guard_id=given.id)


def flagged(desk: factories.Desk, **changes: Any) -> Review:
    """A proposal whose explanation says the opposite, and the review that follows."""
    propose(desk, **changes)
    assert run_all() == [GuardRunState.FLAGGED]
    return Review.objects.latest("flagged_at")


def propose(desk: factories.Desk, **changes: Any) -> dict[str, Any]:
    """A proposal to buy, explained by its opposite but for `changes`."""
    return desk.propose(desk.open(), **{"params": gate_cases.PARAMS, "explain": OPPOSITE, **changes})


def run_all() -> list[GuardRunState | None]:
    """Let every pending guard look, due or not; how each ended."""
    GuardRun.objects.filter(state=GuardRunState.PENDING).update(next_at=clock.now() - timedelta(seconds=1))
    pending = GuardRun.objects.filter(state=GuardRunState.PENDING).order_by("pk")
    return [guard_runs.run(pk) for pk in pending.values_list("pk", flat=True)]
