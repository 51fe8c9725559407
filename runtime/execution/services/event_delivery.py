"""Sending events to a receiver outside. It changes nothing at any target and needs no intent.

Every ending is a value. Nothing here is called in a transaction: it blocks for up to SEND_S seconds.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from runtime.execution.adapters import event_files, signing, syslog_stream
from runtime.execution.adapters.notices import webhook
from runtime.execution.adapters.notices.webhook import Answered

# Longer than a receiver needs that takes an event and works on it afterwards.
SEND_S: Final = 10.0
FILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SYSLOG: Final = frozenset({"tcp", "tls"})

__all__ = [
    "SEND_S",
    "Answered",
    "append_to_file",
    "post_signed",
    "post_with_token",
    "send_syslog",
    "trouble",
    "trouble_with_file",
    "trouble_with_syslog",
]


def post_signed(*, url: str, secret_env: str, message_id: str, media_type: str, body: bytes) -> Answered:
    """POST with the headers of Standard Webhooks, by the secret in a variable of the environment."""
    try:
        signed = signing.headers(
            secret_env=secret_env, message_id=message_id, at=datetime.now(UTC), body=body
        )
    except signing.SecretError as error:
        return Answered(why=str(error))
    headers = {**signed, "Content-Type": media_type}
    return webhook.send(url=url, headers=headers, body=body, timeout_s=SEND_S)


def post_with_token(
    *, url: str, secret_env: str, message_id: str, media_type: str, body: bytes, read_bytes: int = 0
) -> Answered:
    """POST with the token in a variable of the environment as bearer, or without one where none is named.

    Of an answer in 2xx, the first `read_bytes` are read.
    """
    try:
        token = signing.bearer(secret_env) if secret_env else {}
    except signing.SecretError as error:
        return Answered(why=str(error))
    headers = {**token, "Content-Type": media_type, "Idempotency-Key": message_id}
    return webhook.send(url=url, headers=headers, body=body, timeout_s=SEND_S, read_bytes=read_bytes)


def append_to_file(*, name: str, day: str, ending: str, head: bytes, lines: bytes) -> Answered:
    """Append to `NAME-DAY.ENDING` in DIR_EVENTS_FOLDER, so that a new file begins each day."""
    if (wrong := trouble_with_file(name)) is not None:
        return Answered(why=wrong)
    path = Path(settings.DIR_EVENTS_FOLDER) / f"{name}-{day}.{ending}"
    return Answered(why=event_files.append(path, head=head, lines=lines))


def send_syslog(*, url: str, messages: Sequence[bytes]) -> Answered:
    """Send over one connection to `tcp://HOST:PORT` or `tls://HOST:PORT`."""
    parts = urlsplit(url)
    sent = syslog_stream.send(
        host=parts.hostname or "",
        port=parts.port or 0,
        with_tls=parts.scheme == "tls",
        messages=messages,
        timeout_s=SEND_S,
    )
    return Answered(why=sent)


def trouble(url: str) -> str | None:
    """What is wrong with a URL that gets a POST; None where nothing is. Asks no resolver."""
    if (wrong := webhook.trouble(url)) is not None:
        return wrong
    if not webhook.is_private_enough(url):
        return "The URL must begin with https, unless DIR_EGRESS_ALLOW names its host."
    return None


def trouble_with_file(name: str) -> str | None:
    """What is wrong with the name of a file; None where nothing is."""
    if not settings.DIR_EVENTS_FOLDER:
        return "DIR_EVENTS_FOLDER names no folder for files of events"
    if not FILE_NAME.fullmatch(name):
        return "Enter the beginning of a file name, of small letters, digits and hyphens."
    return None


def trouble_with_syslog(url: str) -> str | None:
    """What is wrong with the address of a syslog receiver; None where nothing is."""
    said = "Enter the address as tls://HOST:PORT, or tcp://HOST:PORT where DIR_EGRESS_ALLOW names the host."
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return said
    is_whole = parts.hostname and port and not parts.path and not parts.query and parts.username is None
    if parts.scheme not in _SYSLOG or not is_whole:
        return said
    # The same rules as for a URL: TLS, or a host that is allowed by name.
    scheme = "https" if parts.scheme == "tls" else "http"
    return said if trouble(f"{scheme}://{parts.netloc}/") is not None else None
