"""Feedback on decision records: one row and one entry in the stream of the flow, also after its end.

It changes no record and no verdict, and is shown to no agent. What was said before stays: a newer one of the
same person counts in its place.
"""

from typing import Any
from uuid import UUID

from audit import actors, assessments, canonical, chain, events, ledger
from audit.models import Payload, RecordFeedback
from audit.payload_keys import PayloadClass
from audit.records.queries import Record
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.flows.services import locks
from runtime.flows.services.flow_transaction import Journal

_NO_FORM = "The form has no id. Open the record again and fill it in there."
_USED = "This form was sent before with something else. Open the record again to say something new."


@transactions.retried
def give(
    *,
    tenant: str,
    record: Record,
    author: Any,
    form_id: UUID | None,
    assessment: str,
    correction: str = "",
    reason: str = "",
) -> RecordFeedback | Problem:
    """Say what `author` thinks of a record, which was compared with its entry; a form sent twice is one."""
    given = assessments.read(assessment=assessment, correction=correction, reason=reason)
    if isinstance(given, str):
        return Problem(code=ProblemCode.FEEDBACK_UNSOUND, detail=given)
    if form_id is None:
        return Problem(code=ProblemCode.FEEDBACK_UNSOUND, detail=_NO_FORM)
    flow = locks.lock_one(dfid=UUID(record.dfid), tenant=tenant)
    if flow is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail="No flow has this record.")
    actor = actors.user(author.pk)
    sent = RecordFeedback.objects.filter(feedback_id=form_id).first()
    if sent is not None:
        is_same = (sent.record, sent.author, sent.assessment, sent.correction) == (
            record.pk,
            actor,
            given.assessment,
            given.correction,
        ) and _has_reason(sent, given.reason)
        return sent if is_same else Problem(code=ProblemCode.FEEDBACK_SENT_BEFORE, detail=_USED)
    journal = Journal(flow=flow, actor=actor, at=clock.now())
    earlier = RecordFeedback.objects.filter(record=record.pk, author=actor).order_by("-number")
    before = earlier.values_list("number", flat=True).first() or 0
    commitment = ""
    if given.reason:
        commitment = ledger.commit_payload(
            tenant=tenant, data_class=PayloadClass.PEOPLE, body=canonical.encode(given.reason)
        )
    row = RecordFeedback.objects.create(
        tenant=tenant,
        feedback_id=form_id,
        record=record.pk,
        record_id=record.record_id,
        dfid=flow.dfid,
        author=actor,
        number=before + 1,
        assessment=given.assessment,
        correction=given.correction,
        commitment=commitment,
        has_decided=any(item["approver"] == actor for item in record.document["approvals"]),
        at=journal.at,
    )
    journal.add(
        events.RecordFeedbackGiven(
            feedback_id=str(row.feedback_id),
            record_id=row.record_id,
            record_hash=record.document["audit"]["record_hash"],
            number=row.number,
            assessment=row.assessment,
            correction=row.correction,
            reason_commitment=row.commitment or None,
            has_decided=row.has_decided,
        )
    )
    journal.write()
    return row


def _has_reason(row: RecordFeedback, reason: str) -> bool:
    """Whether these are the words that were given, as far as they are still kept."""
    if not row.commitment or not reason:
        return not row.commitment and not reason
    salt = Payload.objects.filter(commitment=row.commitment).values_list("salt", flat=True).first()
    return salt is None or chain.commitment(bytes(salt), canonical.encode(reason)) == row.commitment
