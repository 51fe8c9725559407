"""The ASGI application: pages and API through Django, the live socket and long polls through Channels."""

import asyncio
import gc
import os
from typing import Any, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
gc.disable()  # until all is loaded

import django

django.setup(set_prefix=False)

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from audit.live import consumers, hints
from dir_console import connections, static_files
from dir_console.body_limit import BodyLimit
from dir_console.celery import app as celery_app  # the doorbell rings through it
from dir_console.mcp_server import McpServer
from dir_console.requests_in_turn import RequestsInTurn
from runtime.contexts.api import event_stream
from runtime.conversations.api import message_stream
from runtime.core.api.long_poll import LongPoll, Subscription
from runtime.flows.api import feedback_stream
from runtime.state.api import change_stream, world_wait
from runtime.state.api.world_wait import WorldWait

__all__ = ["application", "celery_app"]


async def lifespan(_scope: Any, receive: Any, send: Any) -> None:
    """Before the first request: room for connections, and the live hints know the server's loop.

    After the last one the threads end that had answered requests.
    """
    await receive()
    connections.raise_file_limit()
    hints.register_loop(asyncio.get_running_loop())
    async with mcp.running():
        await send({"type": "lifespan.startup.complete"})
        await receive()
    in_turn.end_threads()
    await send({"type": "lifespan.shutdown.complete"})


in_turn = RequestsInTurn()


def _polled(topic: Subscription, *, waits: str = "wait") -> Any:
    """As Any: Channels types its addresses as Django's views, and takes any ASGI application."""
    return LongPoll(topic, in_turn, waits=waits)


_api = URLRouter(
    [
        re_path(feedback_stream.PATTERN, _polled(feedback_stream.FeedbackTopic())),
        re_path(event_stream.PATTERN, _polled(event_stream.AgentTopic())),
        re_path(world_wait.PATTERN, cast(Any, WorldWait(in_turn))),
        re_path(change_stream.PATTERN, _polled(change_stream.ChangeTopic(), waits="wait_s")),
        re_path(message_stream.PATTERN, _polled(message_stream.MailboxTopic(), waits="wait_s")),
        re_path(r"", static_files.served(in_turn)),
    ]
)
mcp = McpServer(_api, in_turn)
application = BodyLimit(
    ProtocolTypeRouter(
        {
            "http": URLRouter([re_path(r"^mcp/?$", cast(Any, mcp)), re_path(r"", cast(Any, _api))]),
            "websocket": consumers.live_app(),
            "lifespan": lifespan,
        }
    )
)

# What is loaded by now stays. Otherwise the collector looks through all of it time and again, and nobody is
# answered meanwhile (ADR 0083). Here, and not at the start of a server: that is once for a process.
gc.collect()
gc.freeze()
gc.enable()
