"""A body without a declared length is cut off at the door."""

import asyncio
import json
from typing import Any

from dir_console.body_limit import BodyLimit

CHUNK = b"x" * 100_000


async def reading(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads its whole body and says how long it was."""
    length = 0
    while True:
        message = await receive()
        length += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


async def answering_first(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers before it reads."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await reading(scope, receive, nowhere)


async def nowhere(message: Any) -> None:
    """Sends nothing."""


def sent(application: Any, chunks: int, kind: str = "http") -> tuple[list[Any], int]:
    """What the application answers to a body of so many chunks, and how many of them it took."""
    answered: list[Any] = []
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": CHUNK, "more_body": taken < chunks}

    async def send(message: dict[str, Any]) -> None:
        answered.append(message)

    asyncio.run(BodyLimit(application)({"type": kind}, receive, send))
    return answered, taken


def test_lets_a_body_within_the_bound_through() -> None:
    answered, taken = sent(reading, 10)
    assert (answered[0]["status"], answered[1]["body"], taken) == (200, b"1000000", 10)


def test_stops_reading_at_the_bound_and_says_so() -> None:
    answered, taken = sent(reading, 10_000)
    assert taken == 11
    headers = dict(answered[0]["headers"])
    assert (answered[0]["status"], headers[b"content-type"]) == (413, b"application/problem+json")
    assert headers[b"cache-control"] == b"no-store"
    assert json.loads(answered[1]["body"])["code"] == "BODY_TOO_LARGE"


def test_adds_nothing_to_an_answer_that_has_begun() -> None:
    answered, taken = sent(answering_first, 10_000)
    assert ([message["type"] for message in answered], taken) == (["http.response.start"], 11)


def test_leaves_sockets_alone() -> None:
    answered, _ = sent(reading, 20, kind="websocket")
    assert answered[1]["body"] == b"2000000"
