"""The ratios of the bench: kept, shown, and compared with those that were kept before."""

import json
from pathlib import Path

import pytest

from bench import ratios

pytestmark = pytest.mark.once


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ratios, "KEPT", tmp_path / "ratios.json")
    monkeypatch.setattr(ratios, "REPORT", tmp_path / "performance.md")
    ratios.REPORT.write_text(f"before\n{ratios.BEGINS}\nold\n{ratios.ENDS}\nafter\n")
    return ratios.REPORT


def test_what_is_kept_is_in_the_file_and_in_the_report(report: Path) -> None:
    ratios.keep({"b": 2.34567, "a": 14_076.0})
    ratios.keep({"b": 3.0})
    assert ratios.kept() == {"a": 14_080.0, "b": 3.0}
    told = report.read_text()
    assert told.startswith("before\n")
    assert told.endswith("\nafter\n")
    assert "| a | 14,080 |" in told
    assert "old" not in told


def test_fifteen_percent_more_is_a_loss_and_less_is_none() -> None:
    before = {"calls": 100.0, "time": 2.0, "gone": 1.0}
    assert ratios.losses({"calls": 114.0, "time": 1.0, "new": 9.0}, before) == []
    assert ratios.losses({"calls": 116.0}, before) == ["calls: 116, 16% above the 100 that are kept"]


def test_the_committed_report_shows_the_committed_ratios() -> None:
    assert ratios.table(json.loads(ratios.KEPT.read_text())) in ratios.REPORT.read_text()
