"""Who is let in to the live socket, and for how long."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from audit.access import session_check
from audit.access.roles import Role
from audit.live import hints
from tests.support.live_people import (
    HOST,
    ORIGIN,
    in_database,
    next_frame,
    on_a_loop,
    opened,
    person,
    signed_in,
    socket,
)

pytestmark = pytest.mark.usefixtures("real_db")


def grow(*, tenant: str = "default", stream: str = "flow-1", seq: int = 1) -> None:
    hints.hint(tenant=tenant, stream=stream, seq=seq)


@pytest.fixture
def operator() -> Client:
    return signed_in(person("ada", Role.OPERATOR))


def refusal(client: Client | None = None, **options: Any) -> int:
    """The close code with which the handshake is refused."""
    codes: list[int] = []

    async def story() -> None:
        code = await socket(client, **options).connect()
        assert code is not None
        codes.append(code)

    on_a_loop(story)
    return codes[0]


def test_the_anonymous_are_refused() -> None:
    assert refusal() == 4401


def test_an_unknown_session_is_refused(operator: Client) -> None:
    operator.cookies["sessionid"] = "x" * 32
    assert refusal(operator) == 4401


def test_an_expired_session_is_refused(operator: Client) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert refusal(operator) == 4401


def test_a_user_without_a_role_is_refused() -> None:
    assert refusal(signed_in(person("eve"))) == 4403


@pytest.mark.parametrize("role", list(Role))
def test_every_role_is_let_in(role: Role) -> None:
    client = signed_in(person("ada", role))

    async def story() -> None:
        live_socket = await opened(client)
        await live_socket.disconnect()

    on_a_loop(story)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "",
        "null",
        "http://evil.example",
        f"http://{HOST}.evil.example",
        "http://localhost:8001",
        "http://localhost",
        "https://localhost",
        f"ftp://{HOST}",
        f"http://x@{HOST}",
        f"file://{HOST}",
        "http://[",
    ],
)
def test_a_foreign_or_missing_origin_is_refused(operator: Client, origin: str | None) -> None:
    assert refusal(operator, origin=origin) == 4400


@pytest.mark.parametrize("host", ["evil.example", "", "evil.example:8000", "localhost:x"])
def test_a_host_that_is_not_ours_is_refused(operator: Client, host: str) -> None:
    assert refusal(operator, host=host, origin=f"http://{host}") == 4400


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost:443"),
        ("LOCALHOST:8000", "http://localhost:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_our_own_origin_is_let_in_with_or_without_its_port(operator: Client, host: str, origin: str) -> None:
    async def story() -> None:
        assert await socket(operator, host=host, origin=origin).connect() is None

    on_a_loop(story)


def test_an_origin_trusted_by_the_settings_is_let_in(operator: Client, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example"]

    async def story() -> None:
        assert await socket(operator, origin="https://console.example").connect() is None

    on_a_loop(story)


def test_behind_a_trusted_proxy_the_forwarded_host_counts(operator: Client, settings: Any) -> None:
    settings.USE_X_FORWARDED_HOST = True
    settings.ALLOWED_HOSTS = ["console.example"]

    async def story() -> None:
        live_socket = socket(operator, host="web:8000", origin="https://console.example")
        live_socket.scope["headers"].append((b"x-forwarded-host", b"console.example"))
        assert await live_socket.connect() is None

    on_a_loop(story)


def test_in_debug_without_hosts_this_machine_is_let_in(operator: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = []
    assert refusal(operator) == 4400
    settings.DEBUG = True

    async def story() -> None:
        assert await socket(operator, origin=ORIGIN).connect() is None

    on_a_loop(story)


def test_no_other_address_has_a_socket(operator: Client) -> None:
    assert refusal(operator, path="/ws/other/") == 4404


def test_there_is_a_bound_on_open_sockets(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.live.socket_hub.MEMBER_LIMIT", 0)
    assert refusal(operator) == 4429


def test_one_person_cannot_take_the_sockets_of_all(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.live.socket_hub.PERSON_LIMIT", 2)
    other = signed_in(person("bea", Role.AUDITOR))

    async def story() -> None:
        first, second = await opened(operator), await opened(operator)
        assert await socket(operator).connect() == 4429
        others = await opened(other)
        await first.disconnect()
        third = await opened(operator)
        for live_socket in (second, third, others):
            await live_socket.disconnect()

    on_a_loop(story)


def test_few_files_mean_few_sockets(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.live.socket_hub._files", lambda: 9)

    async def story() -> None:
        only = await opened(operator)
        assert await socket(operator).connect() == 4429
        await only.disconnect()

    on_a_loop(story)


def test_a_browser_that_goes_away_at_once_is_no_trouble(operator: Client) -> None:
    """It leaves no place taken, and the person's other page is told as ever."""

    async def story() -> None:
        staying = await opened(operator)
        room = hints.this_board().room
        before = (set(room.members), set(room.arriving))
        for _ in range(20):
            live_socket = socket(operator)
            live_socket.start()
            await live_socket.disconnect()
        assert (set(room.members), set(room.arriving)) == before
        assert len(before[0]) == 1
        await in_database(grow)
        assert await next_frame(staying) == {"stream": "flow-1", "seq": 1}

    on_a_loop(story)


def sign_out(client: Client) -> None:
    client.logout()


def lose_role(client: Client) -> None:
    user(client).groups.clear()


def be_deactivated(client: Client) -> None:
    ended = user(client)
    ended.is_active = False
    ended.save()


def get_a_new_password(client: Client) -> None:
    changed = user(client)
    changed.set_password("another long password")
    changed.save()


def user(client: Client) -> User:
    return User.objects.get(pk=client.session["_auth_user_id"])


@pytest.mark.parametrize(
    ("change", "code"),
    [(sign_out, 4401), (lose_role, 4403), (be_deactivated, 4401), (get_a_new_password, 4401)],
)
@pytest.mark.parametrize("by_ping", [True, False])
def test_an_open_socket_ends_with_the_right_to_it(
    operator: Client, change: Any, code: int, by_ping: bool
) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        grow(seq=1)
        assert await next_frame(live_socket) == {"stream": "flow-1", "seq": 1}
        await in_database(lambda: change(operator))
        if by_ping:
            await live_socket.send(text="ping")
        else:
            grow(seq=2)
        assert await next_frame(live_socket) == code
        await live_socket.disconnect()

    on_a_loop(story)


def test_a_close_says_why(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        await in_database(lambda: sign_out(operator))
        grow()
        message = await live_socket.receive()
        assert (message["code"], message["reason"]) == (4401, "sign in again")

    on_a_loop(story)


def test_one_look_at_the_database_serves_all_sockets_of_a_round(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    real = session_check.check_sessions

    async def story() -> None:
        sockets = [await opened(operator) for _ in range(5)]

        def counted(session_keys: Any) -> Any:
            looks.append(len(session_keys))
            return real(session_keys)

        monkeypatch.setattr(session_check, "check_sessions", counted)
        grow()
        assert [await next_frame(each) for each in sockets] == [{"stream": "flow-1", "seq": 1}] * 5
        assert looks == [1]

    on_a_loop(story)
