"""An agent that is rejected again and again: two rejections make it SUPERVISED, four READ_ONLY."""

from typing import Any

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.states import AutonomyLevel
from runtime.registry.models import Agent
from tests.support import factories, gate_cases

# Each rejection counts ten points, and nothing else does.
RULE: dict[str, Any] = {
    "supervised_at": 20,
    "read_only_at": 40,
    "rejections": {"points": 10, "most": 100},
    "variations": {"points": 0, "most": 0},
}
UNFIT = {**gate_cases.PARAMS, "quantity": 0}


def desk(**rule: Any) -> factories.Desk:
    """An agent in force whose manifest has this rule."""
    return factories.desk(manifest=gate_cases.manifest(autonomy={**RULE, **rule}))


def reject(desk: factories.Desk, times: int = 1) -> None:
    """So many proposals that do not fit their schema, each in a flow of its own."""
    for _ in range(times):
        assert desk.propose(desk.open(), params=UNFIT)["verdict"] == "REJECT"


def level(desk: factories.Desk) -> AutonomyLevel:
    """The level in the agent's row."""
    return AutonomyLevel(Agent.objects.get(pk=desk.agent.pk).autonomy)


def changes() -> list[dict[str, Any]]:
    """The payloads of all changes of levels, in order."""
    return [row.payload for row in LedgerEntry.objects.filter(kind="agent:autonomy_changed").order_by("id")]


def broken() -> list[str]:
    """What `verify_ledger` finds; the people of these tests were made without entries."""
    found = [each.detail for each in findings.verify_all().findings]
    return [detail for detail in found if not detail.startswith("no entry records the user")]
