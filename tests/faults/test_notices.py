"""A sender of notices is killed between its claim and its record: the notice still arrives, with its id."""

import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from escalations.contracts import NoticeState
from escalations.models import Notice
from escalations.services.notices import sending
from runtime.core import clock
from tests.faults import processes
from tests.support import factories, notice_receivers

pytestmark = [pytest.mark.faults, pytest.mark.slow]
PATIENCE_S = 60


def live(database: str, settings: Settings, point: str) -> tuple[int, str]:
    """One sender's life: its exit code, and how many notices it says were taken."""
    argv = processes.python("-m", "tests.faults.notice_sender", database, point)
    environment = processes.inherited_environment(
        {"DIR_EGRESS_ALLOW": "127.0.0.1", "DIR_SECRET_KEY": settings.SECRET_KEY}
    )
    ended = subprocess.run(
        argv, cwd=processes.ROOT, env=environment, timeout=PATIENCE_S, capture_output=True, check=False
    )
    if ended.returncode not in {0, -signal.SIGKILL}:
        print(ended.stderr.decode(), file=sys.stderr)
    return ended.returncode, ended.stdout.decode().strip()


@pytest.mark.parametrize(("point", "arrivals"), [("claimed", 1), ("sent", 2)])
def test_a_notice_of_a_killed_sender_arrives_with_the_same_id(
    point: str, arrivals: int, real_db: str, settings: Settings
) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    with notice_receivers.receiver() as receiver:
        added = notice_receivers.add(receiver.url)
        row = factories.desk().escalate()
        assert live(real_db, settings, point) == (-signal.SIGKILL, "")
        notice = Notice.objects.get()
        assert (notice.state, notice.tries) == (NoticeState.PENDING, 1)
        assert notice.next_at > clock.now() + timedelta(seconds=sending.LEASE_S / 2), "leased"
        assert live(real_db, settings, "") == (0, "0"), "another sender leaves it to the one that has it"
        Notice.objects.update(next_at=clock.now())  # the lease ends
        assert live(real_db, settings, "") == (0, "1")
        assert receiver.ids == [f"msg_{notice.pk.hex}"] * arrivals
        for body in receiver.bodies(added.secret):
            assert body["data"]["escalation_id"] == str(row.pk)
    assert Notice.objects.get().state == NoticeState.SENT
