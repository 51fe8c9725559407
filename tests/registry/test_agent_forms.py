"""What the forms of agents read, and what they say about what they cannot read."""

import datetime

import pytest

from runtime.registry.services import registration
from runtime.registry.views import agent_forms

MOVE = {"seen": "ACTIVE", "status": "RETIRED", "reason": " It is done. ", "typed_id": " trader "}


def test_a_move_is_read_without_the_space_around_it() -> None:
    form = agent_forms.StatusForm(MOVE, agent_id="trader")
    assert form.is_valid()
    assert (form.cleaned_data["status"], form.cleaned_data["reason"]) == ("RETIRED", "It is done.")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"seen": "ASLEEP"}, "STATUS_UNKNOWN"),
        ({"status": ""}, "STATUS_UNKNOWN"),
        ({"reason": " "}, "REASON_MISSING"),
        ({"reason": "x" * 201}, "REASON_MISSING"),
        ({"reason": "a\x00b"}, "REASON_MISSING"),
        ({"typed_id": "Trader"}, "ID_NOT_TYPED"),
        ({"status": "ASLEEP", "reason": "", "typed_id": ""}, "STATUS_UNKNOWN"),
        ({"reason": "", "typed_id": ""}, "REASON_MISSING"),
    ],
)
def test_the_first_thing_that_is_wrong_is_said(wrong: dict[str, str], code: str) -> None:
    form = agent_forms.StatusForm(MOVE | wrong, agent_id="trader")
    assert not form.is_valid()
    problem = form.problem()
    assert (problem.status, problem.code) == (422, code)
    assert problem.detail.endswith(".")


def test_only_retiring_asks_for_the_id() -> None:
    assert agent_forms.StatusForm(MOVE | {"status": "PASSIVE", "typed_id": ""}, agent_id="trader").is_valid()


def test_a_profile_is_read_with_the_line_ends_it_was_shown_with() -> None:
    given = {"owner": " ada ", "mission": "Trade.\r\nLess.\r\n", "review_on": " 2027-01-31 "}
    form = agent_forms.EditForm({**given, "seen_mission": "Trade.\r\nMore.", "seen_review_on": ""})
    assert form.is_valid()
    assert form.profile() == registration.Profile(
        owner="ada", mission="Trade.\nLess.", review_on=datetime.date(2027, 1, 31)
    )
    assert form.seen().mission == "Trade.\nMore."
    assert form.seen().review_on is None


@pytest.mark.parametrize("field", ["review_on", "seen_review_on"])
def test_an_unreadable_date_is_said_at_the_date(field: str) -> None:
    form = agent_forms.EditForm({field: "soon"})
    assert not form.is_valid()
    assert form.errors["review_on"] == ["Enter the date as YYYY-MM-DD, or leave it empty."]
