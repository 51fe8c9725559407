"""The first of two decisions while it awaits the second: how it ends."""

from audit import events
from escalations.contracts import DecisionState, FirstEnd
from escalations.models import Decision, Escalation


def end(*, escalation: Escalation, why: FirstEnd) -> list[events.Event]:
    """End the first decision on a locked escalation; returns its entry, if one awaited a second."""
    first = Decision.objects.filter(escalation=escalation, state=DecisionState.AWAITING_SECOND).first()
    if first is None:
        return []
    is_confirmed = why is FirstEnd.CONFIRMED
    first.state = DecisionState.CONFIRMED if is_confirmed else DecisionState.SUPERSEDED
    first.save(update_fields=["state"])
    return [
        events.EscalationFirstEnded(
            escalation_id=str(escalation.pk), sequence=first.sequence, state=first.state, why=why
        )
    ]
