"""Where a target is asked for its results."""

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.execution.adapters import locations

BASE = "https://warehouse.example/api"
ALIKE = r"(https?:)?/{0,4}[a-z.@:]{0,20}/{0,3}[a-z.]{0,9}"


def place(*named: str) -> str | None:
    headers = [("content-type", "application/json"), *(("Location", one) for one in named)]
    return locations.location_of(headers, base_url=BASE, path="/orders")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/jobs/7", "/jobs/7"),
        ("jobs/7?part=1", "/api/jobs/7?part=1"),
        ("https://warehouse.example/jobs/7#top", "/jobs/7"),
        ("https://warehouse.example", "/"),
        ("../jobs/7", "/jobs/7"),
        (" /jobs/7 ", "/jobs/7"),
        # Anywhere else.
        ("http://warehouse.example/jobs/7", None),
        ("https://warehouse.example:8443/jobs/7", None),
        ("https://warehouse.example@evil.example/jobs/7", None),
        ("https://user@warehouse.example/jobs/7", None),
        ("//evil.example/jobs/7", None),
        ("https://169.254.169.254/latest", None),
        ("file:///etc/passwd", None),
        ("https://[warehouse.example/", None),
        # What no request line carries.
        ("/jobs/\N{SNOWMAN}", None),
        ("/jobs/a b", "/jobs/a b"),
        ("/" + "a" * 2000, None),
        ("/" + "a" * 1999, "/" + "a" * 1999),
    ],
)
def test_a_target_is_asked_where_it_lives_and_nowhere_else(location: str, expected: str | None) -> None:
    assert place(location) == expected


def test_an_answer_names_one_place() -> None:
    assert place() is None
    assert place("/jobs/7", "/jobs/8") is None


@given(
    st.text(max_size=80) | st.from_regex(r"(https?:)?/{0,4}[a-z.@:]{0,20}/{0,3}[a-z.]{0,9}", fullmatch=True)
)
def test_no_location_leads_to_another_host(location: str) -> None:
    found = place(location)
    if found is not None:
        asked = httpx2.URL(locations.origin_of(BASE) + found)
        assert (asked.scheme, asked.host, asked.port) == ("https", "warehouse.example", None)
