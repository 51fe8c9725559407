"""Flows as an earlier version recorded them: each verdict comes out again, and is what its entry names."""

import json
from pathlib import Path
from typing import Any

import pytest

from audit import canonical
from runtime.kernel.gate import pipeline

FOLDER = Path(__file__).parent / "flows"


@pytest.mark.parametrize("name", ["accepted-and-undone", "escalated-and-overridden"])
def test_a_recorded_flow_replays_equal(name: str) -> None:
    verdicts: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert verdicts
    for kept in verdicts:
        given, rules, body = (kept[part].encode() for part in ("input", "rules", "verdict"))
        assert kept["entry"] == {
            "input_digest": canonical.digest(given),
            "policy_bundle_hash": canonical.digest(rules),
            "verdict_digest": canonical.digest(body),
            "verdict": canonical.decode(body)["decision"],
        }
        assert pipeline.judge_bytes(given, rules) == body


def test_a_person_decided_in_one_of_them() -> None:
    verdicts = json.loads((FOLDER / "escalated-and-overridden.json").read_text(encoding="utf-8"))
    assert [kept["entry"]["verdict"] for kept in verdicts] == ["ESCALATE", "ACCEPT"]
    assert [canonical.decode(kept["input"].encode())["proposal"]["by_person"] for kept in verdicts] == [
        False,
        True,
    ]
