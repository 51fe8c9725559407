"""What a verdict obliges the runtime to (DARE, obligations): enforced around each call, and recorded."""

from runtime.contracts.states import Choice


class Obligation(Choice):
    """Each with what holds the runtime to it.

    `audit_log`: nothing is called whose verdict is not, byte for byte, in the ledger. `sign_action` and
    `hitl_approval`: nothing is called without the signed decision of the person who made the proposal.
    `redact`: receipts lose what the kind redacts before they are stored. `limit`: limits are asked again, and
    what is claimed of resources is held, before the call.
    """

    AUDIT_LOG = "audit_log"
    SIGN_ACTION = "sign_action"
    HITL_APPROVAL = "hitl_approval"
    REDACT = "redact"
    LIMIT = "limit"
