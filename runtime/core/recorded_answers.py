"""Answers that are kept for repeated calls, compared with the ledger before one is repeated.

An entry of the flow holds a commitment to the answer (`audit.told`). Only a repeat of a call costs the
reads of this module.
"""

import re
from typing import Final
from uuid import UUID

from audit import actors, canonical, cells, ledger, queries, told
from runtime.core import clock, mismatches
from runtime.core.mismatches import NOT_RECORDED, Mismatch
from runtime.core.models import Answer

# What is kept of a batch says which body its key was used with; its proposals have their own answers.
BATCH: Final = "/proposals/batch"
_ROW: Final = "answer.body"
_IN_PATH: Final = re.compile(r"flows/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:/|$)")


def refuse_tampered(stored: Answer) -> bool:
    """Whether an answer is not what was recorded; an entry in the stream of its agent says so, once."""
    tenant, agent_id = answered(stored)
    mismatch = compare(stored, tenant=tenant)
    if mismatch is None:
        return False
    stream = actors.agent(agent_id)
    unsaid = mismatches.list_unsaid([mismatch], tenant=tenant, stream=stream)
    if unsaid:
        told_now = [item.event() for item in unsaid]
        ledger.append_to(tenant=tenant, stream=stream, actor=actors.SYSTEM, at=clock.now(), events=told_now)
    return True


def compare(stored: Answer, *, tenant: str) -> Mismatch | None:
    """Compare an answer, which is not erased, with the commitment in its flow's entry; None where equal.

    One from before there were commitments is compared with nothing, if its flow is as old.
    """
    if stored.entry_seq is None and is_of_batch(stored):
        return None
    found = commitment_of(stored)
    dfid = flow_of(stored)
    if dfid is None:
        recorded = NOT_RECORDED
    elif stored.entry_seq is None:
        in_flow = told.recorded_in(tenant=tenant, stream=str(dfid))
        if not in_flow.must_be_recorded and name_of(stored) not in in_flow.answers:
            return None
        recorded = in_flow.answers.get(name_of(stored), NOT_RECORDED)
    else:
        payload = queries.payload_at(tenant=tenant, stream=str(dfid), seq=stored.entry_seq) or {}
        recorded = told.committed(payload, told.ANSWERS).get(name_of(stored), NOT_RECORDED)
    if recorded == found:
        return None
    return Mismatch(row=_ROW, row_id=str(stored.pk), recorded=recorded, found=found)


def answered(stored: Answer) -> tuple[str, str]:
    """Tenant and id of the agent that was answered; feeds have answers of another sort."""
    if stored.agent is None:
        raise TypeError("it is the answer to a feed")
    return stored.agent.tenant, stored.agent.agent_id


def name_of(stored: Answer) -> str:
    """What entries call it."""
    return told.answer_name(stored.path, stored.key)


def commitment_of(stored: Answer) -> str:
    """The commitment to what is stored."""
    salt, body = cells.bytes_of(stored.salt) or b"", cells.bytes_of(stored.body) or b""
    return told.of_answer(salt, stored.path, stored.key, stored.request_digest, body)


def is_of_batch(stored: Answer) -> bool:
    """Whether it is what is kept of a whole batch."""
    return stored.path.endswith(BATCH)


def flow_of(stored: Answer) -> UUID | None:
    """The flow of an answer, as its row, its path or its body names it."""
    if stored.dfid is not None:
        return stored.dfid
    in_path = _IN_PATH.search(stored.path)
    if in_path is not None:
        return UUID(in_path[1])
    try:
        return UUID(canonical.decode(bytes(stored.body))["dfid"])
    except (canonical.CanonicalError, AttributeError, KeyError, TypeError, ValueError):
        return None
