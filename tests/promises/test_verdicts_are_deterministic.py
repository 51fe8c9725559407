"""Same proposal, facts, rules and time: the same bytes, in any process, for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.flows.models import Verdict
from runtime.proposals.queries import verdict_replay
from tests.support import end_to_end
from tests.support.end_to_end import Console

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
JUDGE_AGAIN = """
import sys
from runtime.kernel.gate import pipeline
judgement, rules = (bytes.fromhex(line) for line in sys.stdin.read().split())
sys.stdout.write(pipeline.judge_bytes(judgement, rules).hex())
"""


def test_another_process_with_other_hashes_gives_the_same_bytes(desk: Console) -> None:
    desk.propose(quantity=10)
    desk.propose(quantity=60)
    desk.propose(quantity=90, policy_kind=end_to_end.IN_STEPS)
    assert Verdict.objects.count() == 3
    for row in Verdict.objects.select_related("bundle"):
        sent = f"{bytes(row.input).hex()}\n{bytes(row.bundle.body).hex()}"
        for seed in ("1", "2"):
            done = subprocess.run(
                [sys.executable, "-c", JUDGE_AGAIN],
                cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, input=sent,
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert bytes.fromhex(done.stdout) == bytes(row.body)


def test_a_verdict_is_replayed_whatever_has_changed_since(desk: Console) -> None:
    verdict = desk.propose(quantity=60)
    desk.propose(quantity=10)
    desk.agent.post(f"/flows/{verdict['dfid']}/cancel", {"reason": "enough"}).ok()
    assert verdict_replay.replay() == verdict_replay.Equal(2)
