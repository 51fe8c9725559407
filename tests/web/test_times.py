"""Times as the server writes them: short where the page has a short place, complete in the title."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.template import engines

from audit.access.roles import Role
from runtime.core.views import times
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of


@pytest.mark.parametrize(
    ("seconds", "age", "span"),
    [
        (-5, "0 s", "0 ms"),
        (59, "59 s", "59 s"),
        (60, "1 min", "1 min 00 s"),
        (3599, "59 min", "59 min 59 s"),
        (3720, "1 h", "1 h 02 min"),
        (90_000, "1 d", "1 d 1 h"),
    ],
)
def test_durations_read_as_the_script_writes_them(seconds: int, age: str, span: str) -> None:
    assert times.age(timedelta(seconds=seconds)) == age
    assert times.span(timedelta(seconds=seconds)) == span


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0421, "42 ms"), (1.25, "1.2 s"), (9.99, "10.0 s"), (10.5, "10 s")]
)
def test_short_durations_have_a_fraction(seconds: float, words: str) -> None:
    assert times.span(timedelta(seconds=seconds)) == words


def test_each_form_of_a_moment() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert times.moment(at, "clock") == "03:04:05 UTC"
    assert times.moment(at, "full") == "2026-01-02 03:04:05 UTC"
    assert re.fullmatch(r"\d+ d ago", times.moment(at, "ago"))
    assert re.fullmatch(r"\d+ d", times.moment(at, "age"))
    assert times.left(at) == "past due"


@pytest.mark.parametrize(("left", "tone"), [(-1, "danger"), (50, "danger"), (200, "warn"), (900, "idle")])
def test_what_is_left_has_the_tone_of_its_urgency(left: int, tone: str) -> None:
    at = datetime.now(UTC) + timedelta(seconds=left)
    html = engines["django"].from_string('{% include "components/countdown.html" %}').render({"at": at})
    assert f'data-tone="{tone}"' in html
    assert f'title="{at:%Y-%m-%d %H:%M:%S} UTC"' in html


@pytest.mark.django_db
def test_no_full_stamp_stands_where_the_page_has_a_short_place() -> None:
    demo_scenes.build()
    client = sign_in(Role.OPERATOR)
    for path in ("/", "/escalations/", "/flows/", "/agents/", "/ledger/"):
        page = text_of(client, path)
        words = re.findall(r'<time\b[^>]*data-(?:countdown|time="(?:ago|age|clock)")[^>]*>(.*?)</time>', page)
        assert words, path
        assert not [text for text in words if re.match(r"\d{4}-", text)], path
        assert re.search(r"<noscript>.*Times are as of \d\d:\d\d:\d\d UTC", page)
