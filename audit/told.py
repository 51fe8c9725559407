"""Commitments to what an agent is told: feedback on its flows, and answers that are kept for repeated calls.

They are further members of the payload of the last entry that the same transaction writes to the flow's
stream, and cost no entry and no statement of their own. A commitment is salted, since what it covers may be
personal; the salt is in the row and is erased with it.

`feedback_commitments` maps the number of an event of the flow to its commitment, `answer_commitments` the
name of a kept answer (`answer_name`) to its own.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from audit import canonical, chain, queries
from audit.events import Kind

FEEDBACK: Final = "feedback_commitments"
ANSWERS: Final = "answer_commitments"
# As a column of bytes is typed.
Bytes = bytes | memoryview
_SALT_BYTES: Final = 16
_NAME_DIGITS: Final = 32


def new_salt() -> bytes:
    """The salt of one commitment."""
    return secrets.token_bytes(_SALT_BYTES)


def of_feedback(salt: Bytes, seq: int, event_type: str, body: Bytes) -> str:
    """The commitment to an event of a flow: to its number, its type and its bytes."""
    return chain.commitment(bytes(salt), f"{seq}\n{event_type}\n".encode() + bytes(body))


def of_answer(salt: Bytes, path: str, key: str, request_digest: str, body: Bytes) -> str:
    """The commitment to a kept answer: to the call that it belongs to, what was asked, and its bytes."""
    return chain.commitment(bytes(salt), f"{path}\n{key}\n{request_digest}\n".encode() + bytes(body))


def committed(payload: Mapping[str, Any], member: str) -> dict[str, str]:
    """The commitments of one kind in the payload of an entry; none where it has another form."""
    found = payload.get(member)
    return dict(found) if isinstance(found, dict) else {}


def answer_name(path: str, key: str) -> str:
    """What an entry calls the answer to a call: 32 hex digits, since its key is the agent's own word."""
    return canonical.digest(f"{path}\n{key}".encode())[:_NAME_DIGITS]


@dataclass(frozen=True, slots=True)
class RecordedInFlow:
    """All commitments of one flow: those to events by number, and those to answers by name.

    `must_be_recorded`: all that its agent is told is, since it was opened after there were commitments.
    """

    feedback: Mapping[int, str]
    answers: Mapping[str, str]
    must_be_recorded: bool

    def may_be_old(self, seq: int) -> bool:
        """Whether the event of this number can be from before there were commitments."""
        return not self.must_be_recorded and seq < min(self.feedback, default=seq + 1)


def recorded_in(*, tenant: str, stream: str) -> RecordedInFlow:
    """Every commitment in the entries of a flow. Reads all of them: only for a row that names none."""
    feedback: dict[int, str] = {}
    answers: dict[str, str] = {}
    # A stream that no flow begins is of none that is old.
    must_be_recorded = True
    for kind, payload in queries.list_payloads(tenant=tenant, stream=stream, kinds=list(Kind)):
        feedback |= {int(seq): one for seq, one in committed(payload, FEEDBACK).items()}
        answers |= committed(payload, ANSWERS)
        if kind == Kind.FLOW_OPENED:
            must_be_recorded = bool(payload.get("told_recorded"))
    return RecordedInFlow(feedback, answers, must_be_recorded)
