"""A message of an agent as it stands in its stream, and the answer that goes back."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from dir_console import problems
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.kernel import ijson

# Beside the body: its field names, the session token, the key and the trace context.
MOST_BYTES: Final = ijson.MAX_BYTES + 2_000
_NEEDED: Final = frozenset({"token", "key", "body"})
_KNOWN: Final = _NEEDED | {"traceparent"}
# What may stand in a header of HTTP: the API says whether the values mean anything.
_HEADER: Final = re.compile(rb"[!-~]{0,512}")

Fields = Mapping[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message whose fields are there; nothing of it has been believed or checked."""

    token: str = field(repr=False)
    key: str
    body: bytes
    traceparent: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the agent is answered: a verdict, or a problem document. `retry_after_s` is in seconds."""

    status: int
    body: bytes
    retry_after_s: str = ""

    def fields(self, *, to: bytes, key: str) -> dict[str, bytes | str | int]:
        """The entry of the answer stream."""
        found: dict[str, bytes | str | int] = {
            "type": "answer",
            "to": to,
            "key": key,
            "status": self.status,
            "body": self.body,
        }
        return {**found, "retry_after": self.retry_after_s} if self.retry_after_s else found


def read(fields: Fields) -> Message | Problem:
    """The message in the fields of an entry; a Problem for one that cannot be read."""
    if sum(len(name) + len(value) for name, value in fields.items()) > MOST_BYTES:
        return Problem(
            code=ProblemCode.BODY_TOO_LARGE,
            detail=f"The message is larger than {MOST_BYTES:,} bytes. Send a smaller one.",
        )
    names = {name.decode("ascii", "replace") for name in fields}
    if not _NEEDED <= names <= _KNOWN:
        return _unreadable("A message has the fields token, key and body, and may have traceparent.")
    if not all(_HEADER.fullmatch(fields.get(name, b"")) for name in (b"token", b"key", b"traceparent")):
        return _unreadable("token, key and traceparent are up to 512 visible ASCII characters.")
    return Message(
        token=fields[b"token"].decode("ascii"),
        key=fields[b"key"].decode("ascii"),
        body=fields[b"body"],
        traceparent=fields.get(b"traceparent", b"").decode("ascii"),
    )


def key_of(fields: Fields) -> str:
    """The key that an answer repeats, so that the agent finds its call; empty where none can be read."""
    key = fields.get(b"key", b"")
    return key.decode("ascii") if _HEADER.fullmatch(key) else ""


def refusal(problem: Problem, *, retry_after_s: int | None = None) -> Answer:
    """A problem of the intake's own, in the form in which the API has problems."""
    body = json.dumps(problems.body_of(problem)).encode()
    return Answer(
        status=problem.status, body=body, retry_after_s="" if retry_after_s is None else str(retry_after_s)
    )


def is_from_outage(answer: Answer) -> bool:
    """Whether nothing was decided because the database did not respond, or others were faster."""
    if answer.status not in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.CONFLICT}:
        return False
    code = json.loads(answer.body).get("code")
    return code in {ProblemCode.TEMPORARILY_UNAVAILABLE, ProblemCode.BUSY}


def _unreadable(detail: str) -> Problem:
    return Problem(code=ProblemCode.BAD_REQUEST, detail=f"{detail} Nothing was done.")
