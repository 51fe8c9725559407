"""The ASGI application: pages and API through Django, the live socket and long polls through Channels."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from audit import consumers
from runtime.api import feedback_stream

application = ProtocolTypeRouter(
    {
        "http": URLRouter(
            [
                re_path(feedback_stream.PATTERN, feedback_stream.FeedbackConsumer.as_asgi()),
                re_path(r"", django_application),
            ]
        ),
        "websocket": consumers.live_app(),
    }
)
