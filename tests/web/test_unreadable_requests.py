"""What no page can use: a NUL, which PostgreSQL cannot store, and forms in another encoding than UTF-8."""

import pytest
from django.conf import settings
from django.test import Client

from audit.access.roles import Role
from tests.support import factories, guard_rounds
from tests.web.test_every_write_url import addresses, filled, snapshot
from tests.web.test_pages import sign_in

pytestmark = pytest.mark.django_db
NUL = "Prices\x00 look wrong"
FORM = {"reason": NUL, "note": NUL, "result": "CONFIRMED", "name": NUL, "capacity": "5", "justification": NUL}


@pytest.fixture
def person() -> Client:
    guard_rounds.configure()
    guard_rounds.flagged(factories.desk())
    return sign_in(*Role)


def pages() -> list[str]:
    for_programs = tuple(prefix.removeprefix("/") for prefix in settings.DIR_FOR_PROGRAMS)
    return [filled(route, {}) for route in addresses() if not route.startswith(for_programs)]


def test_no_form_stores_a_nul(person: Client) -> None:
    before = snapshot()
    for address in pages():
        answer = person.post(address, FORM)
        assert answer.status_code == 400, address
        assert "NUL" in answer.content.decode(), address
    assert snapshot() == before


def test_no_query_fails_over_a_nul(person: Client) -> None:
    names = ("stream", "q", "agent", "kind", "reason", "after", "before", "status", "version", "from", "next")
    # These people have no password to change, and no sweeper runs here that would make it ready.
    for address in set(pages()) - {"/accounts/password/change/", "/readyz"}:
        assert person.get(address, dict.fromkeys(names, NUL)).status_code < 500, address


def test_no_address_fails_over_a_nul(person: Client) -> None:
    tried = 0
    for address in pages():
        if "/x/" in address:
            tried += 1
            for answer in (person.get(f"{address.replace('/x/', '/%00/')}"), person.post(f"{address}%00")):
                assert answer.status_code == 404, address
    assert tried > 10
    assert person.get("/api/v1/schema/policy/BUY%00/latest").json()["code"] == "NOT_FOUND"


@pytest.mark.parametrize("charset", ["utf-7", "utf-16", "nonsense"])
def test_no_form_of_another_encoding_is_read(person: Client, charset: str) -> None:
    before = snapshot()
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        for address in pages():
            # The body as it is: the test client would encode it by the charset.
            answer = person.generic(
                "POST", address, b"reason=drill", content_type=f"{kind}; charset={charset}"
            )
            assert answer.status_code == 400, address
            assert "UTF-8" in answer.content.decode(), address
    assert snapshot() == before


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"'])
def test_a_form_in_utf_8_is_read_however_it_is_written(person: Client, charset: str) -> None:
    body_type = f"application/x-www-form-urlencoded; charset={charset}"
    assert person.generic("POST", "/stop/", b"reason=drill", content_type=body_type).status_code == 302


def test_no_page_stands_in_a_frame(person: Client) -> None:
    for address in ("/", "/accounts/login/", "/nowhere/", "/api/v1/openapi.json", "/livez"):
        answer = person.get(address)
        assert answer["X-Frame-Options"] == "DENY", address
        assert "frame-ancestors 'none'" in answer["Content-Security-Policy"], address
