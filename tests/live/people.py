"""People with sessions, and sockets that carry their cookies."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import Group, User
from django.test import Client

from audit import consumers
from audit.permissions import Role

HOST = "localhost:8000"
ORIGIN = f"http://{HOST}"


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


class LiveSocket(ApplicationCommunicator):
    """The browser's end of a WebSocket that the application serves in this process."""

    async def connect(self) -> int | None:
        """Open the socket; None when it was let in, else the close code."""
        await self.send_input({"type": "websocket.connect"})
        message = await self.receive_output(timeout=3)
        return None if message["type"] == "websocket.accept" else int(message["code"])

    async def send_to(self, *, text: str | None = None, frame: bytes | None = None) -> None:
        """Send a frame as the browser."""
        await self.send_input({"type": "websocket.receive", "text": text, "bytes": frame})

    async def disconnect(self) -> None:
        """Go away, and wait until the application has noticed."""
        await self.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.wait(timeout=3)


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
    return LiveSocket(consumers.live_app(), scope)


async def opened(client: Client) -> LiveSocket:
    """A live socket that has been let in."""
    live_socket = socket(client)
    assert await live_socket.connect() is None
    return live_socket


async def next_frame(live_socket: LiveSocket) -> Any:
    """The next text frame (JSON where it is JSON), or the close code."""
    message = await live_socket.receive_output(timeout=3)
    if message["type"] == "websocket.close":
        return message["code"]
    return json.loads(message["text"]) if message["text"].startswith("{") else message["text"]


def on_a_loop(story: Callable[[], Awaitable[None]]) -> None:
    """Run an async story, with database work on this very thread."""
    async_to_sync(story)()


async def in_database(change: Callable[[], Any]) -> None:
    """Make a change beside the open sockets."""
    await sync_to_async(change)()
