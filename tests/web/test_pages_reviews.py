"""The pages on reviews: what waits, what the guard found, who was right, and who switches a guard."""

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from audit import canonical
from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.contracts import guard
from runtime.flows.models import Flow, Intent
from runtime.guards.models import Guard, Review
from runtime.guards.views import review_presenters
from tests.architecture import tree
from tests.support import factories, gate_cases, guard_rounds, misbehaving_targets
from tests.web.test_pages import code_in, sign_in, text_of

pytestmark = pytest.mark.django_db
EVIL = "I am selling it. <img src=x onerror=alert(1)> \u202egnihton"


def flagged(**fields: object) -> Review:
    guard_rounds.configure(**fields)
    return guard_rounds.flagged(factories.desk(), explain=EVIL)


def page_of(review: Review) -> str:
    return f"/reviews/{review.pk}/"


def test_without_guards_the_page_says_where_they_come_from() -> None:
    page = text_of(sign_in(Role.AUDITOR), "/reviews/")
    assert "Nothing to review" in page
    assert "No guard is configured" in page


def test_lists_what_waits_surest_first() -> None:
    guard_rounds.configure()
    desk = factories.desk()
    guard_rounds.flagged(desk, explain="AAPL was sold off.")
    guard_rounds.flagged(desk, explain="Do not buy AAPL, selling is right.")
    guard_rounds.flagged(desk, explain="AAPL: I am selling it.")
    page = text_of(sign_in(Role.AUDITOR), "/reviews/")
    assert page.index(">0.97<") < page.index(">0.9<") < page.index(">0.55<")
    fragment = sign_in(Role.AUDITOR, name="else").get("/reviews/", headers={"HX-Request": "true"})
    assert "<html" not in fragment.content.decode()


def test_pages_by_a_key_that_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.guards.queries.review_list.PAGE", 1)
    guard_rounds.configure()
    desk = factories.desk()
    surest = guard_rounds.flagged(desk, explain="Do not buy AAPL, selling is right.")
    first = guard_rounds.flagged(desk, explain="AAPL: I am selling it.")
    second = guard_rounds.flagged(desk, explain="AAPL: selling it again.")
    client = sign_in(Role.OPERATOR)
    assert f"?after={surest.pk}" in text_of(client, "/reviews/")
    assert page_of(first) in text_of(client, f"/reviews/?after={surest.pk}")
    assert page_of(second) in text_of(client, f"/reviews/?after={first.pk}")
    for review in (first, second):
        client.post(f"{page_of(review)}close/", {"result": "FALSE_ALARM", "note": "as asked"})
    assert page_of(second) in text_of(client, "/reviews/?show=closed")
    assert page_of(first) in text_of(client, f"/reviews/?show=closed&after={second.pk}")


def test_the_claim_stands_escaped_and_labelled_beside_the_parameters() -> None:
    page = text_of(sign_in(Role.AUDITOR), page_of(flagged()))
    assert "Unverified claim by the agent" in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\u202e" not in page
    assert "94750" in page or "94,750" in page
    assert "ACTION_OPPOSED" in page
    assert "An operator or a senior records" in page
    assert code_in(page) == []


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR])
def test_a_reviewer_says_who_was_right_and_nothing_runs(role: Role) -> None:
    review = flagged()
    client = sign_in(role)
    answer = client.post(f"{page_of(review)}close/", {"result": "CONFIRMED", "note": "It sells."})
    assert (answer.status_code, answer["Location"]) == (302, "/reviews/")
    review.refresh_from_db()
    assert (review.state, review.result, review.note) == ("REVIEWED", "CONFIRMED", "It sells.")
    assert Intent.objects.get().state == "PENDING"
    page = text_of(client, page_of(review))
    assert "It sells." in page
    assert 'name="note"' not in page
    listed = text_of(client, "/reviews/?show=closed")
    assert "Confirmed" in listed
    assert "100 %" in listed
    again = client.post(f"{page_of(review)}close/", {"result": "FALSE_ALARM", "note": "No."})
    assert again.status_code == 409


@pytest.mark.parametrize(
    "form", [{}, {"result": "CONFIRMED", "note": " "}, {"result": "MAYBE", "note": "x"}, {"note": "x" * 501}]
)
def test_an_answer_without_its_reason_is_not_taken(form: dict[str, str]) -> None:
    review = flagged()
    answer = sign_in(Role.OPERATOR).post(f"{page_of(review)}close/", form)
    assert answer.status_code == 400
    assert "Choose whether the guard was right" in answer.content.decode()
    review.refresh_from_db()
    assert review.state == "OPEN"


@pytest.mark.parametrize("role", [Role.ADMIN, Role.AUDITOR])
def test_nobody_else_reviews(role: Role) -> None:
    review = flagged()
    answer = sign_in(role).post(f"{page_of(review)}close/", {"result": "CONFIRMED", "note": "x"})
    assert answer.status_code == 403


def test_an_unknown_review_is_not_found() -> None:
    client = sign_in(Role.OPERATOR)
    unknown = "/reviews/019b7c00-0000-7000-8000-000000000001/"
    assert client.get(unknown).status_code == 404
    assert client.post(f"{unknown}close/", {"result": "CONFIRMED", "note": "x"}).status_code == 404


def test_an_admin_switches_a_guard_with_a_reason() -> None:
    guard_rounds.configure(emergency_stop=True)
    client = sign_in(Role.ADMIN)
    assert "suspends the agent at confidence 0.99 or higher" in text_of(client, "/reviews/")
    off, on = "/reviews/guards/explain-fits/off/", "/reviews/guards/explain-fits/on/"
    assert client.post(off).status_code == 400
    assert client.post(off, {"reason": "too noisy"}).status_code == 302
    assert not Guard.objects.get().enabled
    page = text_of(client, "/reviews/")
    assert "too noisy" in page
    assert "Switch on" in page
    assert client.post(on, {"reason": "quiet again"}).status_code == 302
    assert Guard.objects.get().enabled
    assert LedgerEntry.objects.filter(kind="guard:switched").count() == 2
    assert client.post("/reviews/guards/none/on/", {"reason": "x"}).status_code == 404


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_nobody_else_switches(role: Role) -> None:
    guard_rounds.configure()
    client = sign_in(role)
    assert "Switch off" not in text_of(client, "/reviews/")
    assert client.post("/reviews/guards/explain-fits/off/", {"reason": "x"}).status_code == 403


def test_a_flag_shows_everywhere() -> None:
    review = flagged()
    client = sign_in(Role.OPERATOR)
    assert "Needs review" in text_of(client, f"/flows/{review.flow_id}/")
    assert "Needs review" in text_of(client, "/flows/")
    assert "guard explain-fits" in text_of(client, f"/flows/{review.flow_id}/")
    assert "To review" in text_of(client, "/")
    assert "to review" in text_of(client, "/reviews/count/")
    figures = Client().get("/metrics").content.decode()
    assert 'dir_reviews_flagged_total{guard="explain-fits"} 1.0' in figures
    assert "dir_reviews_open 1.0" in figures
    client.post(f"{page_of(review)}close/", {"result": "FALSE_ALARM", "note": "x"})
    assert "Needs review" not in text_of(client, "/flows/")
    assert Flow.objects.get().state == "ACCEPTED"


@pytest.mark.parametrize(
    ("state", "words"), [("HELD", "had not been claimed"), ("UNDER_WAY", "was already claimed or called")]
)
def test_an_emergency_stop_says_what_it_met(state: str, words: str) -> None:
    review = flagged()
    Review.objects.update(emergency_stop=state, agent_suspended=True)
    page = text_of(sign_in(Role.AUDITOR), page_of(review))
    assert "Emergency stop" in page
    assert words in page
    assert "The intent is PENDING now" in page
    Review.objects.update(agent_suspended=False)
    assert "The agent is retired" in text_of(sign_in(Role.AUDITOR, name="else"), page_of(review))


def test_what_a_target_says_is_shown_without_a_reason_of_ours(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    said = canonical.encode({"flag": True, "message": "<b>odd</b>", "confidence": "0.7"})
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, said)) as judge:
        factories.configure_target("judge", base_url=judge.base_url)
        review = flagged(**guard_rounds.WEBHOOK)
    page = text_of(sign_in(Role.AUDITOR), page_of(review))
    assert "Reported by the target" in page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page


def test_a_proposal_of_another_version_of_its_kind_is_shown_too() -> None:
    guard_rounds.configure()
    desk = factories.desk()
    review = guard_rounds.flagged(desk, params={**gate_cases.PARAMS, "quantity": -1})
    assert "Rejected" in text_of(sign_in(Role.AUDITOR), page_of(review))


def test_every_word_of_a_review_has_its_presenter() -> None:
    assert set(review_presenters.FINDINGS) == set(guard.FindingCode)
    assert set(review_presenters.REVIEW_STATES) == set(guard.ReviewState)
    assert set(review_presenters.RESULTS) == set(guard.ReviewResult)
    assert set(review_presenters.RUN_STATES) == set(guard.GuardRunState)
    assert set(review_presenters.GUARD_KINDS) == set(guard.GuardKind)
    assert set(review_presenters.STOPS) == set(guard.EmergencyStop)


def test_every_word_of_a_review_stands_in_the_docs() -> None:
    page = (tree.ROOT / "docs" / "guards.md").read_text()
    choices = (
        guard.FindingCode,
        guard.ReviewState,
        guard.ReviewResult,
        guard.GuardRunState,
        guard.EmergencyStop,
    )
    assert [member for choice in choices for member in choice if member not in page] == []
