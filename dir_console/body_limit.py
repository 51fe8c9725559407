"""A bound on bodies at the door of the ASGI application, before anything is spooled to disk.

Django reads a whole body into a temporary file before a view, an authentication or a length check sees it,
and a chunked body declares no length: without this bound any caller could fill the disk.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.conf import settings

from dir_console import middleware, problems

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_TOO_LARGE: Final = 413


class _TooLargeError(Exception):
    """More bytes came than a body may have."""


class BodyLimit:
    """Answers 413 as soon as more than `DATA_UPLOAD_MAX_MEMORY_SIZE` bytes of a body have come."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        came = 0
        started = False

        async def counted() -> dict[str, Any]:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                raise _TooLargeError
            return message

        async def noted(message: dict[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.application(scope, counted, noted)
        except _TooLargeError:
            if started:
                return
            response = problems.respond(problems.plain(_TOO_LARGE))
            headers = {
                **middleware.HEADERS,
                **response.headers,
                "Cache-Control": "no-store",
                "Connection": "close",
            }
            named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": response.status_code, "headers": named})
            await send({"type": "http.response.body", "body": response.content})
