"""Retention: what is erased when its time is over, what is kept all the same, and rounds that go on."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit.models import LedgerEntry
from audit.verification import findings
from runtime.contracts.incident import LinkKind, Severity
from runtime.contracts.problem import Problem
from runtime.contracts.retention import WORDS, KeptBecause
from runtime.core import clock
from runtime.epochs.services import epochs
from runtime.flows.models import Flow
from runtime.incidents.services.incidents import Wanted
from runtime.maintenance.models import RetentionRound
from runtime.maintenance.queries import retention as due
from runtime.maintenance.services import erasure, retention, scoring
from runtime.registry.models import PolicyKind
from tests.support import (
    erased_story,
    factories,
    hold_story,
    incident_story,
    query_plans,
    retention_story,
    trading_desk,
)
from tests.support.retention_story import DAYS, cancel, cancelled
from tests.support.trading_desk import Desk

TENANT = "default"
Opened = Callable[..., Desk]
pytestmark = pytest.mark.django_db


@pytest.fixture
def open_desk(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens a desk whose kind says something more."""
    with ExitStack() as stack:
        yield lambda **said: stack.enter_context(retention_story.opened(monkeypatch, **said))


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("retention", *arguments, stdout=out)
    return out.getvalue()


def test_words_go_when_their_days_are_over_and_not_before(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = retention_story.run(open_desk())
    retention_story.later(monkeypatch, days=DAYS - 1)
    assert run().startswith("erased: 0\n")
    retention_story.later(monkeypatch)
    assert f"would erase {dfid}" in run("--dry-run")
    assert Flow.objects.get(pk=dfid).erased_at is None
    assert f"erased {dfid}" in run()
    entry = LedgerEntry.objects.get(kind="flow:erased")
    assert (entry.actor, entry.stream) == ("system", str(dfid))
    assert entry.payload["reason"] == f"Retention: BUY 1.0.0 keeps words for {DAYS} days after the end"
    assert run().startswith("erased: 0\n")
    assert findings.verify_all().findings == []


def test_the_setting_says_it_where_the_kind_does_not(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    desk = open_desk()
    bare = cancel(desk, desk.open())
    scoring.score_due()
    settings.DIR_RETENTION_DAYS = 400
    retention_story.later(monkeypatch, days=399)
    assert run().startswith("erased: 0\n")
    retention_story.later(monkeypatch, days=401)
    assert f"erased {bare}: Retention: DIR_RETENTION_DAYS keeps words for 400 days" in run()


def test_without_a_time_nothing_is_ever_due(
    story: erased_story.Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention_story.later(monkeypatch, days=40_000)
    assert run().startswith("erased: 0\nwithout words: 0")
    assert due.list_classes(tenant=TENANT) == []


@pytest.fixture
def story(db: None) -> erased_story.Story:
    return erased_story.told()


def test_what_was_escalated_is_kept(
    story: erased_story.Story, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.DIR_RETENTION_DAYS = DAYS
    scoring.score_due()
    retention_story.later(monkeypatch)
    assert f"kept {story.dfid}: {WORDS[KeptBecause.ESCALATED]}" in run()
    assert Flow.objects.get().erased_at is None


def destructive(open_desk: Opened) -> UUID:
    return retention_story.run(open_desk(kind=""))


def denied(open_desk: Opened) -> UUID:
    desk = open_desk()
    verdict = trading_desk.propose(desk, quantity="two")  # type: ignore[arg-type]
    assert verdict["verdict"] == "REJECT", verdict
    cancel(desk, UUID(verdict["dfid"]))
    scoring.score_due()
    return UUID(verdict["dfid"])


def failed(open_desk: Opened) -> UUID:
    said = 'reversible: true\n    scorecard: {minimum: {utility: "1"}}'
    return retention_story.run(open_desk(kind=said, is_refused=True))


def not_scored(open_desk: Opened) -> UUID:
    desk = open_desk()
    return cancel(desk, trading_desk.flow_of(desk.accept()).dfid)


def held(open_desk: Opened) -> UUID:
    dfid = cancelled(open_desk())
    hold_story.place(dfid)
    return dfid


def in_incident(open_desk: Opened) -> UUID:
    """Of an incident that is closed: an admin could still erase it."""
    dfid = cancelled(open_desk())
    lead = factories.user("lead").pk
    links = [Wanted(LinkKind.FLOW, str(dfid))]
    incident = incident_story.open_by(lead, links=links, severity=Severity.SEV4)
    assert not isinstance(incident_story.close(incident, lead), Problem)
    return dfid


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (destructive, KeptBecause.DESTRUCTIVE),
        (denied, KeptBecause.DENIED),
        (failed, KeptBecause.FAILED_SCORECARD),
        (not_scored, KeptBecause.NOT_SCORED),
        (held, KeptBecause.HOLD),
        (in_incident, KeptBecause.INCIDENT),
    ],
)
def test_what_is_kept_and_why(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch, told: Callable[[Opened], UUID], why: KeptBecause
) -> None:
    dfid = told(open_desk)
    retention_story.later(monkeypatch)
    lines = [json.loads(line) for line in run("--json", "--dry-run").splitlines()]
    assert lines[0]["kept"] == why.value
    assert lines[0]["why"] == WORDS[why]
    assert lines[-1] == {
        "would_erase": 0,
        "kept": {why.value: 1},
        "without_words": 0,
        "failed": 0,
        "would_delete_versions": 0,
    }
    assert f"kept: 1. {WORDS[why]}" in run()
    assert Flow.objects.get(pk=dfid).erased_at is None


def test_what_may_go_goes_where_nothing_ran(open_desk: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kind that cannot be undone too: nothing was done."""
    dfid = cancelled(open_desk(kind=""))
    retention_story.later(monkeypatch)
    retention.erase_due(tenant=TENANT)
    assert retention_story.list_erased() == [dfid]


def test_a_call_that_may_still_come_keeps_the_flow(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = cancelled(open_desk())
    retention_story.later(monkeypatch)
    monkeypatch.setattr(erasure, "why_kept", lambda flow: "A call of the flow is in doubt.")
    for arguments in (["--dry-run"], []):
        said = run(*arguments)
        assert f"kept {dfid}: A call of the flow is in doubt." in said
        assert WORDS[KeptBecause.UNSETTLED] in said


def test_what_comes_between_the_look_and_the_lock_counts(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = held(open_desk)
    retention_story.later(monkeypatch)
    whole = due.why_kept
    answers: list[Any] = [{}]
    monkeypatch.setattr(
        due, "why_kept", lambda *given, **named: answers.pop() if answers else whole(*given, **named)
    )
    totals = retention.erase_due(tenant=TENANT)
    assert totals.kept == {KeptBecause.UNSETTLED: 1}
    assert Flow.objects.get(pk=dfid).erased_at is None


def test_a_kind_that_is_changed_meanwhile_erases_nothing_by_its_old_time(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    dfid = cancelled(open_desk())
    retention_story.later(monkeypatch)
    whole, asked = due.list_classes, []

    def list_classes(*, tenant: str) -> Any:
        asked.append(tenant)
        return whole(tenant=tenant) if len(asked) == 1 else []

    monkeypatch.setattr(due, "list_classes", list_classes)
    assert "Its policy kind has another time now." in run()
    assert Flow.objects.get(pk=dfid).erased_at is None


def test_a_kind_that_was_changed_in_the_database_erases_nothing(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled(open_desk())
    row = PolicyKind.objects.get()
    PolicyKind.objects.update(body=bytes(row.body).replace(b'"retention_days":30', b'"retention_days":1'))
    retention_story.later(monkeypatch)
    assert due.list_classes(tenant=TENANT) == []
    assert run().startswith("erased: 0\n")


def test_a_round_goes_on_where_it_stopped_and_rests_at_its_end(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    told = [cancelled(desk) for _ in range(3)]
    hold_story.place(told[0])
    retention_story.later(monkeypatch)
    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr(retention, "MOST_BATCHES", 1)
    seen = [retention.erase_due(tenant=TENANT) for _ in range(5)]
    assert [totals.erased for totals in seen] == [0, 1, 1, 0, 0]
    assert seen[0].kept == {KeptBecause.HOLD: 1}
    assert retention_story.list_erased() == told[1:]
    stored = RetentionRound.objects.get()
    assert (stored.kind, stored.dfid) == ("", None)
    assert stored.next_at - clock.now() > timedelta(days=DAYS + 1)
    # What was kept is looked at again in the next round.
    retention_story.later(monkeypatch, days=DAYS + 3)
    assert retention.erase_due(tenant=TENANT).kept == {KeptBecause.HOLD: 1}
    assert findings.verify_all().findings == []


def test_one_that_cannot_be_erased_does_not_stop_the_others(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    bad, good = cancelled(desk), cancelled(desk)
    retention_story.later(monkeypatch)
    whole = erasure.erase

    def erase(**given: Any) -> Any:
        if given["dfids"] == [bad]:
            raise RuntimeError("a row that cannot be written")
        return whole(**given)

    monkeypatch.setattr(erasure, "erase", erase)
    assert retention.erase_due(tenant=TENANT).failed == 1
    assert retention_story.list_erased() == [good]
    with pytest.raises(CommandError, match="1 could not be erased"):
        run()


def test_a_worker_that_stops_leaves_the_place_where_it_was(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    told = [cancelled(desk) for _ in range(2)]
    retention_story.later(monkeypatch)
    answers = iter([False, False, True, True, True])
    retention.erase_due(tenant=TENANT, is_stopping=lambda: next(answers))
    assert retention_story.list_erased() == told[:1]
    retention.erase_due(tenant=TENANT)
    assert retention_story.list_erased() == told


def test_nothing_is_erased_while_a_restored_backup_waits(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled(open_desk())
    retention_story.later(monkeypatch)
    monkeypatch.setattr(epochs, "refuse_while_recovering", lambda: epochs.WAITING)
    assert retention.erase_due(tenant=TENANT).erased == 0
    with pytest.raises(CommandError, match="Nothing was erased"):
        run()


def test_what_is_due_is_found_by_an_index(open_desk: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled(open_desk())
    (of,) = due.list_classes(tenant=TENANT)
    at = clock.now()
    after = (at - timedelta(days=DAYS + 1), UUID(int=1))
    with CaptureQueriesContext(connection) as captured:
        due.list_due(of, tenant=TENANT, at=at, after=after, limit=50)
        due.count_due(of, tenant=TENANT, at=at)
    assert len(captured) == 2
    for query in captured:
        plan = query_plans.plan_of(query["sql"], "flow_with_words")
        assert "flow_with_words" in plan, plan
        assert "TEMP B-TREE" not in plan, plan


def test_a_worker_that_dies_within_a_batch_has_erased_whole_flows_and_the_next_goes_on(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    told = [cancelled(desk) for _ in range(3)]
    retention_story.later(monkeypatch)
    whole = erasure._erase

    def dies(flow: Flow, *given: Any, **named: Any) -> None:
        whole(flow, *given, **named)
        if flow.pk == told[1]:
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_erase", dies)
        with pytest.raises(SystemExit):
            retention.erase_due(tenant=TENANT)
    assert retention_story.list_erased() == told[:1]
    assert RetentionRound.objects.get().dfid is None
    retention.erase_due(tenant=TENANT)
    assert retention_story.list_erased() == told
    assert findings.verify_all().findings == []
