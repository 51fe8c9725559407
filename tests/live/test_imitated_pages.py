"""The bench's browsers do what static/js/live.js does: the same waits, regions, rows and addresses."""

import re
from pathlib import Path

import pytest

from bench import queue_clients
from bench.page_parts import read_regions

SCRIPTS = Path(__file__).parents[2] / "static" / "js"
PAGE = """
<span data-live="*" data-live-url="/escalations/count/" data-live-mode="replace">2</span>
<div data-live="system" data-live-url="/stop/state/" data-live-mode="replace"></div>
<div class="queue" data-queue data-live="*" data-live-url="/escalations/?impact=HIGH&amp;sort=age"
    data-live-mode="queue">
  <article class="q" id="row-1" data-row="1" data-impact="HIGH_IMPACT" data-open="1"></article>
  <article class="q gone" id="row-2" data-row="2" data-impact="HIGH_IMPACT" data-open="0"></article>
</div>
"""
ROW = '<article class="q" data-row="{}" data-impact="LOW_IMPACT" data-open="{}"></article>'


@pytest.mark.parametrize(
    ("script", "name", "seconds"),
    [
        ("live.js", "DEBOUNCE_MS", queue_clients.DEBOUNCE_S),
        ("live.js", "LEAST_GAP_MS", queue_clients.LEAST_GAP_S),
        ("live.js", "ANSWER_MS", queue_clients.ANSWER_S),
        ("connection.js", "BEAT_MS", queue_clients.BEAT_S),
        ("connection.js", "POLL_MS", queue_clients.PING_S),
    ],
)
def test_they_wait_as_long_as_the_page_does(script: str, name: str, seconds: float) -> None:
    found = re.search(rf"const {name} = ([0-9_]+);", (SCRIPTS / script).read_text())
    assert found is not None
    assert int(found[1]) == seconds * 1000


def test_a_hint_concerns_the_regions_that_wait_for_its_stream() -> None:
    count, stop, rows = read_regions(PAGE)
    assert [region.wants("some-flow") for region in (count, stop, rows)] == [True, False, True]
    assert [region.wants("system") for region in (count, stop, rows)] == [True, True, True]
    assert not rows.wants("feed:prices")


def test_a_region_that_comes_with_another_does_not_ask() -> None:
    named = PAGE.replace('data-live-mode="replace">2', 'data-live-mode="replace" data-live-part="count">2')
    brings = 'data-live-mode="queue" data-live-brings="views count"'
    bringing = named.replace('data-live-mode="queue"', brings)
    assert [region.url for region in read_regions(named)] == [region.url for region in read_regions(PAGE)]
    assert [region.url for region in read_regions(bringing)] == [
        "/stop/state/",
        "/escalations/?impact=HIGH&sort=age",
    ]


def test_the_queue_asks_with_the_open_rows_that_it_shows() -> None:
    rows = read_regions(PAGE)[2]
    assert rows.address() == "/escalations/?impact=HIGH&sort=age&have=1"
    assert rows.take(ROW.format(1, 0) + ROW.format(3, 1)) == {"1", "3"}
    assert rows.address() == "/escalations/?impact=HIGH&sort=age", "1 is closed, 3 waits behind the pill"


def test_an_empty_queue_shows_what_comes() -> None:
    rows = read_regions(PAGE)[2]
    rows.rows = {}
    rows.take(ROW.format(3, 1))
    assert rows.rows == {"3": True}
