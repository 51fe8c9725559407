"""A notice as a POST, signed in the form of Standard Webhooks, over the guarded transport of all calls."""

from datetime import UTC, datetime

import httpx2
from django.conf import settings

from runtime.execution.adapters import egress, signing, transport


def post(*, url: str, secret: str, message_id: str, body: bytes, timeout_s: float) -> str | None:
    """POST `body`; None where the receiver answered with a status in 2xx, else why not, in a few words.

    The words hold neither the URL nor anything that the receiver sent. Redirects are not followed, and the
    body of the answer is not read.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "dir-console",
        **signing.headers_with(secret=secret, message_id=message_id, at=datetime.now(UTC), body=body),
    }
    trip = transport.Trip(timeout_s=timeout_s)
    try:
        with (
            transport.client(egress=egress.rule(settings.DIR_EGRESS_ALLOW), trip=trip) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            status_code = answer.status_code
    except egress.EgressRefusedError:
        return egress.REFUSED
    except egress.UnresolvedError:
        return "the host name does not resolve"
    except httpx2.TimeoutException:
        return "no answer arrived in time"
    except (httpx2.TransportError, httpx2.InvalidURL):
        return "no connection, or it closed before the answer" if trip.sent else "no connection could be made"
    if httpx2.codes.is_success(status_code):
        return None
    return f"the receiver answered {status_code}"


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
