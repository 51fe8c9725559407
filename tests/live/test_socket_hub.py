"""What open sockets are told: gathered, of their own tenant, and never more than they may know."""

import asyncio
from typing import Any

import pytest
from django.test import Client

from audit.access import session_check
from audit.access.roles import Role
from audit.access.session_check import Valid
from audit.live import hints, socket_hub
from audit.live.socket_hub import Connection, SocketHub
from tests.support.live_people import next_frame, on_a_loop, opened, person, signed_in
from tests.support.wait_until import until_async

pytestmark = pytest.mark.usefixtures("real_db")


@pytest.fixture
def operator() -> Client:
    return signed_in(person("ada", Role.OPERATOR))


def hint(seq: int, *, stream: str = "flow-1", tenant: str = "default") -> None:
    hints.hint(tenant=tenant, stream=stream, seq=seq)


def test_a_hint_holds_the_stream_and_its_number_and_nothing_else(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        await asyncio.to_thread(hint, 7)
        assert await next_frame(live_socket) == {"stream": "flow-1", "seq": 7}

    on_a_loop(story)


def test_a_ping_is_answered(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        await live_socket.send(text="ping")
        assert await next_frame(live_socket) == "pong"

    on_a_loop(story)


def test_a_beat_is_answered_without_a_look_at_the_database(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(keys: Any) -> Any:
        raise AssertionError(f"the sessions {keys} were looked up")

    async def story() -> None:
        live_socket = await opened(operator)
        monkeypatch.setattr(session_check, "check_sessions", refuse)
        for _ in range(3):
            await live_socket.send(text="beat")
            assert await next_frame(live_socket) == "pong"

    on_a_loop(story)


def test_everything_else_that_comes_in_is_ignored(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        await live_socket.send(text='{"type": "live.hints"}')
        await live_socket.send(frame=b"ping")
        await live_socket.send(text="ping")
        assert await next_frame(live_socket) == "pong"

    on_a_loop(story)


def test_hints_of_another_tenant_stay_there(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        hint(1, tenant="other")
        hint(2)
        assert await next_frame(live_socket) == {"stream": "flow-1", "seq": 2}
        assert await live_socket.receives_nothing(0.2)

    on_a_loop(story)


def test_hints_that_come_together_are_told_once_per_stream(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        hint(1)
        assert await next_frame(live_socket) == {"stream": "flow-1", "seq": 1}
        for seq in range(2, 52):
            hint(seq)
            hint(seq, stream="system")
        hint(3)  # one that was late changes nothing
        told = [await next_frame(live_socket), await next_frame(live_socket)]
        assert told == [{"stream": "flow-1", "seq": 51}, {"stream": "system", "seq": 51}]
        assert await live_socket.receives_nothing(0.2)

    on_a_loop(story)


def test_the_first_hint_after_a_quiet_moment_does_not_wait(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        hint(1)
        await next_frame(live_socket)
        hint(2)
        await next_frame(live_socket)
        assert loop.time() - started_at >= socket_hub.WINDOW_S * 0.9  # the second one did

    on_a_loop(story)


def test_a_failed_check_sends_nothing_and_the_next_one_works(
    operator: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = session_check.check_sessions

    def fail_once(session_keys: Any) -> Any:
        monkeypatch.setattr(session_check, "check_sessions", real)
        raise OSError("the database went away")

    async def story() -> None:
        live_socket = await opened(operator)
        monkeypatch.setattr(session_check, "check_sessions", fail_once)
        hint(1)
        await until_async(lambda: "could not be checked" in caplog.text)
        hint(2)
        assert await next_frame(live_socket) == {"stream": "flow-1", "seq": 2}

    on_a_loop(story)


def test_a_closed_socket_is_forgotten(operator: Client) -> None:
    async def story() -> None:
        live_socket = await opened(operator)
        members = hints.this_board().room.members
        assert len(members) == 1
        hint(1)
        await next_frame(live_socket)
        await live_socket.disconnect()
        await until_async(lambda: not members)
        hint(2)  # nobody is left to tell
        assert hints.this_board().room.pending == {}

    on_a_loop(story)


class Browser:
    """A member whose frames are kept, and which reads only while `reads` is set."""

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.reads = asyncio.Event()
        self.member = Connection(session_key="s", send=self.send, close=self.send_nothing)

    async def send(self, text: str) -> None:
        await self.reads.wait()
        self.frames.append(text)

    async def send_nothing(self, _: object) -> None:
        raise AssertionError("nobody is refused here")


@pytest.fixture
def _everyone_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        session_check,
        "check_sessions",
        lambda session_keys: dict.fromkeys(session_keys, Valid("default", person=1)),
    )


@pytest.mark.usefixtures("_everyone_is_admitted")
def test_a_slow_browser_holds_up_nobody_and_gets_the_newest_at_last() -> None:
    async def story() -> None:
        here, slow, quick = SocketHub(), Browser(), Browser()
        here.members |= {slow.member, quick.member}
        quick.reads.set()
        for seq in range(1, 4):
            here.take_hint("default", "flow-1", seq)
            await until_async(lambda count=seq: len(quick.frames) == count)  # type: ignore[misc]
        assert slow.frames == []
        slow.reads.set()
        await until_async(lambda: len(slow.frames) == 2)
        assert slow.frames[-1] == '{"stream": "flow-1", "seq": 3}'
        here.leave(slow.member)

    on_a_loop(story)


@pytest.mark.usefixtures("_everyone_is_admitted")
def test_a_browser_that_reads_no_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_hub, "SEND_TIMEOUT_S", 0.05)

    async def story() -> None:
        here, stalled = SocketHub(), Browser()
        here.members.add(stalled.member)
        here.take_hint("default", "flow-1", 1)
        here.take_ping(stalled.member)
        await until_async(lambda: stalled.member.sending is not None and stalled.member.sending.done())
        assert stalled.member.waiting == {}
        assert stalled.frames == []

    on_a_loop(story)


@pytest.mark.usefixtures("_everyone_is_admitted")
def test_a_member_waits_for_a_bounded_number_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_hub, "STREAM_LIMIT", 3)

    async def story() -> None:
        here, browser = SocketHub(), Browser()
        here.members.add(browser.member)
        browser.reads.set()
        for number in range(10):
            here.take_hint("default", f"flow-{number}", 1)
        await until_async(lambda: len(browser.frames) == 3)
        assert '"flow-9"' in browser.frames[-1]

    on_a_loop(story)
