"""People with sessions, and sockets that carry their cookies."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group, User
from django.test import Client

from audit.access.roles import Role
from audit.live import consumers

HOST = "localhost:8000"
ORIGIN = f"http://{HOST}"
TIMEOUT_S = 3


def person(name: str, *roles: Role) -> User:
    """A user who holds the roles."""
    user = User.objects.create_user(name)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def signed_in(user: User) -> Client:
    """A browser in which the user is signed in."""
    client = Client()
    client.force_login(user)
    return client


def cookie_of(client: Client | None) -> str:
    """The Cookie header that the browser would send."""
    return "" if client is None else f"other=1; sessionid={client.cookies['sessionid'].value}"


class LiveSocket:
    """The browser's end of a WebSocket that the application serves in this process."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self._to_application: asyncio.Queue[consumers.Message] = asyncio.Queue()
        self._to_browser: asyncio.Queue[consumers.Message] = asyncio.Queue()
        self._serving: asyncio.Task[None] | None = None

    async def connect(self) -> int | None:
        """Open the socket; None when it was let in, else the close code."""
        self.start()
        await self._to_application.put({"type": "websocket.connect"})
        message = await self.receive()
        return None if message["type"] == "websocket.accept" else int(message["code"])

    def start(self) -> None:
        """Begin to serve, before any message."""
        self._serving = asyncio.ensure_future(
            consumers.live_app()(self.scope, self._to_application.get, self._to_browser.put)
        )

    async def receive(self) -> consumers.Message:
        """The next message that the application sends."""
        return await asyncio.wait_for(self._to_browser.get(), TIMEOUT_S)

    async def receives_nothing(self, for_s: float) -> bool:
        """Whether the application stays quiet for so long."""
        try:
            await asyncio.wait_for(self._to_browser.get(), for_s)
        except TimeoutError:
            return True
        return False

    async def send(self, *, text: str | None = None, frame: bytes | None = None) -> None:
        """Send a frame as the browser."""
        await self._to_application.put({"type": "websocket.receive", "text": text, "bytes": frame})

    async def disconnect(self) -> None:
        """Go away, and wait until the application has noticed."""
        await self._to_application.put({"type": "websocket.disconnect", "code": 1001})
        assert self._serving is not None
        await asyncio.wait_for(self._serving, TIMEOUT_S)


def socket(
    client: Client | None = None, *, path: str = consumers.PATH, origin: str | None = ORIGIN, host: str = HOST
) -> LiveSocket:
    """A live socket that the browser is about to open."""
    headers = {"cookie": cookie_of(client), "host": host, "origin": origin}
    scope = {
        "type": "websocket",
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items() if value is not None],
    }
    return LiveSocket(scope)


async def opened(client: Client) -> LiveSocket:
    """A live socket that has been let in."""
    live_socket = socket(client)
    assert await live_socket.connect() is None
    return live_socket


async def next_frame(live_socket: LiveSocket) -> Any:
    """The next text frame (JSON where it is JSON), or the close code."""
    message = await live_socket.receive()
    if message["type"] == "websocket.close":
        return message["code"]
    return json.loads(message["text"]) if message["text"].startswith("{") else message["text"]


def on_a_loop(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an async story, with database work on this very thread."""
    async_to_sync(story)()


async def in_database(change: Callable[[], Any]) -> None:
    """Make a change beside the open sockets."""
    await sync_to_async(change)()
