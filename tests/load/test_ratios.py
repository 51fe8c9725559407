"""The ratios of the bench: kept, shown, and compared with those that were kept before."""

import json
from pathlib import Path

import pytest

from bench import ledger, ledger_growth, ratios

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


def test_one_of_what_must_be_none_is_a_loss() -> None:
    assert ratios.losses({"missed": 0.0}, {"missed": 0.0}) == []
    assert ratios.losses({"missed": 2.0}, {"missed": 0.0}) == ["missed: 2, in place of the 0 that are kept"]


def test_the_ledger_gives_ratios_that_can_be_kept() -> None:
    """Of each figure that the report shows: verification in one process and two, appending, sealing."""
    found = {
        "missed": 0,
        "p99": 1500.0,
        "cpu_ms": {"SHA-256 over the same bytes": 2.0, "chains": 80.0, "everything": 600.0},
        "wall_ms": {
            "SHA-256, one process": 2.0,
            "SHA-256, two processes": 20.0,
            "verify_ledger, one process": 700.0,
            "verify_ledger, two processes": 400.0,
        },
        "append": {"share": 0.07},
    }
    assert ledger.ratios_of("SQLite", found) == {
        "SQLite: CPU of chains / of SHA-256 over the same": 40.0,
        "SQLite: CPU of everything / of SHA-256 over the same": 300.0,
        "SQLite: time of verify_ledger / of SHA-256 over the same, one process": 350.0,
        "SQLite: time of verify_ledger / of SHA-256 over the same, two processes": 20.0,
        "SQLite: entry to checkpoint under load, p99 / the interval of the sealer": 1.5,
        "SQLite: entries under load that no checkpoint covers": 0.0,
        "SQLite: CPU of the appends of an intake / of the whole intake": 0.07,
    }


def test_a_grown_ledger_gives_ratios_that_can_be_kept() -> None:
    before = {ledger_growth.TIMELINE: 2.0, "one": 1.0, "two": 1.0, "three": 2.0}
    after = {ledger_growth.TIMELINE: 3.0, "one": 1.0, "two": 7.0, "three": 4.0}
    small = {"entries": 999, "p95_ms": before, "action_ms": 10.0}
    large = {"entries": 10_000, "p95_ms": after, "action_ms": 11.0}
    sizes = "with 10,000 entries / with 999"
    assert ledger_growth.ratios_of("SQLite", small, large) == {
        f"SQLite: p95 of the timeline of a flow, {sizes}": 1.5,
        f"SQLite: p95 of searches, the median, {sizes}": 2.0,
        f"SQLite: p95 of searches, the one that grows most, {sizes}": 7.0,
        f"SQLite: p50 of an action, {sizes}": 1.1,
    }


def test_the_committed_report_shows_the_committed_ratios() -> None:
    assert ratios.table(json.loads(ratios.KEPT.read_text())) in ratios.REPORT.read_text()
