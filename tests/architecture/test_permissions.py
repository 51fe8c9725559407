"""Every address says aloud who may use it."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from dir_console import api

API = "api/v1/"
OPEN_CALLS: set[str] = set()
SAMPLE_ID = "019aa000-0000-7000-8000-000000000000"


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        place = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from patterns(entry, place)
        else:
            yield place, entry


def calls() -> list[tuple[str, str]]:
    """Method and path of every call in the OpenAPI document."""
    paths = api.api.get_openapi_schema()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_every_page_has_a_permission() -> None:
    found = [
        place
        for place, entry in patterns(get_resolver())
        if not place.startswith(API) and not hasattr(entry.callback, "required_roles")
    ]
    assert not found, found


@pytest.mark.parametrize(("method", "path"), calls())
def test_every_call_of_the_api_asks_who_calls(method: str, path: str) -> None:
    address = re.sub(r"\{\w+\}", SAMPLE_ID, path)
    response = Client().generic(method, address, b"{}", content_type="application/json")
    asks = response.status_code == 401
    assert asks != (f"{method} {path}" in OPEN_CALLS), response.content
