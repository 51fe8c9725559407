"""REQUEST_INFO: a question to the agent before anybody decides (DIR paper, 9.4). It resolves nothing."""

import secrets
from datetime import datetime
from typing import Any

from audit import canonical, events, ledger, signing
from escalations.models import Question
from escalations.services import waiting
from escalations.services.statements import Order
from runtime.contracts.states import FeedbackType
from runtime.kernel import moments
from runtime.services.journal import Journal


def ask(*, order: Order, journal: Journal) -> Question:
    """Put the question that policy allowed: stop the clock, sign who asked on what evidence, tell the agent.

    The text may be personal: the ledger holds a commitment to it.
    """
    row, text = order.escalation, order.wish.justification
    number = Question.objects.filter(escalation=row).count() + 1
    until = waiting.start(escalation=row, at=order.at)
    statement = canonical.encode(_statement(order, number=number, until=until))
    signer = signing.signer()
    question = Question.objects.create(
        escalation=row,
        number=number,
        text=text,
        asked_by=order.user,
        asked_at=order.at,
        wait_until=until,
        revision=row.revision,
        evidence_hash=row.evidence_hash,
        statement=statement,
        signature=signer.sign(statement),
        key_id=signer.key_id,
    )
    journal.add(
        events.InformationRequested(
            escalation_id=str(row.pk),
            number=number,
            text_commitment=ledger.commit_payload(tenant=row.tenant, body=canonical.encode(text)),
            revision=row.revision,
            evidence_hash=row.evidence_hash,
            until=until,
            statement_digest=canonical.digest(statement),
            signature=question.signature.hex(),
            key_id=signer.key_id,
        )
    )
    told = {
        "escalation_id": str(row.pk),
        "number": number,
        "question": text,
        "until": moments.iso(moments.to_ms(until)),
    }
    journal.tell(FeedbackType.INFORMATION_REQUESTED, told)
    return question


def _statement(order: Order, *, number: int, until: datetime) -> dict[str, Any]:
    row = order.escalation
    return {
        "type": "dir-console/question/1",
        "tenant": row.tenant,
        "escalation_id": str(row.pk),
        "dfid": str(row.flow_id),
        "number": number,
        "revision": row.revision,
        "evidence_hash": row.evidence_hash,
        "impact": row.impact,
        "question": order.wish.justification,
        "asked_by": f"user:{order.person.user_id}",
        "solo": order.solo,
        "asked_at": moments.iso(moments.to_ms(order.at)),
        "until": moments.iso(moments.to_ms(until)),
        "nonce": secrets.token_hex(16),
    }
