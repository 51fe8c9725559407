"""A worker is killed at some point of a walk, and the next one resumes it: one effect each.

`tests/execution/test_sagas_doubt.py` tries every step without a process; here the process really dies.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit.verification.verify import Whole, verify_database
from escalations.models import Escalation
from runtime.contracts.states import AgentStatus, FlowState
from runtime.registry.models import Agent
from tests.faults import processes
from tests.support import fake_target, trading_desk
from tests.support.fake_target import BACK, FORWARD, REFUSE, Book

pytestmark = [pytest.mark.faults, pytest.mark.slow]
PATIENCE_S = 60


@pytest.fixture
def book(real_db: str, settings: Settings, request: pytest.FixtureRequest) -> Iterator[Book]:
    """A target that does twice what is asked twice, where it can be asked what it has done."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with fake_target.opened(knows_keys=request.param == "resend") as opened:
        yield opened


def live(database: str, intent_id: UUID, point: str = "", path: str = "") -> int:
    """One worker's life; its exit code."""
    argv = processes.python("-m", "tests.faults.saga_worker", database, str(intent_id), point, path)
    environment = processes.inherited_environment({"DIR_EGRESS_ALLOW": "127.0.0.1"})
    ended = subprocess.run(
        argv, cwd=processes.ROOT, env=environment, timeout=PATIENCE_S, capture_output=True, check=False
    )
    if ended.returncode not in {0, -signal.SIGKILL}:
        print(ended.stderr.decode(), file=sys.stderr)
    return ended.returncode


@pytest.mark.parametrize(
    ("book", "point", "path"),
    [
        ("probe", "claimed", "/pay"),
        ("probe", "claimed", "/pay/undo"),
        ("probe", "called", "/ship"),
        ("probe", "called", "/reserve/undo"),
        ("probe", "recorded", "/pay"),
        ("probe", "recorded", "/pay/undo"),
        ("resend", "called", "/pay"),
        ("resend", "claimed", "/reserve/undo"),
    ],
    indirect=["book"],
)
def test_a_killed_worker_leaves_one_effect_and_an_unlocked_agent(
    point: str,
    path: str,
    book: Book,
    real_db: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_unknown = request.node.callspec.params["book"]
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack(on_unknown=on_unknown))
    intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
    if path in BACK:
        book.faults["/ship"] = [REFUSE]

    assert live(real_db, intent_id, point, path) == -signal.SIGKILL
    assert live(real_db, intent_id) == 0

    assert book.order == ([*FORWARD[:2], *reversed(BACK)] if path in BACK else list(FORWARD))
    book.check()
    ended = FlowState.ABORTED if path in BACK else FlowState.CLOSED
    assert trading_desk.states(intent_id)[1] == ended
    assert Agent.objects.get().status == AgentStatus.ACTIVE
    assert not Escalation.objects.exists()
    assert isinstance(verify_database(), Whole)
