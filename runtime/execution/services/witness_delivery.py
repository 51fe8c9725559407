"""Sending a checkpoint to a webhook outside. It changes nothing at any target and needs no intent."""

from typing import Final

from runtime.execution.adapters.notices import webhook

# A checkpoint is small: whoever takes longer is tried again with a newer one.
SEND_S: Final = 10.0


def post(*, url: str, secret: str, message_id: str, body: bytes) -> str | None:
    """POST a signed request; None where it was taken, else why not, in words without any part of the URL.

    Blocks for up to SEND_S seconds: never call it in a transaction.
    """
    return webhook.post(url=url, secret=secret, message_id=message_id, body=body, timeout_s=SEND_S)
