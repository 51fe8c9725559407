"""Topics: what changes the queue is told to the pages that show it, and work that changes nothing is not."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from audit.access.roles import Role
from audit.events import Kind
from audit.live import hints, topics
from audit.live.topics import Topic
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import claiming, deadlines, drift_scan
from runtime.core import clock
from runtime.stops.services import stops
from tests.support import factories, gate_cases, guard_rounds
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
LISTS = ("/escalations/", "/escalations/?part=views", "/escalations/count/")
Act = Callable[[], Any]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The streams of all hints since the list was last cleared."""
    streams: list[str] = []
    monkeypatch.setattr(hints, "hint", lambda *, tenant, stream, seq: streams.append(stream))
    return streams


def shown(client: Client) -> list[str]:
    return [text_of(client, url, **{"HX-Request": "true"}) for url in LISTS]


def test_whatever_changes_the_queue_is_told_and_an_accepted_proposal_is_not(
    told: list[str], django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=20))
    client, olivia, mara = sign_in(Role.OPERATOR), factories.user(), factories.user("mara")

    def last() -> Escalation:
        return Escalation.objects.order_by("opened_at", "pk").last() or pytest.fail("none is open")

    def of(act: Callable[..., Any], user: Any) -> Act:
        return lambda: act(tenant=factories.TENANT, escalation_id=last().pk, user=user)

    def after(wait: timedelta, act: Act) -> Act:
        def later() -> None:
            with monkeypatch.context() as moved:
                at = clock.now() + wait
                moved.setattr(clock, "now", lambda: at)
                act()

        return later

    def drift() -> None:
        factories.write("price.AAPL", 25_000)
        drift_scan.revise_open()

    steps: dict[str, Act] = {
        "accept": lambda: desk.propose(desk.open()),
        "escalate": desk.escalate,
        "claim": of(claiming.claim, olivia),
        "renew": after(timedelta(minutes=2), of(claiming.renew, olivia)),
        "release": of(claiming.release, olivia),
        "ask": lambda: factories.decide(last(), olivia, Action.REQUEST_INFO),
        "answer": lambda: factories.answer(desk, last()),
        "drift": drift,
        "abort": lambda: factories.decide(last(), mara, Action.ABORT),
        "escalate again": desk.escalate,
        "expire": after(timedelta(hours=2), deadlines.sweep),
        "escalate once more": desk.escalate,
        "withdraw": lambda: factories.cancel(desk, last()),
        "and again": desk.escalate,
        "stop": lambda: stops.stop_agent(
            tenant=factories.TENANT, agent_id="trader", actor="user:1", reason="drill"
        ),
    }
    changed = {}
    for name, act in steps.items():
        before = shown(client)
        told.clear()
        with django_capture_on_commit_callbacks(execute=True):
            act()
        changed[name] = shown(client) != before
        assert Topic.ESCALATIONS in told or not changed[name], name
    # What the pages do not show differently proves nothing: most of these are seen to change them.
    assert {name for name, is_other in changed.items() if not is_other} <= {
        "accept",
        "renew",
        "drift",
        "stop",
    }


def test_an_agent_at_work_wakes_no_list(told: list[str], django_capture_on_commit_callbacks: Any) -> None:
    desk = factories.desk()
    with django_capture_on_commit_callbacks(execute=True):
        answer = desk.propose(desk.open())
    assert answer["verdict"] == "ACCEPT"
    assert answer["dfid"] in told
    assert not set(Topic) & set(told)


def test_a_review_is_told_to_those_who_count_reviews(
    told: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    guard_rounds.configure()
    desk = factories.desk()
    told.clear()
    with django_capture_on_commit_callbacks(execute=True):
        guard_rounds.flagged(desk)
    assert Topic.REVIEWS in told
    assert Topic.ESCALATIONS not in told


def test_every_kind_about_an_escalation_counts() -> None:
    about = [kind for kind in Kind if kind.value.partition(":")[0] in {"escalation", "information"}]
    assert about
    assert all(Topic.ESCALATIONS in topics.of_kinds([kind]) for kind in about)
    assert topics.of_kinds([Kind.FLOW_MOVED, Kind.ESCALATION_OPENED]) == {Topic.ESCALATIONS}
    assert topics.of_kinds([]) == frozenset()
