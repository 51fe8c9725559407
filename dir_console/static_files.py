"""Static files, served before Django is asked.

As Django middleware the same library is async only, which costs every other request two changes of thread.
"""

from typing import Any
from wsgiref.headers import Headers

from django.conf import settings
from django.contrib.staticfiles import finders
from servestatic import ServeStaticASGI

from dir_console.middleware import HEADERS

MAX_AGE_S = 60


def served(application: Any) -> Any:
    """`application`, with the files of every app and of `static/` in front of it."""
    server = ServeStaticASGI(
        application, max_age=MAX_AGE_S, allow_all_origins=False, add_headers_function=_secure
    )
    # Where static files lie; the first of a name wins in Django, and the last one added does here.
    folders = dict.fromkeys(
        storage.location for finder in finders.get_finders() for _, storage in finder.list([])
    )
    for folder in reversed(folders):
        server.add_files(folder, prefix=settings.STATIC_URL)
    return server


def _secure(headers: Headers, path: str, url: str) -> None:
    for name, value in {**HEADERS, "X-Content-Type-Options": "nosniff"}.items():
        headers[name] = value
