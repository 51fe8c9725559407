"""Answers kept for repeated calls: the same Idempotency-Key gets the same answer, and changes nothing again.

The scope is the agent, or the key of a feed, with path and Idempotency-Key; what was asked is compared by the
digest of the canonical body.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Exists, QuerySet

from audit import canonical, statements, told
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import recorded_answers
from runtime.core.models import Answer

TAMPERED: Final = (
    "The stored response to this call does not match the ledger, so it is not repeated. Read the state of "
    "the flow, and ask an operator to run manage.py verify_ledger."
)


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

    410 where the answer was erased with the words of its flow: the call is not made anew. 409 where it is not
    what the ledger recorded: it is not repeated, and an entry says so.

    `makes` is what the call makes, for the sentence of the refusal. The caller holds a lock that lets only
    one of several equal calls through at a time: the rest find the answer of the first.
    """
    stored = _BY_KEY.first(agent_pk=agent_pk, path=call.path, key=call.key)
    found = _response_of(stored, call=call, makes=makes, dfid=dfid)
    if stored is not None and isinstance(found, bytes) and recorded_answers.refuse_tampered(stored):
        return Problem(code=ProblemCode.TAMPERED, detail=TAMPERED, dfid=None if dfid is None else str(dfid))
    return found


def is_answered(*, agent_pk: int, path: str, key: str) -> Exists:
    """For a query: whether `find_response` would find a stored answer, of whatever body."""
    return Exists(_by_key(agent_pk=agent_pk, path=path, key=key))


def find_response_to_feed(*, key_pk: int, call: IdempotentRequest, makes: str) -> bytes | Problem | None:
    """`find_response` for the key of a feed, which compares what it gets with the version of its fact.

    Of equal calls at once the database keeps one answer.
    """
    stored = Answer.objects.filter(feed_key_id=key_pk, path=call.path, key=call.key).first()
    return _response_of(stored, call=call, makes=makes, dfid=None)


def _response_of(
    stored: Answer | None, *, call: IdempotentRequest, makes: str, dfid: UUID | None
) -> bytes | Problem | None:
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


def decided(*, agent_pk: int, call: IdempotentRequest, body: bytes, at: datetime, dfid: UUID) -> Answer:
    """The row of a decided answer, for the journal of its flow to store with a commitment to it."""
    return Answer(
        agent_id=agent_pk,
        path=call.path,
        key=call.key,
        request_digest=canonical.digest(call.body),
        body=body,
        answered_at=at,
        dfid=dfid,
        salt=told.new_salt(),
    )


def claim_key(*, agent_pk: int, call: IdempotentRequest, body: bytes, at: datetime) -> None:
    """Keep which body a key was used with, where the answers are kept by other keys: that of a batch."""
    _store(call, body, at, agent_id=agent_pk)


def store_response_to_feed(*, key_pk: int, call: IdempotentRequest, body: bytes, at: datetime) -> None:
    """Keep the answer to a feed, in the transaction of its write; it is compared with the fact's version."""
    _store(call, body, at, feed_key_id=key_pk)


def _store(call: IdempotentRequest, body: bytes, at: datetime, **of: int) -> None:
    answer = Answer(
        **of,
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
