"""Sending events to a receiver outside. It changes nothing at any target and needs no intent."""

from datetime import UTC, datetime
from typing import Final

from runtime.execution.adapters import signing
from runtime.execution.adapters.notices import webhook
from runtime.execution.adapters.notices.webhook import Answered

# Longer than a receiver needs that takes an event and works on it afterwards.
SEND_S: Final = 10.0

__all__ = ["SEND_S", "Answered", "post_signed", "trouble"]


def post_signed(*, url: str, secret_env: str, message_id: str, media_type: str, body: bytes) -> Answered:
    """POST with the headers of Standard Webhooks, by the secret in a variable of the environment.

    Blocks for up to SEND_S seconds: never call it in a transaction.
    """
    try:
        signed = signing.headers(
            secret_env=secret_env, message_id=message_id, at=datetime.now(UTC), body=body
        )
    except signing.SecretError as error:
        return Answered(why=str(error))
    headers = {**signed, "Content-Type": media_type}
    return webhook.send(url=url, headers=headers, body=body, timeout_s=SEND_S)


def trouble(url: str) -> str | None:
    """What is wrong with the address of a receiver; None where nothing is. Asks no resolver."""
    if (wrong := webhook.trouble(url)) is not None:
        return wrong
    if not webhook.is_private_enough(url):
        return "The URL must begin with https, unless DIR_EGRESS_ALLOW names its host."
    return None
