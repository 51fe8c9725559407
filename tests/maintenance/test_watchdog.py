"""Whom the watchdog watches, from when it counts, and how much it looks at in one round."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from escalations.models import Escalation
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.flows.models import Flow
from runtime.maintenance.models import WatchRound
from runtime.maintenance.queries import silent_agents
from runtime.maintenance.services import sweeper, watchdog
from runtime.registry.models import Agent, Manifest
from runtime.registry.services import agents, credentials
from runtime.stops.services import stops
from tests.support import factories, fallen_silent

pytestmark = pytest.mark.django_db
OFFICE = {
    "days": ["MON", "TUE", "WED", "THU", "FRI"],
    "opens": "09:00",
    "closes": "17:00",
    "zone": "Europe/Berlin",
}


@pytest.fixture(autouse=True)
def _from_the_first_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_after_pk", 0)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin"))


def silences_at(now: datetime, monkeypatch: pytest.MonkeyPatch) -> int:
    """What a sweep finds at `now`, with somebody listening all the while."""
    fallen_silent.listen(at=now)
    monkeypatch.setattr(clock, "now", lambda: now)
    return sweeper.sweep().silences


@pytest.mark.parametrize("status", [AgentStatus.PASSIVE, AgentStatus.LOCKED])
def test_who_may_only_read_is_watched_too(status: AgentStatus) -> None:
    desk = fallen_silent.desk()
    Agent.objects.update(status=status)
    fallen_silent.hush(desk)
    assert sweeper.sweep().silences == 1


@pytest.mark.parametrize("status", [AgentStatus.SUSPENDED, AgentStatus.RETIRED])
def test_who_is_not_expected_to_work_is_not_watched(status: AgentStatus) -> None:
    desk = fallen_silent.desk()
    Agent.objects.update(status=status)
    fallen_silent.hush(desk)
    assert sweeper.sweep().silences == 0


def test_a_stopped_agent_is_not_watched() -> None:
    desk = fallen_silent.desk()
    stops.stop_agent(tenant="default", agent_id="monitor", actor="user:1", reason="A look.")
    fallen_silent.hush(desk)
    assert sweeper.sweep().silences == 0


def test_an_agent_without_a_manifest_in_force_is_not_watched() -> None:
    desk = fallen_silent.desk()
    Agent.objects.update(active_manifest=None)
    fallen_silent.hush(desk)
    assert not silent_agents.is_watched(desk.again())
    assert sweeper.sweep().silences == 0


def test_an_agent_without_a_bound_is_not_watched() -> None:
    fallen_silent.hush(fallen_silent.desk(silent_after_s=None))
    assert sweeper.sweep().silences == 0


def test_a_weekend_outside_its_hours_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = fallen_silent.desk(hours=OFFICE)
    Agent.objects.update(created_at=berlin("2030-01-01T00:00"))
    Manifest.objects.update(activated_at=berlin("2030-01-01T00:00"))
    fallen_silent.see(desk, at=berlin("2030-03-08T16:55"))
    assert silences_at(berlin("2030-03-10T12:00"), monkeypatch) == 0
    assert silences_at(berlin("2030-03-11T09:05"), monkeypatch) == 0
    assert silences_at(berlin("2030-03-11T09:07"), monkeypatch) == 1
    assert "for 12 min of its hours" in Escalation.objects.get().effect


@pytest.mark.parametrize("since", ["activation", "registration", "status", "resume"])
def test_silence_counts_from_the_latest_of_what_was_done(since: str) -> None:
    desk = fallen_silent.desk()
    fallen_silent.see(desk, at=clock.now() - timedelta(days=2))
    if since == "activation":
        Manifest.objects.update(activated_at=clock.now())
    elif since == "registration":
        Agent.objects.update(created_at=clock.now())
    elif since == "status":
        for status in (AgentStatus.SUSPENDED, AgentStatus.ACTIVE):
            agents.set_status(tenant="default", agent_id="monitor", status=status, reason="", actor="user:1")
    else:
        stops.stop_agent(tenant="default", agent_id="monitor", actor="user:1", reason="")
        stops.resume_agent(tenant="default", agent_id="monitor", actor="user:1")
    assert sweeper.sweep().silences == 0


def test_the_time_in_which_nobody_listened_is_nobodys_silence() -> None:
    desk = fallen_silent.desk()
    fallen_silent.hush(desk, for_s=3600)
    down_since = clock.now() - timedelta(minutes=10)
    fallen_silent.listen(at=down_since)
    assert sweeper.sweep().silences == 0
    assert WatchRound.objects.get().unbroken_since > down_since


def test_the_first_round_of_all_finds_nobody_silent() -> None:
    fallen_silent.hush(fallen_silent.desk())
    WatchRound.objects.all().delete()
    assert sweeper.sweep().silences == 0
    assert WatchRound.objects.count() == 1


def test_rounds_are_written_seldom_and_a_clock_set_back_begins_anew() -> None:
    at = clock.now()
    fallen_silent.listen(at=at, since=at - timedelta(hours=1))
    kept = at - timedelta(hours=1)
    assert watchdog.keep_round(at=at + timedelta(seconds=2)) == kept
    assert WatchRound.objects.get().last_at == at
    assert watchdog.keep_round(at=at + timedelta(seconds=8)) == kept
    assert WatchRound.objects.get().last_at == at + timedelta(seconds=8)
    assert watchdog.keep_round(at=at - timedelta(minutes=5)) == kept
    back = at - timedelta(hours=2)
    assert watchdog.keep_round(at=back) == back


def test_a_clock_set_back_calls_nobody_and_withdraws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = fallen_silent.desk()
    fallen_silent.called(desk)
    assert silences_at(clock.now() - timedelta(hours=6), monkeypatch) == 0
    fallen_silent.see(desk, at=clock.now())
    assert sweeper.sweep().silences == 1
    assert Escalation.objects.get().state == "WITHDRAWN"


def test_an_agent_that_came_back_since_it_was_found_is_let_be() -> None:
    desk = fallen_silent.desk()
    fallen_silent.hush(desk)
    (due,) = watchdog.find_silent_agents(at=clock.now())
    fallen_silent.see(desk, at=clock.now())
    assert watchdog.reconcile(due) is False
    assert not Flow.objects.exists()


def test_what_another_sweeper_has_done_is_not_done_again() -> None:
    desk = fallen_silent.desk()
    fallen_silent.hush(desk)
    (due,) = watchdog.find_silent_agents(at=clock.now())
    assert [watchdog.reconcile(due), watchdog.reconcile(due)] == [True, False]
    fallen_silent.see(desk, at=clock.now())
    (over,) = watchdog.find_silent_agents(at=clock.now())
    assert [watchdog.reconcile(over), watchdog.reconcile(over)] == [True, False]


def test_the_flow_of_a_silence_takes_no_proposal() -> None:
    desk = fallen_silent.desk()
    flow = desk.open()
    escalation = fallen_silent.called(desk)
    answer: Any = desk.submit(factories.Opened(dfid=escalation.flow_id, context_ref=flow.context_ref))
    assert (answer.status, answer.code) == (409, "FLOW_NOT_OPEN")


def test_thousands_of_agents_are_looked_at_page_by_page() -> None:
    desk = fallen_silent.desk()
    plain, at = desk.again(), clock.now()
    Agent.objects.bulk_create(
        Agent(
            agent_id=f"agent-{number}",
            role="MONITOR",
            owner="desk",
            active_manifest=plain.active_manifest,
            last_seen_at=at - timedelta(hours=1) if number % 1000 == 999 else at,
            created_at=at - fallen_silent.LONG_AGO,
        )
        for number in range(2000)
    )
    rounds = -(-2001 // watchdog.BATCH)
    found = [len(watchdog.find_silent_agents(at=at)) for _ in range(rounds)]
    assert sum(found) == 2
    assert len(watchdog.find_silent_agents(at=at)) == found[0]  # begins again with the first


@pytest.mark.parametrize(("silent_after_s", "passed_s", "writes"), [(600, 59, 0), (600, 60, 1), (50, 5, 1)])
def test_a_call_is_written_only_as_exactly_as_the_bound_asks(
    silent_after_s: int, passed_s: int, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = fallen_silent.desk(silent_after_s=silent_after_s)
    issued = credentials.issue_agent_key(tenant="default", agent_id="monitor", actor="user:1")
    before = desk.again().last_seen_at
    assert before is not None
    monkeypatch.setattr(clock, "now", lambda: before + timedelta(seconds=passed_s))
    assert credentials.agent_key(getattr(issued, "text", "")) is not None
    assert (desk.again().last_seen_at != before) is bool(writes)


def test_a_call_after_the_clock_was_set_back_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = fallen_silent.desk()
    issued = credentials.issue_agent_key(tenant="default", agent_id="monitor", actor="user:1")
    earlier = clock.now() - timedelta(hours=2)
    monkeypatch.setattr(clock, "now", lambda: earlier)
    assert credentials.agent_key(getattr(issued, "text", "")) is not None
    assert desk.again().last_seen_at == earlier
