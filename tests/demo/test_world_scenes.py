"""What the demo of `manage.py up --demo` shows in ten minutes: nine scenes, and agents of two frameworks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contracts.calibration import LEAST_PAIRS
from tests.demo import acting, running_world
from tests.demo.acting import Admin
from tests.demo.paper import free_port
from tests.faults.processes import Process
from tests.support.console_shell import ConsoleShell
from tests.support.wait_until import until

PORT = free_port()
BASE = f"http://127.0.0.1:{PORT}"
WITHIN_S = 600
MAPS = "/agents/overconfident-trader/calibration/"

pytestmark = [pytest.mark.faults, pytest.mark.slow]

_SEEN = """
from audit import canonical
from audit.models import LedgerEntry
from escalations.models import Escalation
from runtime.advice.models import DecisionPackageRow, RuleOutput
from runtime.execution.models import HumanTask
from runtime.models import Outcome
entries = LedgerEntry.objects
refused = [entry.payload for entry in entries.filter(kind="step:refused")]
demanded = [entry.payload.get("next") for entry in entries.filter(kind="step:taken")]
conflicts = [
    conflict["resolved_by"]
    for output in RuleOutput.objects.all()
    for conflict in canonical.decode(bytes(output.body))["conflicts"]
]
ends = Outcome.objects.filter(intent__flow__agent__agent_id="overconfident-trader")
by_mcp = Outcome.objects.filter(intent__flow__agent__agent_id="expense-assistant")
answer = {
    "skipped step": any("think_then_verify" in each["policies"] for each in refused),
    "rate hit": any("RATE_LIMITED" in each["codes"] for each in refused),
    "fallback": "GET_CACHED" in demanded,
    "replan": "REPLAN" in demanded,
    "rule conflict": "priority" in conflicts,
    "abstention": DecisionPackageRow.objects.filter(method="abstain").exists(),
    "overconfidence": ends.count() >= LEAST_PAIRS and ends.filter(status="FAILED").exists(),
    "paused action": Escalation.objects.filter(agent_id="block-trader", reason="INVARIANT_VIOLATED").exists(),
    "human step": HumanTask.objects.filter(state="OPEN").exists(),
    "by MCP": by_mcp.filter(status="SUCCEEDED").exists(),
    "by LangGraph": Escalation.objects.filter(agent_id="expense-graph").exists(),
}
"""
_CALLED = """
from escalations.models import Escalation
answer = Escalation.objects.filter(agent_id="overconfident-trader", reason="LOW_CONFIDENCE").count()
"""
_PAUSED = """
from audit import canonical
from escalations.models import Escalation
from runtime.state.models import Fact
row = Escalation.objects.filter(agent_id="block-trader", family="OPERATIONAL").order_by("opened_at").first()
trades = canonical.decode(bytes(Fact.objects.get(path="market.blocks").value)) == "OPEN"
answer = str(row.pk) if trades else ""
"""
_RESUMED = """
from escalations.models import Escalation
from runtime.models import Outcome
row = Escalation.objects.get(pk="{escalation_id}")
answer = [row.resolution, *Outcome.objects.filter(intent=row.intent).values_list("status", flat=True)]
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Process]:
    """A new folder, started with its demo."""
    with running_world.started(tmp_path_factory.mktemp("scenes"), migrated_file, port=PORT) as server:
        yield server


def test_every_scene_plays_within_ten_minutes(world: Process, shell: ConsoleShell) -> None:
    seen = f"LEAST_PAIRS = {LEAST_PAIRS}\n{_SEEN}"
    until(lambda: all(shell.ask(seen).values()), timeout_s=WITHIN_S, interval_s=2)

    with acting.signed_in(base_url=BASE, log=world.log.read_text()) as admin:
        activate_map(admin)
        until(lambda: shell.ask(_CALLED) > 0, timeout_s=120, interval_s=1)
        escalation_id = until(lambda: shell.ask(_PAUSED), timeout_s=120, interval_s=1)
        page = f"/escalations/{escalation_id}/"
        reason = "Blocks are traded again"
        admin.fill(page, f"{page}decision/", marker="evidence_hash", action="RESUME", justification=reason)
    resumed = _RESUMED.format(escalation_id=escalation_id)
    until(lambda: shell.ask(resumed) == ["RESUME", "SUCCEEDED"], timeout_s=120, interval_s=1)


def activate_map(admin: Admin) -> None:
    """Draft a calibration map and activate it, as the only admin of an installation may."""
    kind = "LOCATE_BORROW"
    assert "Map 1 drafted" in admin.send(f"{MAPS}?kind={kind}", f"{MAPS}draft/", kind=kind)
    drafted = f"{MAPS}?kind={kind}&map=1"
    admin.fill(drafted, f"{MAPS}1/activate/", marker="seen_active", reason="Four in five go well")
