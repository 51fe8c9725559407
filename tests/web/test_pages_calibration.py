"""The page of an agent's calibration: its curve as picture and table, and another threshold."""

import re

import pytest
from django.test import Client

from audit.access.roles import Role
from runtime.proposals.queries import calibration_pairs
from tests.support import calibrated_agent, markup, worlds
from tests.support.calibrated_agent import ABORTED, MODIFIED, OVERRIDDEN, PAIRS
from tests.web.test_pages import sign_in

world = worlds.shared(calibrated_agent.build)
MADE_AT = re.compile(r"\d\d:\d\d:\d\d UTC")
PAGE = "/agents/trader/calibration/"
NONE = "\u2013"


@pytest.fixture
def ada(world: None, db: None) -> Client:
    return sign_in(Role.AUDITOR, name="ada")


def words(client: Client, page: str = PAGE) -> str:
    answer = client.get(page)
    assert answer.status_code == 200
    return markup.words(answer.content.decode())


def test_shows_the_curve_as_a_picture_and_as_a_table(ada: Client) -> None:
    text = ada.get(PAGE).content.decode()
    assert text.count('<circle class="use"') == 3
    said = markup.words(text)
    assert f"{PAIRS} proposals of the last 90 days with a known end, 22 of them good." in said
    assert "0.8 to 0.9 5 0.830 40.0% 11.8% to 76.9%" in said
    assert f"0.0 to 0.1 0 {NONE} {NONE} {NONE}" in said
    assert "from 0.800 worth 0.400" in said
    assert "Brier score 0.1878" in said


def test_says_what_another_threshold_would_have_done(ada: Client) -> None:
    said = words(ada, f"{PAGE}?now=0.7&then=0.82")
    times, caught, bad = ABORTED + OVERRIDDEN, ABORTED, ABORTED + MODIFIED
    assert f"would have called a person {times} times more and caught {caught} of {bad} bad ones" in said
    back = words(ada, f"{PAGE}?now=0.82&then=0.7")
    assert f"would have called a person {times} times less and caught 0 of {bad} bad ones" in back


@pytest.mark.parametrize("typed", ["two", "", "-1", "NaN", "1e99999"])
def test_what_is_no_threshold_is_said_beside_its_field(ada: Client, typed: str) -> None:
    said = words(ada, f"{PAGE}?now={typed}&then=0.8")
    assert f"{typed or 'An empty field'} is not a number from 0 to 1." in said
    assert "would have called" not in said


def test_of_one_kind_only(ada: Client) -> None:
    said = words(ada, f"{PAGE}?kind=TRANSFER_FUNDS")
    assert "0 proposals" in said
    assert "Not enough" in said
    # Every page says at which second it was made.
    both = (MADE_AT.sub("", words(ada, f"{PAGE}{asked}")) for asked in ("?kind=%00", ""))
    assert next(both) == next(both)


def test_below_thirty_there_is_no_curve(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_pairs, "MOST", 10)
    text = ada.get(PAGE).content.decode()
    assert "<circle" not in text
    said = markup.words(text)
    assert "Only the newest 10 were read." in said
    assert "would have called" not in said


def test_the_agents_page_leads_there(ada: Client) -> None:
    assert f'href="{PAGE}"' in ada.get("/agents/trader/").content.decode()
    assert ada.get("/agents/nobody/calibration/").status_code == 404
