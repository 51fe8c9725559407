"""The Standard Webhooks signature of a call, with a secret that only this package reads."""

import os
import secrets
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime

from standardwebhooks.webhooks import Webhook

_PREFIX = "whsec_"
_SECRET_BYTES = 32


class SecretError(Exception):
    """The secret is not there or cannot be used; the text names the variable, and never its value."""


def headers(*, secret_env: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The three signature headers. Raises `SecretError`."""
    return _headers(_webhook(secret_env), message_id=message_id, at=at, body=body)


def headers_with(*, secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The three signature headers by a secret of `new_secret`."""
    return _headers(Webhook(secret), message_id=message_id, at=at, body=body)


def new_secret() -> str:
    """A new secret in the form that Standard Webhooks gives to its receivers."""
    return _PREFIX + b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def is_signed(*, secret_env: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a message carries a signature by the secret in a variable, at most five minutes old."""
    try:
        webhook = _webhook(secret_env)
    except SecretError:
        return False
    try:
        webhook.verify(body, dict(headers), json_parse=False)
    except Exception:  # what a stranger sends may be wrong in every way
        return False
    return True


def trouble(secret_env: str) -> str | None:
    """What is wrong with the secret in a variable; None where nothing is."""
    try:
        _webhook(secret_env)
    except SecretError as error:
        return str(error)
    return None


def _headers(webhook: Webhook, *, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": webhook.sign(msg_id=message_id, timestamp=at, data=body.decode()),
    }


def _webhook(secret_env: str) -> Webhook:
    secret = os.environ.get(secret_env, "")
    if not secret:
        raise SecretError(f"the variable {secret_env} is not set")
    try:
        return Webhook(secret)
    except Exception as error:
        # The library has several exceptions for a secret that it cannot use; their texts may show it.
        raise SecretError(f"the variable {secret_env} holds no base64 secret") from error


def bearer(secret_env: str) -> dict[str, str]:
    """The header with the token in a variable. Raises `SecretError`."""
    token = os.environ.get(secret_env, "")
    if not token:
        raise SecretError(f"the variable {secret_env} is not set")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SecretError(f"the variable {secret_env} holds no token")
    return {"Authorization": f"Bearer {token}"}
