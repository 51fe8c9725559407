"""An executor that touches nothing: the receipt follows from the key and the body alone."""

from audit import canonical
from runtime.contracts.receipt import Receipt
from runtime.execution.adapters.executors.call import TargetCall


def execute(call: TargetCall) -> Receipt:
    """A receipt that is the same for the same call."""
    with call.gate():
        receipt = {
            "simulated": True,
            "receipt_id": f"sim_{call.key[:16]}",
            "request_digest": canonical.digest(call.body),
        }
    return Receipt(status_code=200, body=canonical.encode(receipt))
