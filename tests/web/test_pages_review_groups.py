"""Reviews at volume: the next one after an answer, groups that are alike, and what to do about the cause."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry
from runtime.guards.models import Review
from tests.support import factories, guard_rounds, ledger_tampering
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
CLOSE = "/reviews/alike/close/"
ANSWER = {"result": "FALSE_ALARM", "note": "It always words it so."}


@pytest.fixture
def desk() -> factories.Desk:
    guard_rounds.configure()
    return factories.desk()


@pytest.fixture
def alike(desk: factories.Desk) -> list[Review]:
    """Three reviews with the same finding, in the order of the list."""
    return [guard_rounds.flagged(desk, explain=f"AAPL: I am selling it, {word}.") for word in ("a", "b", "c")]


def ids(reviews: list[Review]) -> list[str]:
    return [str(review.pk) for review in reviews]


def states() -> list[tuple[str, str]]:
    return list(Review.objects.order_by("flagged_at").values_list("state", "result"))


def test_the_next_open_review_follows_an_answer(alike: list[Review]) -> None:
    client = sign_in(Role.OPERATOR)
    assert "2 of 3" in text_of(client, f"/reviews/{alike[1].pk}/")
    steps = [client.post(f"/reviews/{alike[at].pk}/close/", ANSWER)["Location"] for at in (1, 2, 0)]
    assert steps == [f"/reviews/{alike[2].pk}/", f"/reviews/{alike[0].pk}/", "/reviews/"]


def test_the_list_names_a_group_and_its_page_lists_each_review(alike: list[Review]) -> None:
    client = sign_in(Role.OPERATOR)
    assert f"{alike[0].agent.agent_id}: 3 alike" in text_of(client, "/reviews/")
    page = text_of(client, f"/reviews/alike/{alike[0].pk}/")
    assert re.findall(r'name="id" value="([^"]+)" checked', page) == ids(alike)
    assert {state for state, _ in states()} == {"OPEN"}


def test_other_findings_are_not_alike(alike: list[Review], desk: factories.Desk) -> None:
    other = guard_rounds.flagged(desk, explain="AAPL was sold off.")
    client = sign_in(Role.OPERATOR)
    assert str(other.pk) not in text_of(client, f"/reviews/alike/{alike[0].pk}/")
    answer = client.post(CLOSE, {**ANSWER, "id": [str(other.pk), *ids(alike)]})
    assert answer.status_code == 400
    assert {state for state, _ in states()} == {"OPEN"}


def test_one_form_closes_each_with_an_entry_of_its_own(alike: list[Review]) -> None:
    client = sign_in(Role.SENIOR)
    answer = client.post(CLOSE, {**ANSWER, "id": ids(alike)})
    assert (answer.status_code, answer["Location"]) == (302, "/reviews/")
    assert states() == [("REVIEWED", "FALSE_ALARM")] * 3
    entries = LedgerEntry.objects.filter(kind="review:closed")
    assert sorted(entry.payload["review_id"] for entry in entries) == sorted(ids(alike))
    assert ledger_tampering.differences() == []


def test_one_that_somebody_else_has_closed_keeps_what_was_found(alike: list[Review]) -> None:
    other, client = sign_in(Role.SENIOR, name="mara"), sign_in(Role.OPERATOR)
    other.post(f"/reviews/{alike[1].pk}/close/", {"result": "CONFIRMED", "note": "It sells."})
    client.post(CLOSE, {**ANSWER, "id": ids(alike)})
    assert states() == [("REVIEWED", "FALSE_ALARM"), ("REVIEWED", "CONFIRMED"), ("REVIEWED", "FALSE_ALARM")]
    assert LedgerEntry.objects.filter(kind="review:closed").count() == 3
    page = text_of(client, "/reviews/")
    assert "2 closed." in page
    assert "1 not closed" in page


@pytest.mark.parametrize("form", [{"result": "CONFIRMED"}, {"note": "x"}, {"result": "MAYBE", "note": "x"}])
def test_an_incomplete_answer_keeps_what_was_ticked(form: dict[str, str], alike: list[Review]) -> None:
    answer = sign_in(Role.OPERATOR).post(CLOSE, {**form, "id": ids(alike[:2])})
    assert answer.status_code == 400
    page = answer.content.decode()
    assert len(re.findall(r'name="id" value="[^"]+" checked', page)) == 2
    assert {state for state, _ in states()} == {"OPEN"}


def test_nothing_ticked_and_nonsense_close_nothing(alike: list[Review]) -> None:
    client = sign_in(Role.OPERATOR)
    assert client.post(CLOSE, ANSWER).status_code == 400
    assert client.post(CLOSE, {**ANSWER, "id": "x' or 1"}).status_code == 400
    assert client.post(CLOSE, {**ANSWER, "id": "019b7c00-0000-7000-8000-000000000001"}).status_code == 404
    assert {state for state, _ in states()} == {"OPEN"}


@pytest.mark.parametrize("role", [Role.ADMIN, Role.AUDITOR])
def test_nobody_else_closes_a_group(role: Role, alike: list[Review]) -> None:
    client = sign_in(role)
    assert 'name="result"' not in text_of(client, f"/reviews/alike/{alike[0].pk}/")
    assert client.post(CLOSE, {**ANSWER, "id": ids(alike)}).status_code == 403
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(factories.user("olivia"))
    assert forged.post(CLOSE, {**ANSWER, "id": ids(alike)}).status_code == 403
    assert {state for state, _ in states()} == {"OPEN"}


def test_an_open_list_keeps_a_row_that_was_closed_meanwhile(alike: list[Review]) -> None:
    client = sign_in(Role.OPERATOR)
    client.post(f"/reviews/{alike[0].pk}/close/", ANSWER)
    address = f"/reviews/?have={','.join(ids(alike))}"
    fragment = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert f'data-row="{alike[0].pk}" data-open="0"' in fragment
    assert f'data-row="{alike[1].pk}" data-open="1"' in fragment
    assert "False alarm" in fragment


def test_what_to_do_about_the_cause_is_on_the_page(alike: list[Review]) -> None:
    at, agent = f"/reviews/{alike[0].pk}/", alike[0].agent.agent_id
    page = text_of(sign_in(Role.OPERATOR), at)
    assert f'action="/agents/{agent}/stop/"' in page
    assert "/manifests/new/" not in page
    page = text_of(sign_in(Role.ADMIN, name="ada"), at)
    assert f'href="/agents/{agent}/manifests/new/"' in page
    assert 'href="/kinds/ADJUST_POSITION/new/"' in page


def test_a_rewritten_finding_is_not_grouped_unseen(alike: list[Review]) -> None:
    Review.objects.filter(pk=alike[0].pk).update(findings=b"[]")
    assert f"/reviews/alike/{alike[1].pk}/" in text_of(sign_in(Role.OPERATOR), "/reviews/")
    assert "2 alike" in text_of(sign_in(Role.SENIOR, name="mara"), "/reviews/")
