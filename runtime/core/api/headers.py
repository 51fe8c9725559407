"""Request headers that calls give meaning to."""

import re

from django.http import HttpRequest

from runtime.contracts.problem import Problem, ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.idempotency import IdempotentRequest
from runtime.kernel.ijson import Checked

_KEY = re.compile(r"[!-~]{1,255}", re.ASCII)
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)
_TAG = re.compile(r'"?([1-9][0-9]{0,15})"?', re.ASCII)


def idempotency_key(request: HttpRequest) -> str | None:
    """The Idempotency-Key; None where it was not sent, ProblemError 400 where it has a wrong form."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise ProblemError(
            Problem(
                code=ProblemCode.IDEMPOTENCY_KEY_INVALID,
                detail="Idempotency-Key must be 1-255 visible ASCII characters.",
            )
        )
    return key


def repeatable(request: HttpRequest, checked: Checked) -> IdempotentRequest | None:
    """The call with its key and its checked body, for its answer to be kept; None where no key was sent."""
    key = idempotency_key(request)
    return None if key is None else IdempotentRequest(key=key, path=request.path, body=checked.canonical)


def required_idempotency_key(request: HttpRequest) -> str:
    """The Idempotency-Key; ProblemError 400 where it was not sent or has a wrong form."""
    key = idempotency_key(request)
    if key is None:
        raise ProblemError(
            Problem(
                code=ProblemCode.IDEMPOTENCY_KEY_MISSING,
                detail="Send an Idempotency-Key: a new one per proposal, the same one for a retry.",
            )
        )
    return key


def traceparent(request: HttpRequest) -> str:
    """The W3C trace context; empty where none of the right form was sent. It is kept, never trusted."""
    text = request.headers.get("traceparent", "")
    return text if _TRACEPARENT.fullmatch(text) else ""


def matched_versions(request: HttpRequest) -> frozenset[int] | None:
    """The versions that If-Match names; None where it was not sent.

    A weak tag and anything else that is no version's tag match none; `*` is asked for by `matches_any`.
    """
    sent = request.headers.get("If-Match")
    if sent is None:
        return None
    tags = (_TAG.fullmatch(tag.strip()) for tag in sent.split(","))
    return frozenset(int(tag[1]) for tag in tags if tag)


def matches_any(request: HttpRequest) -> bool:
    """Whether If-Match is `*`: write only what is there already."""
    return request.headers.get("If-Match", "").strip() == "*"
