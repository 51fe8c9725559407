"""A notice as a POST, signed in the form of Standard Webhooks, over the guarded transport of all calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx2
from django.conf import settings

from runtime.execution.adapters import egress, retry_after, signing, transport


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What came of a POST. `why` is None where the receiver answered with a status in 2xx.

    Else it says why not, in a few words that hold neither the URL nor anything that the receiver sent.
    `status` is None where no answer came; `wait_s` is what a Retry-After header asked for, in seconds.
    `body` is the beginning of an answer in 2xx, as much as was asked for.
    """

    why: str | None
    status: int | None = None
    wait_s: float | None = None
    body: bytes = b""


def post(*, url: str, secret: str, message_id: str, body: bytes, timeout_s: float) -> str | None:
    """POST `body` as JSON, signed with `secret`; None where it was taken, else why not."""
    signed = signing.headers_with(secret=secret, message_id=message_id, at=datetime.now(UTC), body=body)
    return send(url=url, headers=signed, body=body, timeout_s=timeout_s).why


def send(
    *, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float, read_bytes: int = 0
) -> Answered:
    """POST `body`, as JSON where `headers` say nothing else.

    Redirects are not followed. Of the body of the answer the first `read_bytes` are read.
    """
    sent = {"Content-Type": "application/json", "User-Agent": "dir-console", **headers}
    trip = transport.Trip(timeout_s=timeout_s)
    try:
        with (
            transport.client(egress=egress.rule(settings.DIR_EGRESS_ALLOW), trip=trip) as client,
            client.stream("POST", url, content=body, headers=sent) as answer,
        ):
            status, wait_s = answer.status_code, retry_after.seconds(answer.headers.get("retry-after", ""))
            said = _beginning(answer, read_bytes) if httpx2.codes.is_success(status) else b""
    except egress.EgressRefusedError:
        return Answered(why=egress.REFUSED)
    except egress.UnresolvedError:
        return Answered(why="the host name does not resolve")
    except httpx2.TimeoutException:
        return Answered(why="no answer arrived in time")
    except (httpx2.TransportError, httpx2.InvalidURL):
        lost = "no connection, or it closed before the answer"
        return Answered(why=lost if trip.sent else "no connection could be made")
    if httpx2.codes.is_success(status):
        return Answered(why=None, status=status, body=said)
    return Answered(why=f"the receiver answered {status}", status=status, wait_s=wait_s)


def _beginning(answer: httpx2.Response, most: int) -> bytes:
    read = b""
    if most:
        for chunk in answer.iter_bytes(most):
            read += chunk
            if len(read) >= most:
                break
    return read[:most]


def trouble(url: str) -> str | None:
    """What is wrong with an address, as far as that is known without a look-up; None where nothing is."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return "This is not a valid URL."
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        return "This is not a valid http or https URL."
    if parsed.userinfo:
        return "A webhook URL must not hold a user name or password: requests are signed instead."
    # An address, or a name of this machine: no resolver is asked while somebody waits for the page.
    host = parsed.host.strip("[]")
    if host == "localhost" or ":" in host or host.replace(".", "").isdigit():
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        try:
            egress.rule(settings.DIR_EGRESS_ALLOW).addresses(host=host, port=port)
        except egress.EgressRefusedError:
            return f"This cannot be called: {egress.REFUSED}."
        except egress.UnresolvedError:
            return "The host of this URL is not a valid address."
    return None


def is_private_enough(url: str) -> bool:
    """Whether it is sent by TLS, or to a host that DIR_EGRESS_ALLOW names."""
    parsed = httpx2.URL(url)
    name, port = parsed.host.lower(), parsed.port or 80
    return parsed.scheme == "https" or bool({name, f"{name}:{port}"} & set(settings.DIR_EGRESS_ALLOW))
