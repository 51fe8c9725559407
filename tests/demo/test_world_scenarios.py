"""Every scenario as an admin starts it, in the demo of `manage.py up --demo`: what it promises is seen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.scenarios import Scenario
from tests.demo import acting, running_world
from tests.demo.acting import Admin
from tests.demo.paper import free_port
from tests.faults.processes import Process
from tests.support.console_shell import ConsoleShell
from tests.support.wait_until import until

PORT = free_port()
BASE = f"http://127.0.0.1:{PORT}"

pytestmark = [pytest.mark.faults, pytest.mark.slow]

_SEEN = """
from audit.models import LedgerEntry
from escalations.models import Escalation
from runtime.models import Attempt, FactVersion, Flow, Intent, Outcome
entries = LedgerEntry.objects
prices = [int(bytes(row.value)) for row in FactVersion.objects.filter(path="price.AAPL")]
lost = Attempt.objects.filter(error_category="CONNECTION_LOST").values_list("intent_id", flat=True)
answer = {
    "highest": max(prices) / min(prices),
    "closed": FactVersion.objects.filter(path="market.state", value=b'"CLOSED"').count(),
    "closed_for": len([
        1 for entry in entries.filter(kind="verdict:given") if "R_MARKET_OPEN" in str(entry.payload)
    ]),
    "over_budget": Flow.objects.filter(agent__agent_id="momentum-trader", reason="BUDGET_EXCEEDED").count(),
    "silent": Escalation.objects.filter(agent_id="risk-monitor", family="AGENT").count(),
    "started": [entry.payload["scenario"] for entry in entries.filter(kind="demo:scenario_started")],
    "ended": entries.filter(kind="demo:scenario_ended").count(),
    "lost": len(set(lost)),
    "recovered": Outcome.objects.filter(
        intent_id__in=set(lost), status__in=["SUCCEEDED", "FAILED", "COMPENSATED"]
    ).count(),
    "with_person": Escalation.objects.filter(intent_id__in=set(lost)).count(),
    "revised": entries.filter(kind="escalation:revised").count(),
    "open": Escalation.objects.filter(
        state="OPEN", family="DECISION", proposal__policy_kind="ADJUST_POSITION"
    ).count(),
}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Process]:
    """A new folder, started with its demo."""
    with running_world.started(tmp_path_factory.mktemp("scenarios"), migrated_file, port=PORT) as server:
        yield server


@pytest.fixture(scope="module")
def admin(world: Process) -> Iterator[Admin]:
    with acting.signed_in(base_url=BASE, log=world.log.read_text()) as admin:
        yield admin


def start(admin: Admin, scenario: Scenario, **fields: str) -> None:
    assert ": started." in admin.send("/demo/", f"/demo/{scenario}/start/", **fields)


def test_every_scenario_does_what_it_promises(shell: ConsoleShell, admin: Admin) -> None:
    def seen(name: str, least: float) -> None:
        until(lambda: shell.ask(_SEEN)[name] >= least, timeout_s=240, interval_s=1)

    start(admin, Scenario.CRASH_BROKER)
    seen("lost", 1)
    # The probe finds it, and the flow goes on, or back where the broker refuses a later step; on a busy
    # machine the broker is back so late that a person is asked first.
    until(
        lambda: (found := shell.ask(_SEEN))["recovered"] + found["with_person"] > 0,
        timeout_s=240,
        interval_s=1,
    )

    seen("open", 1)
    revised = shell.ask(_SEEN)["revised"]
    start(admin, Scenario.SILENCE_MONITOR)
    start(admin, Scenario.SPEND_BUDGET)
    start(admin, Scenario.MOVE_PRICE, symbol="AAPL")
    start(admin, Scenario.CLOSE_MARKET)
    seen("highest", 1.25)
    seen("closed", 1)
    seen("closed_for", 1)
    # an open escalation about an order stands on the state of the market
    seen("revised", revised + 1)
    seen("over_budget", 1)
    seen("silent", 1)

    admin.send("/demo/", f"/demo/{Scenario.SPEND_BUDGET}/start/")
    assert "ended" in admin.send("/demo/", f"/demo/{Scenario.SPEND_BUDGET}/end/")
    lost = shell.ask(_SEEN)["lost"]
    start(admin, Scenario.DROP_ANSWERS)
    seen("lost", lost + 1)
    found = shell.ask(_SEEN)
    assert set(found["started"]) == set(Scenario)
    assert found["ended"] == 1
