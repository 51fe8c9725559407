"""verify_ledger in several processes finds what one process finds, in the same order, in one state."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from audit.models import LedgerEntry
from audit.verification import entry_walk, findings, shared_walk
from audit.verification.shared_walk import ProcessFailedError
from runtime.flows.models import Flow
from tests.support import factories, finished_history, racing, tamper_cases

# Of the ends of streams, of entries, of rows of a flow and of rows of no flow.
CASES = (
    "entry: body",
    "entry: one in the middle gone",
    "head of a stream: edited",
    "intent.state",
    "payload: content",
    "fact.value",
)


@pytest.fixture
def desk(real_db: str) -> factories.Desk:
    desk = factories.desk()
    for _ in range(3):
        desk.propose(desk.open(), params={})
    return desk


def found(processes: int) -> dict[str, Any]:
    return asdict(findings.verify_all(processes=processes))


def test_all_is_found_that_one_process_finds_and_in_its_order(real_db: str) -> None:
    with finished_history.opened() as history:
        whole = found(1)
        assert whole["findings"] == []
        assert found(3) == whole
        for name in CASES:
            tamper_cases.CASES[name](history)
        one = found(1)
        assert len(one["findings"]) >= len(CASES)
        for processes in (2, 3):
            assert found(processes) == one


def test_the_bound_cuts_the_same(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    Flow.objects.update(reason="DEADLINE_PASSED")
    monkeypatch.setattr(findings, "MOST_FINDINGS", 2)
    one = found(1)
    assert (len(one["findings"]), one["more"]) == (2, 1)
    assert found(2) == one


def test_more_processes_than_streams_change_nothing(desk: factories.Desk) -> None:
    assert found(16) == found(1)


def test_what_is_written_meanwhile_is_no_finding(
    desk: factories.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = shared_walk._put_together, LedgerEntry.objects.count()

    def write_and_go_on(*given: Any) -> Any:
        racing.race(1, lambda _: desk.propose(desk.open(), params={}))
        return real(*given)

    monkeypatch.setattr(shared_walk, "_put_together", write_and_go_on)
    result = found(2)
    assert (result["findings"], result["entries"]) == ([], before)
    assert LedgerEntry.objects.count() > before


def test_a_process_that_dies_is_no_result(desk: factories.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(span: entry_walk.Span) -> Iterator[Any]:
        os._exit(9)

    with monkeypatch.context() as patch:
        patch.setattr(entry_walk, "rows", die)
        with pytest.raises(ProcessFailedError):
            found(2)

    def fail(span: entry_walk.Span) -> Iterator[Any]:
        raise RuntimeError("no more memory")

    monkeypatch.setattr(entry_walk, "rows", fail)
    with pytest.raises(ProcessFailedError, match="RuntimeError: no more memory"):
        found(2)


def test_the_command_takes_the_number(desk: factories.Desk) -> None:
    printed = StringIO()
    call_command("verify_ledger", "--processes", "2", "--json", stdout=printed, stderr=StringIO())
    assert json.loads(printed.getvalue())["whole"] is True
    for wrong in ("0", "65"):
        with pytest.raises(CommandError, match="takes a number from 1 to 64"):
            call_command("verify_ledger", "--processes", wrong)


@pytest.mark.django_db
def test_inside_a_transaction_it_is_refused() -> None:
    with pytest.raises(ValueError, match="not committed"):
        findings.verify_all(processes=2)
