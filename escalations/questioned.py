"""The receipt that a person is asked about, because it comes to no outcome that its policy kind allows."""

from audit import canonical, queries
from audit.events import Kind
from escalations.models import Escalation
from runtime.contracts.reasons import QUESTIONED
from runtime.core.views import labels


def recorded_receipt(escalation: Escalation) -> str:
    """As its target gave it, to be marked done with or corrected; empty where there is none, or erased."""
    if escalation.reason not in QUESTIONED or escalation.intent_id is None:
        return ""
    told = queries.list_payloads(
        tenant=escalation.tenant, stream=str(escalation.flow_id), kinds=(Kind.ATTEMPT_FINISHED,)
    )
    kept = [
        payload["receipt_commitment"]
        for _, payload in told
        if payload["intent_id"] == str(escalation.intent_id) and payload["receipt_commitment"]
    ]
    bodies = queries.list_bodies(tenant=escalation.tenant, commitments=kept[-1:])
    body = next(iter(bodies.values()), None)
    return labels.pretty(canonical.decode(body)) if body else ""
