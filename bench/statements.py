"""How many statements a request sends to the database, and how many Python calls it takes.

Counted in a process beside the server, on the same database.

Run as `python -m bench.statements` in the environment of the stand; reads what to ask for from its standard
input and prints the counts, both as JSON.
"""

import cProfile
import json
import os
import pstats
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.environment import ROOT, Stand

CONTROL = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK")


class Counts(NamedTuple):
    """Of one request."""

    statements: int
    calls: int


def count(
    stand: Stand,
    session_key: str,
    *,
    gets: Mapping[str, Sequence[tuple[str, dict[str, str]]]],
    posts: Mapping[str, Sequence[tuple[str, dict[str, str]]]],
) -> dict[str, Counts]:
    """Counts by name: of a GET of all the addresses of one name, and of a POST of one name.

    A name has three forms: each is sent once. The beginning and end of transactions are not counted, and the
    first time only fills what is kept.
    """
    asked = json.dumps({"session": session_key, "gets": gets, "posts": posts})
    done = subprocess.run(
        [sys.executable, "-m", "bench.statements"],
        cwd=ROOT, env=stand.environ, check=True, stdout=subprocess.PIPE, text=True, input=asked,
    )  # fmt: skip
    return {what: Counts(*found) for what, found in json.loads(done.stdout).items()}


def _count(asked: Any) -> dict[str, Counts]:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    browser = Client(SERVER_NAME="127.0.0.1")
    browser.cookies["sessionid"] = asked["session"]

    def get(what: str) -> None:
        for path, headers in asked["gets"][what]:
            answer = browser.get(path, headers=headers)
            if answer.status_code != 200:
                raise RuntimeError(f"GET {path} answered {answer.status_code}")

    def post(what: str) -> None:
        path, fields = next(forms[what])
        answer = browser.post(path, fields)
        if answer.status_code != 302:
            raise RuntimeError(f"POST {path} answered {answer.status_code}")

    forms = {what: iter(given) for what, given in asked["posts"].items()}
    requests = [(get, what) for what in asked["gets"]] + [(post, what) for what in asked["posts"]]
    counts = {}
    for send, what in requests:
        send(what)
    for send, what in requests:
        with CaptureQueriesContext(connection) as captured:
            send(what)
        statements = sum(not query["sql"].startswith(CONTROL) for query in captured)
        # Not in one go: while statements are captured, each takes more calls.
        with cProfile.Profile() as profile:
            send(what)
        told: Any = pstats.Stats(profile)
        counts[what] = Counts(statements, told.total_calls)
    return counts


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    import django

    django.setup()
    print(json.dumps(_count(json.load(sys.stdin))))
