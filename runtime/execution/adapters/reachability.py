"""Looks at an address and a secret as the http executor would, without sending a request."""

from dataclasses import dataclass

import httpcore2
import httpx2
from django.conf import settings

from runtime.execution.adapters import egress, signing, transport

CONNECT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class ConnectionFinding:
    """One finding, in words for a person."""

    is_good: bool
    words: str


def reach(base_url: str) -> ConnectionFinding:
    """Whether a connection (with TLS for https) can be made; nothing is sent over it."""
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        return ConnectionFinding(is_good=False, words="this is not a URL")
    if url.scheme not in {"http", "https"} or not url.host:
        return ConnectionFinding(is_good=False, words="this is not an http or https URL")
    secure = url.scheme == "https"
    network = transport.GuardedNetwork(
        egress=egress.rule(settings.DIR_EGRESS_ALLOW), trip=transport.Trip(timeout_s=CONNECT_S)
    )
    try:
        stream = network.connect_tcp(url.host, url.port or (443 if secure else 80))
        if secure:
            stream = stream.start_tls(transport.tls(), server_hostname=url.host)
    except egress.EgressRefusedError:
        return ConnectionFinding(is_good=False, words=egress.REFUSED)
    except egress.UnresolvedError:
        return ConnectionFinding(is_good=False, words="the host name does not resolve")
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
        return ConnectionFinding(
            is_good=False, words="no server responds there, or its certificate is not valid"
        )
    stream.close()
    return ConnectionFinding(is_good=True, words="reachable")


def signing_secret(secret_env: str) -> ConnectionFinding:
    """Whether calls can be signed as the target's row asks."""
    if not secret_env:
        return ConnectionFinding(is_good=True, words="calls are not signed: the target names no secret")
    reason = signing.trouble(secret_env)
    if reason is not None:
        return ConnectionFinding(is_good=False, words=reason)
    return ConnectionFinding(is_good=True, words=f"calls are signed with the secret in {secret_env}")
