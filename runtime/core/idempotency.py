"""Answers kept for repeated calls: the same Idempotency-Key gets the same answer, and changes nothing again.

The scope is agent, path and key; what was asked is compared by the digest of the canonical body.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from audit import canonical, statements
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core.models import Answer


@dataclass(frozen=True, kw_only=True)
class IdempotentRequest:
    """The Idempotency-Key of a call, its path, and the canonical bytes of its body."""

    key: str
    path: str
    body: bytes


def find_response(
    *, agent_pk: int, call: IdempotentRequest, makes: str, dfid: UUID | None = None
) -> bytes | Problem | None:
    """The answer's bytes, or None for a first call; 422 where the key was used with another body.

    410 where the answer was erased with the words of its flow: the call is not made anew.

    `makes` is what the call makes, for the sentence of the refusal. The caller holds a lock that lets only
    one of several equal calls through at a time: the rest find the answer of the first.
    """
    stored = _BY_KEY.first(agent_pk=agent_pk, path=call.path, key=call.key)
    if stored is None:
        return None
    if not bytes(stored.body):
        return Problem(
            code=ProblemCode.FLOW_ERASED,
            detail="The words of this flow were erased, and with them the stored response.",
            dfid=None if dfid is None else str(dfid),
        )
    if stored.request_digest != canonical.digest(call.body):
        return Problem(
            code=ProblemCode.IDEMPOTENCY_KEY_REUSED,
            detail=f"This Idempotency-Key was used with another body. Use a new key for a new {makes}.",
            dfid=None if dfid is None else str(dfid),
        )
    return bytes(stored.body)


def store_response(*, agent_pk: int, call: IdempotentRequest, body: bytes, at: datetime) -> None:
    """Keep a decided answer, in the transaction that decided it."""
    answer = Answer(
        agent_id=agent_pk,
        path=call.path,
        key=call.key,
        request_digest=canonical.digest(call.body),
        body=body,
        answered_at=at,
    )
    statements.insert([answer])


def _by_key(*, agent_pk: int, path: str, key: str) -> QuerySet[Answer]:
    return Answer.objects.filter(agent_id=agent_pk, path=path, key=key)


_BY_KEY: Final = statements.Read(_by_key)


def find_key(*, agent_pk: int, path: str, prefix: str, since: datetime) -> str | None:
    """The newest key with this prefix that was answered since then, or None."""
    rows = Answer.objects.filter(agent_id=agent_pk, path=path, key__startswith=prefix, answered_at__gte=since)
    return rows.order_by("-answered_at").values_list("key", flat=True).first()
