"""How many statements a request sends to the database, counted in a process beside the server.

Run as `python -m bench.statements` in the environment of the stand; reads what to ask for from its standard
input and prints the counts, both as JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.environment import ROOT, Stand

CONTROL = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK")


def count(
    stand: Stand,
    session_key: str,
    *,
    gets: Mapping[str, Sequence[tuple[str, dict[str, str]]]],
    posts: Mapping[str, Sequence[tuple[str, dict[str, str]]]],
) -> dict[str, int]:
    """Statements by name: of a GET of all the addresses of one name, and of the last POST of one name.

    The beginning and end of transactions are not counted. The first time only fills what is kept.
    """
    asked = json.dumps({"session": session_key, "gets": gets, "posts": posts})
    done = subprocess.run(
        [sys.executable, "-m", "bench.statements"],
        cwd=ROOT, env=stand.environ, check=True, stdout=subprocess.PIPE, text=True, input=asked,
    )  # fmt: skip
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def _count(asked: Any) -> dict[str, int]:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    browser = Client(SERVER_NAME="127.0.0.1")
    browser.cookies["sessionid"] = asked["session"]
    counts = {}
    for what, parts in [*asked["gets"].items(), *asked["gets"].items()]:
        with CaptureQueriesContext(connection) as captured:
            for path, headers in parts:
                answer = browser.get(path, headers=headers)
                if answer.status_code != 200:
                    raise RuntimeError(f"GET {path} answered {answer.status_code}")
        counts[what] = _statements(captured.captured_queries)
    for what, forms in asked["posts"].items():
        for path, fields in forms:
            with CaptureQueriesContext(connection) as captured:
                answer = browser.post(path, fields)
            if answer.status_code != 302:
                raise RuntimeError(f"POST {path} answered {answer.status_code}")
            counts[what] = _statements(captured.captured_queries)
    return counts


def _statements(captured: Sequence[Mapping[str, str]]) -> int:
    return sum(not query["sql"].startswith(CONTROL) for query in captured)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    import django

    django.setup()
    print(json.dumps(_count(json.load(sys.stdin))))
