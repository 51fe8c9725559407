"""Every address says aloud who may use it."""

from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver
from ninja.operation import Operation

from dir_console import api

THIRD_PARTY = ("allauth.",)  # sign-in pages, open by their nature
OPEN_CALLS: set[str] = set()


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        place = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from patterns(entry, place)
        else:
            yield place, entry


def operations() -> Iterator[tuple[str, Operation]]:
    for prefix, router in api.api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                yield f"{'/'.join(operation.methods)} {prefix}{path}", operation


def test_every_page_has_a_permission() -> None:
    found = [
        place
        for place, entry in patterns(get_resolver())
        if not place.startswith("api/v1/")
        and not entry.callback.__module__.startswith(THIRD_PARTY)
        and not hasattr(entry.callback, "required_roles")
    ]
    assert not found, found


def test_every_call_of_the_api_asks_who_calls() -> None:
    listed = list(operations())
    assert listed
    found = {name for name, operation in listed if not operation.auth_callbacks}
    assert found == OPEN_CALLS
