"""A restored backup runs nothing again: it waits for an admin, and a new epoch begins."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session as BrowserSession
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client

from audit import canonical, signing
from audit.access.roles import Role
from audit.models import LedgerEntry, Payload
from audit.verification.verify import Whole, verify_database
from runtime.contracts.problem import Problem
from runtime.contracts.states import FlowState, IntentState
from runtime.core import clock, transactions
from runtime.epochs.models import Epoch
from runtime.epochs.queries import current_epoch
from runtime.epochs.services import epochs, marks
from runtime.execution.services import claiming
from runtime.flows.models import Attempt, Flow
from runtime.flows.queries import due_intents
from runtime.flows.services import flows
from runtime.maintenance.services import restores, sweeper
from runtime.registry.models import Session
from runtime.registry.services import credentials
from tests.support import demo_scenes, restored_backup, trading_desk
from tests.support.logged import levels_of
from tests.support.restored_backup import begin_next, restore

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return restored_backup.keep_mark(tmp_path, monkeypatch)


def test_the_mark_follows_the_ledger(place: Path) -> None:
    trading_desk.open_desk()
    assert not epochs.compare_with_mark()
    first = marks.read()
    assert first is not None
    assert first == marks.of_database()
    assert place.stat().st_mode & 0o077 == 0
    trading_desk.write_fact("price.ABC", 101)
    assert not epochs.compare_with_mark()
    assert marks.read() == marks.of_database() != first
    assert list(place.parent.glob("mark.*")) == []


def test_what_was_accepted_in_a_backup_is_in_doubt_and_runs_nowhere(place: Path) -> None:
    desk = trading_desk.open_desk()
    waiting = [desk.accept(window_s=3600) for _ in range(10)]
    restore(place)
    claimed = transactions.retry_on_conflict(lambda: claiming.claim(waiting[0], owner="a-worker"))
    assert claimed == claiming.ClaimRefused(status="HELD", detail="RECOVERY"), "before any sweeper came by"
    assert sweeper.sweep().failed == 0
    assert current_epoch.is_recovering()
    assert {trading_desk.states(pk) for pk in waiting} == {(IntentState.IN_DOUBT, FlowState.ESCALATED)}
    assert due_intents.list_due(at=clock.now(), limit=100) == []
    assert Attempt.objects.filter(sent_at__isnull=False).count() == 0
    sweeper.sweep()
    assert Attempt.objects.count() == 10
    assert isinstance(verify_database(), Whole)


def test_nothing_new_is_taken_meanwhile(place: Path) -> None:
    desk = trading_desk.open_desk()
    dfid = desk.open()
    restore(place)
    for sweep in (lambda: None, sweeper.sweep):
        sweep()
        opened = flows.open_flow(agent=desk.agent, trigger={"why": "trial"})
        assert isinstance(opened, Problem)
        assert (opened.status, opened.code, opened.retriable) == (503, "RECOVERY", True)
        assert epochs.refuse_proposal(Flow.objects.get(pk=dfid)) == epochs.WAITING
        issued = credentials.issue_agent_key(
            tenant=trading_desk.TENANT, agent_id=trading_desk.AGENT, actor="system"
        )
        fed = credentials.issue_feed_key(
            tenant=trading_desk.TENANT, feed="f", prefix="price.", actor="system"
        )
        audited = credentials.issue_auditor_key(tenant=trading_desk.TENANT, auditor="a", actor="system")
        for refused in (issued, fed, audited):
            assert isinstance(refused, Problem)
            assert refused.code == "RECOVERY"


def test_people_may_only_abort_meanwhile(place: Path) -> None:
    demo_scenes.load_pack()
    session = demo_scenes.session_of("ambitious-trader")
    asked = demo_scenes.propose(session, "ADJUST_POSITION", demo_scenes.order("BUY", 40, "NVDA", 485600))
    demo_scenes.add_user("olga", Role.OPERATOR, password=demo_scenes.PASSWORD)
    browser = Client()
    browser.post("/accounts/login/", {"login": "olga", "password": demo_scenes.PASSWORD})
    restore(place)
    sweeper.sweep()
    page = browser.get(f"/escalations/{asked['escalation_id']}/").content.decode()
    assert "A backup was restored." in page


def test_an_admin_leaves_it_by_a_signed_act(place: Path) -> None:
    desk = trading_desk.open_desk()
    old = desk.open()
    waiting = desk.accept(window_s=3600)
    restore(place)
    missing = json.loads(place.read_text())
    sweeper.sweep()
    browser = Client()
    browser.force_login(demo_scenes.add_user("ada", Role.ADMIN, password=demo_scenes.PASSWORD))
    begun = begin_next()
    assert (begun.number, current_epoch.is_recovering()) == (2, False)
    assert Session.objects.filter(expires_at__gt=clock.now()).count() == 0
    assert BrowserSession.objects.count() == 0
    entry = LedgerEntry.objects.get(kind="epoch:begun")
    payload = canonical.decode(bytes(entry.body))["payload"]
    statement = bytes(Payload.objects.get(commitment=payload["statement_commitment"]).body or b"")
    assert payload["statement_digest"] == canonical.digest(statement)
    said: dict[str, Any] = canonical.decode(statement)
    assert said["missing"] == missing
    assert said["intents_in_doubt"] == [str(waiting)]
    assert signing.verify(statement, bytes.fromhex(payload["signature"]), payload["key_id"])
    refused = epochs.refuse_proposal(Flow.objects.get(pk=old))
    assert refused is not None
    assert (refused.status, refused.code) == (409, "EPOCH_ENDED")
    again = trading_desk.open_desk()
    assert epochs.refuse_proposal(Flow.objects.get(pk=again.open())) is None
    sweeper.sweep()
    assert trading_desk.states(waiting)[0] is IntentState.IN_DOUBT
    assert not epochs.compare_with_mark()
    assert marks.read() == marks.of_database()


def test_a_sweep_between_the_act_and_the_new_mark_brings_nothing_back(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trading_desk.open_desk()
    restore(place)
    sweeper.sweep()
    older, write = [], marks.write

    def write_late(mark: marks.Mark) -> None:
        monkeypatch.setattr(marks, "_looked_at_s", float("-inf"))
        monkeypatch.setattr(marks, "write", write)
        older.append((marks.is_older(), epochs.compare_with_mark()))
        write(mark)

    monkeypatch.setattr(marks, "write", write_late)
    begin_next()
    assert older == [(False, False)]
    assert not current_epoch.is_recovering()
    assert marks.read() == marks.of_database()


def test_a_mark_that_nobody_can_replace_brings_nothing_back(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = trading_desk.open_desk()
    restore(place)
    sweeper.sweep()
    monkeypatch.setattr(marks, "write", lambda mark: None)
    begin_next()
    assert not epochs.compare_with_mark()
    assert not isinstance(flows.open_flow(agent=desk.agent, trigger={"why": "trial"}), Problem)
    assert sweeper.sweep().failed == 0
    assert not current_epoch.is_recovering()


def test_a_backup_that_is_restored_twice_begins_two_epochs(place: Path) -> None:
    trading_desk.open_desk()
    restore(place)
    sweeper.sweep()
    point = transaction.savepoint()
    assert begin_next().number == 2
    assert not epochs.compare_with_mark()
    transaction.savepoint_rollback(point)
    Epoch.objects.update(restored_at=None, missing=b"")
    marks._looked_at_s = float("-inf")
    assert epochs.compare_with_mark()
    sweeper.sweep()
    assert begin_next().number == 3


def test_two_who_write_the_mark_at_once_leave_a_whole_one(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trading_desk.open_desk()
    mark, replace = marks.of_database(), Path.replace
    assert mark is not None

    def replace_late(draft: Path, to: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        marks.write(mark)
        return replace(draft, to)

    monkeypatch.setattr(Path, "replace", replace_late)
    marks.write(mark)
    assert marks.read() == mark
    assert levels_of(caplog, marks) == []
    assert list(place.parent.glob("mark.*")) == []


def test_nobody_leaves_what_was_not_entered(place: Path) -> None:
    refused = restores.begin_next(tenant=trading_desk.TENANT, actor="user:1", reason="why not")
    assert isinstance(refused, Problem)
    assert refused.code == "NO_RECOVERY"
    with pytest.raises(CommandError, match="not in recovery"):
        call_command("leave_recovery")


def test_nobody_leaves_before_all_that_is_live_is_in_doubt(place: Path) -> None:
    trading_desk.open_desk().accept(window_s=3600)
    restore(place)
    assert epochs.compare_with_mark()
    refused = restores.begin_next(tenant=trading_desk.TENANT, actor="user:1", reason="too early")
    assert isinstance(refused, Problem)
    assert refused.code == "RECOVERY_UNDER_WAY"


def test_a_new_database_beside_an_old_mark_begins_anew(place: Path) -> None:
    place.write_text("{}")
    assert not epochs.compare_with_mark()
    assert not place.exists()
    assert place.with_name("mark.before").read_text() == "{}"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"database_id": 1}', "\x00", "EPOCH"])
def test_a_mark_that_cannot_be_read_is_held_by_no_database(place: Path, content: str) -> None:
    trading_desk.open_desk()
    assert not epochs.compare_with_mark()
    of_no_epoch = json.dumps({**json.loads(place.read_text()), "epoch": 2**31})
    place.write_text(content.replace("EPOCH", of_no_epoch))
    assert epochs.compare_with_mark()
    sweeper.sweep()
    assert begin_next().number == 2


def test_a_place_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settings, "DIR_MARK", str(tmp_path / "nowhere" / "mark"))
    trading_desk.open_desk()
    for _ in range(2):
        assert not epochs.compare_with_mark()
    assert caplog.text.count("a restored backup would not be noticed") == 1


def test_the_command_tells_and_asks_for_an_admin(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trading_desk.open_desk()
    demo_scenes.add_user("ada", Role.ADMIN, password=demo_scenes.PASSWORD)
    demo_scenes.add_user("olga", Role.OPERATOR, password=demo_scenes.PASSWORD)
    restore(place)
    sweeper.sweep()
    said = StringIO()
    call_command("leave_recovery", stderr=said)
    assert f"entry {json.loads(place.read_text())['entry_id']}" in said.getvalue()
    assert current_epoch.is_recovering()
    for name, password in (("olga", demo_scenes.PASSWORD), ("ada", "wrong"), ("nobody", "wrong")):
        monkeypatch.setattr("sys.stdin", StringIO(f"{password}\n"))
        with pytest.raises(CommandError, match="No active admin"):
            call_command("leave_recovery", name, "--reason", "drill", "--password-stdin", stderr=said)
    with pytest.raises(CommandError, match="--reason"):
        call_command("leave_recovery", "ada", stderr=said)
    monkeypatch.setattr("sys.stdin", StringIO(f"{demo_scenes.PASSWORD}\n"))
    call_command("leave_recovery", "ada", "--reason", "drill", "--password-stdin", stderr=said)
    assert "Epoch 2 has started" in said.getvalue()
    assert not current_epoch.is_recovering()
