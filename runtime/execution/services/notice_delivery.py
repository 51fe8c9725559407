"""Sending one notice to one address outside, and checking an address. Every ending is a value.

It changes nothing at any target and needs no intent: people are told that something waits for them.
"""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from runtime.execution.adapters import signing
from runtime.execution.adapters.notices import apprise_sender, webhook

WEBHOOKS = frozenset({"http", "https"})
LONGEST_URL = 2000
LONGEST_HOST = 253
# The longest that one try takes; a lease on a notice has to be longer.
SEND_S = 15.0


@dataclass(frozen=True, kw_only=True)
class OutgoingNotice:
    """A notice in both forms. By `message_id`, the same at every try, a receiver knows a repetition."""

    message_id: str
    title: str
    text: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Address:
    """A usable address: what may be shown of it. `host` is empty where that place holds a token."""

    scheme: str
    host: str

    @property
    def is_webhook(self) -> bool:
        """Whether it gets a signed POST, and therefore has a secret."""
        return self.scheme in WEBHOOKS


def read_address(url: str) -> Address | str:
    """What may be shown of a URL, or what is wrong with it. Starts a process for all but webhooks."""
    if len(url) > LONGEST_URL or not url.isprintable() or any(char.isspace() for char in url):
        return f"Enter one URL without spaces, of at most {LONGEST_URL} characters."
    parts = _split(url)
    if parts is None or not parts.scheme or "://" not in url:
        return "Enter a URL with its scheme, such as https://hooks.example.com/dir or mailto://user:password@example.com."
    is_webhook = parts.scheme in WEBHOOKS
    if (wrong := webhook.trouble(url) if is_webhook else apprise_sender.trouble(parts)) is not None:
        return wrong
    has_host = is_webhook or apprise_sender.SCHEMES[parts.scheme]
    return Address(scheme=parts.scheme, host=_host(parts)[:LONGEST_HOST] if has_host else "")


def new_secret() -> str:
    """A new secret for the signatures of one webhook."""
    return signing.new_secret()


def deliver(*, url: str, secret: str, notice: OutgoingNotice) -> str | None:
    """Send a notice; None where it was taken, else why not, in words without any part of the URL.

    Blocks for up to SEND_S seconds: never call it in a transaction.
    """
    parts = _split(url)
    if parts is not None and parts.scheme in WEBHOOKS:
        return webhook.post(
            url=url, secret=secret, message_id=notice.message_id, body=notice.body, timeout_s=SEND_S
        )
    return apprise_sender.send(
        url=url, message_id=notice.message_id, title=notice.title, text=notice.text, timeout_s=SEND_S
    )


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _host(parts: SplitResult) -> str:
    """The host with its port; without it where it is no number, since it could be a part of a password."""
    try:
        port = parts.port
    except ValueError:
        port = None
    name = parts.hostname or ""
    return name if port is None else f"{name}:{port}"
