"""A whole run, the command, and what both say of tests and pages that must be there."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import LedgerEntry
from dir_console import handbook
from dir_console.conformance import catalogue, frameworks, readiness, run, sample
from dir_console.conformance.frameworks import Cover
from dir_console.conformance.items import Answer, Check, Finding, Group, counted, listed
from dir_console.conformance.sample import Sample
from runtime.flows.models import Flow
from tests.architecture import tree
from tests.support.conformance_items import answer_for_the_child, get
from tests.support.finished_history import History

WRITES = re.compile(r"^\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|TRUNCATE)\b", re.IGNORECASE)


def test_a_run_answers_every_item_and_writes_nothing(damaged: History) -> None:
    before = LedgerEntry.objects.count()
    with CaptureQueriesContext(connection) as captured:
        report = run.run(tenant="default").plain()
    assert [query["sql"] for query in captured if WRITES.match(query["sql"])] == []
    assert LedgerEntry.objects.count() == before
    assert [item["id"] for item in report["items"]] == [check.id for check in catalogue.CHECKS]
    assert report["answers"]["no"] == 0, [item for item in report["items"] if item["answer"] == "no"]
    assert sum(report["answers"].values()) == len(catalogue.CHECKS)
    for item in report["items"]:
        assert item["tried"].endswith("."), item
        assert item["seen"].endswith("."), item
        assert bool(item["why"]) == (item["answer"] != "yes"), item
    assert report["ready"] is False
    assert json.loads(json.dumps(report)) == report


def test_it_ends_soon(damaged: History) -> None:
    """On a small history; the bounds of each item keep it so on a large one."""
    assert run.run(tenant="default").seconds < 20


def test_six_yes_are_ready(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    yes = Finding(answer=Answer.YES, tried="Tried.", seen="Seen.")
    checks = [
        Check(id=check.id, group=check.group, paper="P", asks="A.", tries="T.", run=lambda _: yes)
        for check in catalogue.CHECKS
    ]
    monkeypatch.setattr(catalogue, "CHECKS", checks)
    assert run.run(tenant="default").plain()["ready"] is True


def test_a_check_that_fails_is_a_no_with_the_error(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Sample) -> Finding:
        raise RuntimeError("the disk\n  is full " + "x" * 1000)

    broken = Check(id="b", group=Group.DARE, paper="P", asks="A.", tries="Tries it.", run=fail)
    found = run.result_of(broken, Sample(tenant="default")).finding
    assert found.answer is Answer.NO
    assert found.tried == "Tries it."
    assert found.why.startswith("RuntimeError: the disk is full x")
    assert len(found.why) < 330


def test_the_sample_is_bounded(damaged: History) -> None:
    assert Sample(tenant="default", size=0).size == 1
    assert Sample(tenant="default", size=10_000).size == sample.MOST
    assert len(Sample(tenant="default", size=2).flows) == 2
    flows = Sample(tenant="default").flows
    assert list(flows) == sorted(flows, reverse=True)
    assert set(flows) == set(
        Flow.objects.filter(state__in=("CLOSED", "ABORTED")).values_list("pk", flat=True)
    )


def test_incidents_are_what_was_denied_escalated_or_failed(damaged: History) -> None:
    found = Sample(tenant="default").incidents
    assert damaged.aborted in found
    assert damaged.undone in found
    assert damaged.accepted not in found


def test_words_for_numbers_and_for_many_reasons() -> None:
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(2, "entry", "entries") == "2 entries"
    assert counted(0, "flow") == "0 flows"
    assert listed(["A.", "B."]) == "A. B."
    assert listed([f"{number}." for number in range(7)]) == "0. 1. 2. 3. 4. And 2 more."


# The catalogue


def test_items_have_ids_of_their_own_and_say_what_they_try() -> None:
    ids = [check.id for check in catalogue.CHECKS]
    assert len(ids) == len(set(ids))
    for check in catalogue.CHECKS:
        assert check.asks.endswith("."), check.id
        assert check.tries.endswith("."), check.id
    assert [check.id for check in catalogue.CHECKS if check.group is Group.DARE] == [
        f"dare-{number}" for number in range(1, 6)
    ]
    assert [check.id for check in readiness.CHECKS] == [f"readiness-{number}" for number in range(1, 7)]
    numbered = [check.id for check in catalogue.CHECKS if check.id.startswith("invariant-")]
    assert numbered == [f"invariant-{number}" for number in range(1, 9)]


def test_every_test_that_is_named_is_there() -> None:
    for name in (name for check in catalogue.CHECKS for name in check.tests):
        module, _, function = name.partition("::")
        path = tree.ROOT / module
        assert path.is_file(), name
        assert re.search(rf"^def {function}\(", path.read_text(encoding="utf-8"), re.MULTILINE), name


def test_every_item_but_one_is_shown_by_a_test_as_well() -> None:
    without = [check.id for check in catalogue.CHECKS if not check.tests]
    assert without == ["bypass-system"]


def test_frameworks_name_items_and_pages_that_are_there() -> None:
    ids = {check.id for check in catalogue.CHECKS}
    for framework in frameworks.FRAMEWORKS:
        refs = [each.ref for each in framework.requirements]
        assert len(refs) == len(set(refs))
        for each in framework.requirements:
            assert set(each.served_by) <= ids, each.ref
            assert set(each.pages) <= handbook.names(), each.ref
            assert each.asks.endswith("."), each.ref
            assert each.how.endswith("."), each.ref
            assert bool(each.served_by or each.pages) == (each.cover is not Cover.NOT_COVERED), each.ref


def test_the_four_functions_and_both_articles_are_there() -> None:
    nist = [each.ref.split()[0] for each in frameworks.NIST.requirements]
    assert {name: nist.count(name) for name in nist} == {"GOVERN": 6, "MAP": 5, "MEASURE": 4, "MANAGE": 4}
    articles = {each.ref.split(" (")[0] for each in frameworks.AI_ACT.requirements}
    assert articles == {"Art. 12", "Art. 14"}
    covers = {each.cover for framework in frameworks.FRAMEWORKS for each in framework.requirements}
    assert covers == set(Cover)


# The command


def say(*options: Any) -> str:
    printed = StringIO()
    call_command("conformance", *options, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def test_the_command_prints_each_item_and_both_tables(damaged: History) -> None:
    text = say("--sample", "2")
    for check in catalogue.CHECKS:
        assert f" {check.id} " in text
    assert "GOVERN 1" in text
    assert "Art. 14 (4) (e)" in text
    assert "network policy" in text
    assert "by ContextOS's checklist not ready" in text


def test_the_command_prints_json(damaged: History) -> None:
    report = json.loads(say("--json"))
    assert report["flows"] == sample.SIZE
    assert len(report["frameworks"]) == 2
    assert {"id", "source", "answer", "tried", "seen", "why", "seconds", "tests", "group"} == set(
        report["items"][0]
    )


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_no_is_exit_code_1(
    damaged: History, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    answer_for_the_child(monkeypatch, judge={"is_equal": False, "events": []})
    with pytest.raises(CommandError, match=r"Not conformant: invariant-1|Not conformant: dare-2") as caught:
        say(*options)
    assert caught.value.returncode == 1


@pytest.mark.parametrize("size", ["0", "201"])
def test_a_sample_out_of_bounds_is_refused(size: str) -> None:
    with pytest.raises(CommandError, match="from 1 to 200") as caught:
        say("--sample", size)
    assert caught.value.returncode == 2


def test_the_item_of_an_id_is_found() -> None:
    assert get("dare-1").group is Group.DARE
