"""The shift page: what is open, what is mine, what was decided, what to know, and handing it over."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Escalation, Note
from escalations.services import claiming, deadlines, notes, taking_back
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.core import clock
from runtime.maintenance.services import payloads
from runtime.stops.services import stops
from tests.escalations.test_replacing import called
from tests.support import factories, fallen_silent, gate_cases, markup
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
HEADING = '<h2 id="{}"'


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk()


@pytest.fixture
def olga() -> Client:
    return sign_in(Role.OPERATOR, name="olga")


@pytest.fixture
def sam() -> Client:
    return sign_in(Role.OPERATOR, name="sam")


def user(name: str) -> User:
    return User.objects.get(username=name)


def part(client: Client, name: str, query: str = "") -> str:
    """One section of the page."""
    page = text_of(client, f"/shift/{query}")
    sections = [found for found in page.split("<section") if HEADING.format(name) in found]
    assert len(sections) == 1, (name, len(sections))
    return sections[0]


def write(author: str, text: str, escalation: Escalation) -> None:
    answer = notes.write_on_escalation(
        tenant="default", escalation_id=escalation.pk, author=user(author), text=text
    )
    assert answer is None


def move_clock(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> Callable[[], datetime]:
    at = clock.now() + by
    monkeypatch.setattr(clock, "now", lambda: at)
    return lambda: at


def test_an_empty_shift_says_so(olga: Client) -> None:
    page = text_of(olga, "/shift/")
    assert "Nothing is open." in page
    assert "Nobody has decided anything in this shift." in page
    assert "No deadline passed without a decision" in page
    assert 'id="handovers"' not in page
    assert '<a href="/shift/" aria-current="page">' in page


def test_what_is_open_is_listed_heaviest_first_and_the_bound_is_said(
    desk: factories.Desk, olga: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [desk.escalate() for _ in range(3)]
    Escalation.objects.filter(pk=rows[2].pk).update(impact_rank=2)
    listed = part(olga, "open")
    places = [listed.index(f"/escalations/{row.pk}/") for row in (rows[2], rows[0], rows[1])]
    assert places == sorted(places)
    assert "3 open" in listed
    monkeypatch.setattr("escalations.shift_report.MOST_OPEN", 2)
    assert "3 open, highest impact first; the first 2 shown" in part(olga, "open")


def test_mine_is_what_i_claimed_was_handed_and_am_named_in(
    desk: factories.Desk, olga: Client, sam: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, handed, named = (desk.escalate() for _ in range(3))
    for escalation in (claimed, handed):
        assert claiming.claim(tenant="default", escalation_id=escalation.pk, user=user("olga")) is None
    answer = claiming.hand_over(
        tenant="default", escalation_id=handed.pk, user=user("olga"), receiver="sam", note="Call the broker."
    )
    assert answer is None
    write("olga", "Do you know this, @sam?", named)
    assert f"/escalations/{claimed.pk}/" in part(olga, "mine")
    assert f"/escalations/{handed.pk}/" not in part(olga, "mine")
    mine = part(sam, "mine")
    assert "Call the broker." in mine
    assert "Do you know this" in mine
    assert f'<a href="/escalations/{named.pk}/">where it was written</a>' in mine
    assert f"/escalations/{claimed.pk}/" not in mine
    move_clock(monkeypatch, claiming.LEASE)
    assert f"/escalations/{claimed.pk}/" not in part(olga, "mine"), "the claim has run out"
    assert "Call the broker." in part(sam, "mine"), "a handover waits longer than its lease"


def test_decisions_are_those_of_everybody_since_the_start(
    desk: factories.Desk, olga: Client, sam: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = desk.escalate(), desk.escalate()
    factories.decide(first, user("sam"), Action.ABORT)
    factories.decide(second, user("olga"))
    listed = part(sam, "decided")
    lines = {row.pk: line for row in (first, second) for line in listed.split("\n") if str(row.pk) in line}
    assert "Aborted" in lines[first.pk]
    assert "<bdi>sam</bdi>" in lines[first.pk]
    assert "Overridden" in lines[second.pk]
    assert "<bdi>olga</bdi>" in lines[second.pk]
    assert listed.index(str(second.pk)) < listed.index(str(first.pk))
    now = move_clock(monkeypatch, timedelta(hours=5))
    assert str(first.pk) in part(sam, "decided")
    assert str(first.pk) not in part(sam, "decided", "?hours=4")
    since = (now() - timedelta(hours=6)).isoformat().replace("+00:00", "Z")
    assert str(first.pk) in part(sam, "decided", f"?since={since}")
    assert str(first.pk) in part(sam, "decided", "?hours=5000&since=yesterday")
    move_clock(monkeypatch, timedelta(hours=4))
    assert str(first.pk) not in part(sam, "decided", "?hours=5000&since=yesterday")


def test_a_decision_taken_back_is_marked_and_noteworthy(
    desk: factories.Desk, olga: Client, settings: Settings
) -> None:
    settings.DIR_UNDO_MAX_S = 60
    escalation = desk.escalate()
    factories.decide(escalation, user("olga"))
    back = taking_back.take_back(
        tenant="default", escalation_id=escalation.pk, person=factories.person(user("olga"))
    )
    assert not isinstance(back, Problem)
    assert "Taken back" in part(olga, "decided")
    assert "Decision taken back" in part(olga, "noteworthy")


def test_what_should_not_go_unnoticed(
    desk: factories.Desk, olga: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    escalation = desk.escalate()
    stopped = stops.stop_agent(tenant="default", agent_id="trader", actor="user:1", reason="It <b>loops</b>")
    assert not isinstance(stopped, Problem)
    assert escalation.deadline_at is not None
    move_clock(monkeypatch, escalation.deadline_at - clock.now() + timedelta(seconds=1))
    deadlines.sweep()
    listed = part(olga, "noteworthy")
    assert f'<a href="/escalations/{escalation.pk}/">Escalation expired</a>' in listed
    assert "AAPL" in listed.split("Escalation expired")[1], "what was not decided is said"
    assert "Agent stopped" in listed
    assert "It &lt;b&gt;loops&lt;/b&gt;" in listed
    move_clock(monkeypatch, timedelta(hours=9))
    assert "Agent stopped" not in part(olga, "noteworthy")


def test_calls_and_agents_in_trouble_are_noteworthy(desk: factories.Desk, olga: Client) -> None:
    doubt = called(desk, "UNKNOWN", Reason.IN_DOUBT)
    not_undone = called(desk, "FAILED", Reason.COMPENSATION_FAILED)
    silent = fallen_silent.called(fallen_silent.desk())
    listed = part(olga, "noteworthy")
    assert f'<a href="/flows/{doubt.flow_id}/">Result unknown</a>' in listed
    assert f'<a href="/escalations/{not_undone.pk}/">Compensation failed</a>' in listed
    assert f'<a href="/escalations/{silent.pk}/">Agent fell silent</a>' in listed
    # The period is found by the ids, which begin with the time.
    later = (doubt.opened_at + timedelta(seconds=5)).isoformat().replace("+00:00", "Z")
    assert "Compensation failed" not in part(olga, "noteworthy", f"?since={later}")


def test_a_shift_is_handed_over_to_everybody(olga: Client, sam: Client) -> None:
    answer = olga.post(
        "/shift/hand-over/", {"text": "The broker is slow today.\n@sam watch it."}, follow=True
    )
    assert answer.redirect_chain == [("/shift/", 302)]
    for client in (sam, sign_in(Role.AUDITOR, name="aud")):
        top = part(client, "handovers")
        assert "The broker is slow today." in top
        assert "<bdi>olga</bdi>" in top
    assert "The broker is slow today." not in part(sam, "mine"), "it is at the top already"


def test_old_and_erased_handovers(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        assert notes.hand_over_shift(tenant="default", author=user("olga"), text=f"shift {number}") is None
    top = part(olga, "handovers")
    assert [f"shift {number}" in top for number in range(4)] == [False, True, True, True]
    commitment = Note.objects.order_by("written_at", "pk").values_list("commitment", flat=True)[3]
    assert payloads.erase(tenant="default", commitment=commitment, reason="asked", actor="system")
    assert "This note was erased." in part(olga, "handovers")
    move_clock(monkeypatch, timedelta(days=4))
    assert 'id="handovers"' not in text_of(olga, "/shift/")


def test_an_empty_handover_is_refused_and_auditors_have_no_form(olga: Client) -> None:
    answer = olga.post("/shift/hand-over/", {"text": " "})
    assert answer.status_code == 422
    assert 'id="note-problem"' in answer.content.decode()
    auditor = sign_in(Role.AUDITOR, name="aud")
    assert auditor.post("/shift/hand-over/", {"text": "No."}).status_code == 403
    assert "Hand over the shift" not in text_of(auditor, "/shift/")
    assert olga.get("/shift/hand-over/").status_code == 405


def test_hostile_text_is_shown_as_text(desk: factories.Desk, olga: Client, sam: Client) -> None:
    text = "<img src=x onerror=alert(1)>\u202e @olga"
    olga.post("/shift/hand-over/", {"text": text})
    write("sam", text, desk.escalate())
    page = olga.get("/shift/").content.decode()
    assert code_in(page) == []
    assert "\u202e" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") == 2


def test_the_page_asks_as_often_for_many_as_for_few(olga: Client, sam: Client) -> None:
    desk = factories.desk(manifest=gate_cases.manifest(escalations_per_hour=30))

    def story() -> None:
        escalation, other, left = (desk.escalate() for _ in range(3))
        factories.decide(escalation, user("sam"), Action.ABORT)
        claiming.claim(tenant="default", escalation_id=other.pk, user=user("olga"))
        claiming.hand_over(
            tenant="default", escalation_id=other.pk, user=user("olga"), receiver="sam", note="Yours."
        )
        write("olga", "Look, @sam.", left)
        notes.hand_over_shift(tenant="default", author=user("olga"), text="All quiet, @sam.")

    def count() -> int:
        with CaptureQueriesContext(connection) as asked:
            page = markup.tight(sam.get("/shift/").content.decode())
        assert "Yours." in page
        return len(asked)

    story()
    count()
    few = count()
    story()
    story()
    assert count() == few
