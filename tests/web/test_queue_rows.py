"""The lines of the queue are drawn once a second at most, and each reader gets their own."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from audit.access.roles import Role
from escalations.templatetags import queue
from tests.support import factories
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC).replace(microsecond=0)
SWAPPED = {"HX-Request": "true"}


class Clock:
    """The time of the console; it stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        monkeypatch.setattr(timezone, "now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    queue._drawn.cache_clear()
    desk = factories.desk()
    for _ in range(2):
        desk.propose(desk.open(), params=factories.OVER_LIMIT)
    return Clock(monkeypatch)


def rows_of(reader: Client) -> str:
    return text_of(reader, "/escalations/", **SWAPPED)


def test_all_readers_of_one_second_share_the_drawing(clock: Clock) -> None:
    first, second = sign_in(Role.OPERATOR, name="olga"), sign_in(Role.OPERATOR, name="other")
    shown = rows_of(first)
    drawn = queue._drawn.cache_info().misses
    assert drawn == shown.count("data-row=") == 2
    assert rows_of(second) == shown
    assert queue._drawn.cache_info().misses == drawn


def test_the_next_second_is_drawn_anew(clock: Clock) -> None:
    reader = sign_in(Role.OPERATOR)
    before = rows_of(reader)
    clock.now += timedelta(seconds=1)
    after = rows_of(reader)
    assert after != before
    queue._drawn.cache_clear()
    assert rows_of(reader) == after


def test_a_claim_is_shown_to_each_as_it_concerns_them(clock: Clock) -> None:
    holder, other, auditor = (
        sign_in(Role.OPERATOR, name="olga"),
        sign_in(Role.SENIOR, name="other"),
        sign_in(Role.AUDITOR, name="aud"),
    )
    free = rows_of(other)
    row = free.partition('data-row="')[2].partition('"')[0]
    holder.post(f"/escalations/{row}/claim/")
    assert (free.count("data-claim-row"), free.count("Yours")) == (2, 0)
    assert (rows_of(holder).count("data-claim-row"), rows_of(holder).count("Yours")) == (1, 1)
    held = rows_of(other)
    assert (held.count("data-claim-row"), held.count("Yours"), held.count("olga")) == (1, 0, 1)
    assert "data-claim-row" not in rows_of(auditor)
    assert "Yours" not in rows_of(auditor)
