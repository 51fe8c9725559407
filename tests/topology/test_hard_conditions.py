"""No condition of a person keeps others waiting: the probe and the stop button answer meanwhile."""

import re
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.browser_client import Person
from bench.environment import Stand, manage
from demo.client import Client
from runtime.kernel.rules import condition_linter
from tests.demo.paper import free_port
from tests.faults.processes import Process, clean_environment, python
from tests.support import databases, trading_desk
from tests.topology.test_half_open import seconds_of_livez
from tests.topology.test_up import wait_ready

pytestmark = pytest.mark.slow
SOON_S = 2


def listed(count: int) -> str:
    return "[" + ",".join("0" for _ in range(count)) + "]"


def compiling(count: int) -> str:
    """A large pattern, compiled for each pair of two lists: 25 and 25 items took half a minute."""
    return f"{listed(count)}.all(x, {listed(count)}.all(y, !'aaaa'.matches('\\\\w{{200}}')))"


# The dearest that a decision may attach: near the bound of one, and of all.
DEAREST = f"{listed(35)}.all(x, {listed(35)}.all(y, x == y))"
REFUSED = (
    compiling(10),
    compiling(25),
    compiling(30),
    compiling(100),
    " + ".join(["params.symbol"] * 100) + " == ''",
)


@pytest.fixture
def stand(tmp_path: Path, migrated_file: Path) -> Stand:
    databases.put(migrated_file, tmp_path / "state")
    environ = clean_environment({"DIR_DATA": str(tmp_path / "state"), "DIR_EGRESS_ALLOW": "127.0.0.1"})
    return Stand("SQLite", 1, environ)


@pytest.fixture
def port(stand: Stand, tmp_path: Path) -> Iterator[int]:
    wanted = free_port()
    up = ("manage.py", "up", "--no-demo", "--port", str(wanted), "--data", str(tmp_path / "state"))
    process = Process(name="up", argv=python(*up), env=stand.environ, log=tmp_path / "up.log")
    process.start()
    try:
        wait_ready(process, wanted)
        yield wanted
    finally:
        process.kill()


def escalated(stand: Stand, base_url: str, folder: Path) -> None:
    """A proposal that waits for a person."""
    (folder / "trial.yaml").write_text(trading_desk.pack(base_url="http://127.0.0.1:1"))
    manage(stand, "load_pack", str(folder / "trial.yaml"), "--activate")
    agent = Client(
        base_url=base_url, agent_id=trading_desk.AGENT, key=manage(stand, "issue_key", trading_desk.AGENT)
    )
    dfid = agent.open_flow(trigger="trial")
    verdict = agent.propose(
        dfid,
        {
            "policy_kind": trading_desk.KIND,
            "params": {"symbol": "ABC", "quantity": 1},
            "execution_constraints": {"validity_window_sec": 60},
            "context_ref": agent.context(dfid).ref,
            "confidence": 0.1,
        },
    )
    agent.wire.close()
    assert verdict.verdict == "ESCALATE"


def test_the_house_answers_while_conditions_are_tried(port: int, stand: Stand, tmp_path: Path) -> None:
    base_url = f"http://127.0.0.1:{port}"
    escalated(stand, base_url, tmp_path)
    assert condition_linter.lint_conditions((DEAREST,), None) == ()
    admin, operator = Person(stand, base_url), Person(stand, base_url, role="operator")
    found = re.search(r"/escalations/([0-9a-f-]{36})/", operator.read("/escalations/"))
    assert found is not None
    case = f"/escalations/{found[1]}/"
    shown = re.search(r'name="evidence_hash" value="([0-9a-f]{64})"', operator.read(case))
    assert shown is not None
    codes: list[int] = []

    def dry_run(conditions: str) -> None:
        fields = {"action": "OVERRIDE", "version": "1", "evidence_hash": shown[1], "conditions": conditions}
        try:
            operator.press(f"{case}dry-run/", **fields)
            codes.append(200)
        except urllib.error.HTTPError as refused:
            codes.append(refused.code)

    for conditions in (*REFUSED, DEAREST, f"{DEAREST}\n{DEAREST}"):
        trying = threading.Thread(target=dry_run, args=(conditions,))
        trying.start()
        assert seconds_of_livez(port) < SOON_S, conditions
        trying.join(timeout=60)
        assert not trying.is_alive()
    assert codes == [400] * len(REFUSED) + [200, 200]
    trying = threading.Thread(target=dry_run, args=(compiling(30),))
    trying.start()
    start = time.monotonic()
    admin.press("/stop/", reason="somebody tries conditions")
    assert time.monotonic() - start < SOON_S
    trying.join(timeout=60)
