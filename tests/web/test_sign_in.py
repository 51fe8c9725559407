"""Wrong passwords of a stranger keep nobody else out: neither by name nor by address."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.core.cache import cache
from django.test import Client, RequestFactory
from pytest_django.fixtures import Settings

from audit.access.roles import Role
from dir_console import addresses, auth
from dir_console.crowds import Crowd, CrowdedError
from runtime.registry.models import FailedSignin
from tests.support import demo_scenes
from tests.support.wait_until import until

pytestmark = pytest.mark.django_db

HERE, ELSEWHERE = "192.0.2.7", "198.51.100.9"
WRONG = "not the password"


@pytest.fixture(autouse=True)
def _ground() -> None:
    cache.clear()


@pytest.fixture(autouse=True)
def people(_ground: None) -> None:
    for name in ("olga", "otto"):
        demo_scenes.add_user(name, Role.OPERATOR, password=demo_scenes.PASSWORD)


def signs_in(client: Client, name: str, password: str = demo_scenes.PASSWORD, *, address: str = HERE) -> bool:
    answer = client.post(
        "/accounts/login/", {"login": name, "password": password}, REMOTE_ADDR=address, follow=False
    )
    assert answer.status_code in {200, 302}, answer.status_code
    return bool(answer.status_code == 302)


def guess(name: str, times: int, *, address: str = HERE) -> None:
    for _ in range(times):
        assert not signs_in(Client(), name, WRONG, address=address)


def test_a_guesser_is_stopped_even_with_the_right_password() -> None:
    guess("olga", 5)
    assert not signs_in(Client(), "olga")
    assert not signs_in(Client(), " OLGA"), "the same name, written otherwise"


def test_the_name_stays_open_from_other_addresses() -> None:
    guess("olga", 20)
    assert signs_in(Client(), "olga", address=ELSEWHERE)


def test_other_people_of_the_same_address_stay_free() -> None:
    guess("olga", 14)
    guess("nobody at all", 40)
    assert signs_in(Client(), "otto")


def test_a_browser_that_knew_the_name_gets_in_beside_a_guesser_of_its_own_address() -> None:
    known = Client()
    assert signs_in(known, "olga")
    known.post("/accounts/logout/")
    guess("olga", 14)
    assert signs_in(known, "olga")
    assert not signs_in(Client(), "olga")


def test_a_known_browser_has_a_limit_of_its_own() -> None:
    known = Client()
    assert signs_in(known, "olga")
    known.post("/accounts/logout/")
    for _ in range(5):
        assert not signs_in(known, "olga", WRONG)
    assert not signs_in(known, "olga")
    assert signs_in(Client(), "olga"), "and takes nothing from others"


def test_a_browser_is_known_for_the_names_that_signed_in_there_and_no_other() -> None:
    known = Client()
    assert signs_in(known, "olga")
    known.post("/accounts/logout/")
    guess("otto", 5)
    assert not signs_in(known, "otto")


def test_the_cookie_cannot_be_made_up_and_is_closed_to_scripts() -> None:
    known = Client()
    assert signs_in(known, "olga")
    cookie = known.cookies[auth.DEVICE_COOKIE]
    assert cookie["httponly"] is True
    assert (cookie["path"], cookie["samesite"]) == ("/accounts/", "Lax")
    assert "olga" not in cookie.value
    guess("olga", 5)
    forged = Client()
    forged.cookies[auth.DEVICE_COOKIE] = cookie.value[:-2] + "xx"
    assert not signs_in(forged, "olga")


def test_a_shared_browser_remembers_the_last_few() -> None:
    device = auth.Device("d").after("first")
    for number in range(auth.NAMES_PER_DEVICE):
        assert device.knows("first")
        device = device.after(f"person {number}")
    assert not device.knows("first")
    assert len(device.names) == auth.NAMES_PER_DEVICE


def test_a_password_asked_for_again_is_not_closed_by_a_stranger() -> None:
    browser = Client()
    assert signs_in(browser, "olga")
    del browser.cookies[auth.DEVICE_COOKIE]
    guess("olga", 14)
    answer = browser.post(
        "/accounts/reauthenticate/", {"password": demo_scenes.PASSWORD, "next": "/"}, REMOTE_ADDR=HERE
    )
    assert answer.status_code == 302


@pytest.mark.parametrize(
    ("depth", "header", "seen"),
    [
        (0, "203.0.113.5", HERE),
        (1, "", HERE),
        (1, "203.0.113.5", "203.0.113.5"),
        (1, "10.9.9.9, 203.0.113.5", "203.0.113.5"),
        (2, "6.6.6.6, 203.0.113.5, 10.0.0.2", "203.0.113.5"),
        (3, "203.0.113.5, 10.0.0.2", HERE),
        (1, "203.0.113.5:4711", "203.0.113.5"),
        (1, "[2001:db8::1]:4711", "2001:db8::1"),
        (1, "2001:db8::1", "2001:db8::1"),
    ],
)
def test_an_address_is_read_through_our_own_proxies_only(
    depth: int, header: str, seen: str, settings: Settings
) -> None:
    settings.DIR_PROXY_DEPTH = depth
    request = RequestFactory().get("/", REMOTE_ADDR=HERE, headers={"X-Forwarded-For": header})
    assert auth.address_of(request) == seen


def test_people_behind_one_proxy_are_told_apart(settings: Settings) -> None:
    settings.DIR_PROXY_DEPTH = 1
    for _ in range(6):
        Client(headers={"X-Forwarded-For": "203.0.113.5"}).post(
            "/accounts/login/", {"login": "olga", "password": WRONG}
        )
    there = Client(headers={"X-Forwarded-For": "203.0.113.5"})
    assert not signs_in(there, "olga")
    invented = Client(headers={"X-Forwarded-For": "1.2.3.4, 203.0.113.5"})
    assert not signs_in(invented, "olga"), "what stands before the proxy's word is the client's own"
    assert signs_in(Client(headers={"X-Forwarded-For": "203.0.113.6"}), "olga")


def test_the_addresses_of_one_network_of_ipv6_count_as_one() -> None:
    guess("olga", 3, address="2001:db8:0:1::1")
    guess("olga", 2, address="2001:db8:0:1::2")
    assert not signs_in(Client(), "olga", address="2001:db8:0:1::3")
    assert signs_in(Client(), "olga", address="2001:db8:0:2::3")


@pytest.mark.parametrize(
    ("seen", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("not an address", "not an address"),
    ],
)
def test_what_is_counted_as_one_address(seen: str, counted: str) -> None:
    assert addresses.network_of(seen) == counted


def test_people_of_ipv4_are_told_apart_where_the_server_listens_on_both() -> None:
    guess("olga", 5, address="::ffff:192.0.2.1")
    assert not signs_in(Client(), "olga", address="192.0.2.1")
    assert signs_in(Client(), "olga", address="::ffff:203.0.113.9")


@pytest.fixture
def full_of_strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(auth, "STRANGERS", Crowd(at_once=2, waiting=0))
    with ExitStack() as taken:
        for _ in range(2):
            taken.enter_context(auth.STRANGERS.turn())
        yield


@pytest.fixture
def known() -> Client:
    client = Client()
    assert signs_in(client, "olga")
    return client


def test_where_many_sign_in_at_once_the_next_is_asked_to_come_again(
    known: Client, full_of_strangers: None
) -> None:
    answer = Client().post("/accounts/login/", {"login": "otto", "password": demo_scenes.PASSWORD})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "Try again in a moment" in answer.content.decode()
    assert not FailedSignin.objects.exists(), "nothing was looked at, and nothing written"


def test_strangers_keep_no_known_browser_waiting(known: Client, full_of_strangers: None) -> None:
    again = known.post("/accounts/reauthenticate/", {"password": demo_scenes.PASSWORD, "next": "/"})
    assert again.status_code == 302
    del known.cookies[auth.DEVICE_COOKIE]
    again = known.post("/accounts/reauthenticate/", {"password": demo_scenes.PASSWORD, "next": "/"})
    assert again.status_code == 302, "nor who is signed in"


def test_so_many_at_once_and_so_many_in_line() -> None:
    crowd, inside = Crowd(at_once=1, waiting=1), list[str]()

    def wait_for_turn() -> None:
        with crowd.turn():
            inside.append("the second")

    with crowd.turn():
        waiting = threading.Thread(target=wait_for_turn)
        waiting.start()
        until(lambda: not crowd._line._value)
        with pytest.raises(CrowdedError), crowd.turn():
            raise AssertionError("the line is full")
        assert inside == []
    waiting.join(timeout=30)
    assert inside == ["the second"]
    with crowd.turn():
        pass
